#!/usr/bin/env bash
# Installs dist/draftlight-*.whl into an empty environment, as a user would have it, and runs its self-test from a folder
# where the source tree cannot help. The dependencies are the lock's runtime part, by hash.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=$(ls dist/draftlight-*.whl)
environment="$PWD/build/wheel-check"
python="$environment/bin/python"

.venv/bin/python -m venv --clear "$environment"
# Without byte code of everything, which takes pip twenty seconds: what the self-test imports is compiled as it is imported.
"$python" -m pip install --quiet --require-hashes --only-binary :all: --no-deps --no-compile -r packaging/runtime.lock
"$python" -m pip install --quiet --no-deps "$wheel"
"$python" -m pip check

empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
cd "$empty"
unset PYTHONPATH
"$python" -P -c "import engine; assert engine.__file__.startswith('$environment'), engine.__file__"
QT_QPA_PLATFORM=${QT_QPA_PLATFORM:-offscreen} "$environment/bin/draftlight" self-test
