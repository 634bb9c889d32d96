#!/usr/bin/env bash
# Resolves packaging/*.lock for every platform named under [tool.uv] in pyproject.toml. LOCK_UPGRADE=1 takes newer releases.
# packaging/fuzz.lock, one tool for one platform, is written by hand.
# uv resolves for all platforms at once, which pip cannot; nothing else here needs it, so it lives in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    [ -x build/uv/bin/uv ] || { python3 -m venv build/uv && build/uv/bin/python -m pip install --quiet uv; }
    uv=build/uv/bin/uv
fi

compile() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
        ${LOCK_UPGRADE:+--upgrade} pyproject.toml "$@"
}
compile --output-file packaging/runtime.lock
compile --extra dev --constraint packaging/runtime.lock --output-file packaging/development.lock

if grep -En '^torch==|://' packaging/*.lock; then
    echo "The lock files must contain neither torch nor URLs." >&2
    exit 1
fi
