#!/usr/bin/env bash
# Fills a folder of packages with all that Draftlight needs to run: the lock's runtime part by hash, the wheel in dist/, and the
# built-in model; then takes away what is never used (trim.py) and compiles the rest.
#
#   packaging/fill_packages.sh SITE-PACKAGES PYTHON [PLATFORM]
#
# PYTHON is the interpreter that will run it, or one of the same version. PLATFORM is one of uv's, for another than this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

site=$1
python=$2
platform=${3:+--python-platform=$3}
wheel=$(ls dist/draftlight-*.whl)
uv=$(PYTHON=$python bash packaging/uv.sh)

# What is tested is what is packaged.
install() { "$uv" pip install --quiet --python "$python" $platform --target "$site" --no-deps --link-mode copy "$@"; }
install --require-hashes --only-binary :all: --requirements packaging/runtime.lock
install "$wheel"

mkdir -p "$site/assets/models" build/model
model=$(DRAFTLIGHT_HOME=$PWD/build/model PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1 "$python" -c \
    'from engine.files.builtin import fetch_builtin; print(fetch_builtin())')
cp "$model" "$site/assets/models/"

"$python" packaging/trim.py "$site"
# Nothing can be kept there later: a package belongs to root, and a signed application must not change. The sources do not change
# either, so nothing need be compared. Models in PyTorch are never imported: mlx-lm has its own and takes tokenizers only.
"$python" -m compileall -q -j 0 -s "$site" --invalidation-mode unchecked-hash \
    -x '/transformers/models/(?!auto/)[^/]*/(modeling|modular|convert|image_processing|video_processing)_' "$site"
