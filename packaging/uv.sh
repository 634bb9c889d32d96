#!/usr/bin/env bash
# Says where uv is, and gets it first where there is none. pip can neither resolve for other platforms nor install for them; nothing
# else needs uv, so it lives in an environment of its own. In the repository's root: uv=$(bash packaging/uv.sh)
set -euo pipefail
command -v uv && exit
[ -x build/uv/bin/uv ] || { "${PYTHON:-python3}" -m venv build/uv && build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv >&2; }
echo "$PWD/build/uv/bin/uv"
