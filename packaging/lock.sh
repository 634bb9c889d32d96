#!/usr/bin/env bash
# Resolves packaging/*.lock for every platform named under [tool.uv] in pyproject.toml. LOCK_UPGRADE=1 takes newer releases.
# packaging/fuzz.lock, one tool for one platform, is written by hand.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(bash packaging/uv.sh)

compile() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
        ${LOCK_UPGRADE:+--upgrade} "$@"
}
compile pyproject.toml --output-file packaging/runtime.lock
compile pyproject.toml --extra dev --constraint packaging/runtime.lock --output-file packaging/development.lock
# What takes the place of mlx-cpu for CUDA, of the same version as mlx.
mlx=$(sed -n 's/^mlx==\([0-9.]*\) .*/\1/p' packaging/development.lock)
for version in 12 13; do
    echo "mlx-cuda-$version==$mlx; sys_platform == 'linux'" | compile - --constraint packaging/development.lock --output-file packaging/cuda$version.lock
done
for group in docs workflows; do compile --group $group --output-file packaging/$group.lock; done

if grep -En '^torch==|://' packaging/*.lock; then
    echo "The lock files must contain neither torch nor URLs." >&2
    exit 1
fi
