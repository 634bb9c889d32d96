#!/usr/bin/env bash
# Makes .venv with everything that the lock file names, and Draftlight itself as an editable install.
# Called by `make setup`, which calls it again only when a lock or pyproject.toml has changed, or for another back-end.
#
# BACKEND=cpu, cuda12 or cuda13 chooses the back-end of MLX on Linux. Without it an environment keeps the one that it has, and a new
# one takes CUDA where NVIDIA's driver and GPU can do with it (engine/machine/nvidia.py), else the CPU.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() { printf '%s\n' "$@" >&2; exit 1; }

case "$(uname -s) $(uname -m)" in
    "Darwin arm64" | "Linux x86_64" | "Linux aarch64") ;;
    "Darwin x86_64") stop "MLX needs Apple silicon, but this Mac has an Intel processor (or this terminal runs under Rosetta)." ;;
    *) stop "Draftlight runs on Macs with Apple silicon and on 64-bit Linux, not on $(uname -s) $(uname -m)." ;;
esac

case "$(uname -s) ${BACKEND:-}" in
    "Darwin " | "Linux " | "Linux cpu" | "Linux cuda12" | "Linux cuda13") ;;
    Darwin*) stop "BACKEND is for Linux. On a Mac MLX computes on the GPU." ;;
    *) stop "BACKEND has to be cpu, cuda12 or cuda13, not $BACKEND." ;;
esac

bash packaging/system_packages.sh || stop "Qt cannot start without these packages."

# From 3.11 on, and below what pyproject.toml excludes: PySide6 and others have no wheels for it.
fits() { "$@" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; }

if ! fits .venv/bin/python; then
    # The first interpreter that fits; PYTHON=... chooses one.
    python=""
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if fits "$candidate"; then python=$candidate; break; fi
    done
    if [ -n "$python" ]; then
        "$python" -m venv --clear .venv || stop "$python cannot create virtual environments. On Debian: apt-get install python3-venv"
    # A Mac without Homebrew has a Python that is too old, if any. uv brings one.
    elif [ -n "${PYTHON:-}" ] || ! uv=$(bash packaging/uv.sh) || ! "$uv" venv --quiet --clear --seed --python '>=3.11,<3.15' .venv; then
        stop "Draftlight needs Python 3.11 to 3.14. Found: $("${PYTHON:-python3}" --version 2>/dev/null || echo 'no Python')." \
            "On a Mac, install it from https://www.python.org/downloads/ or with: brew install python@3.13" \
            "On Debian: apt-get install python3 python3-venv" \
            "Then run make again, or name the interpreter: make setup PYTHON=/path/to/python3.13"
    fi
fi

# Wheels only and by hash: what is installed here is what was tested, and nothing is compiled. In CI not even to byte code: pip does
# it to all of 130 MB, on one core for half a minute, and the tests import a small part.
install() { .venv/bin/python -m pip install --quiet --require-hashes --only-binary :all: --no-deps ${CI:+--no-compile} "$@"; }
lock=packaging/development.lock
cuda=""

if [ "$(uname -s)" = Linux ]; then
    says() { .venv/bin/python -c "from engine.machine import mlx_import, nvidia; $1"; }
    installed=$(says 'print(*mlx_import.backends())')
    case "${BACKEND:-}" in
        cpu) backend=mlx-cpu ;;
        cuda*) backend=mlx-cuda-${BACKEND#cuda} ;;
        *) case "$installed" in
            mlx-cpu | mlx-cuda-12 | mlx-cuda-13) backend=$installed ;;
            *) backend=$(says 'print(nvidia.fitting())') ;;
        esac ;;
    esac
    if [ "$installed" != "$backend" ]; then
        rm -f .venv/.complete # until the other one is in
        # All of them bring the same mlx/lib/libmlx.so, so whatever is uninstalled last takes it along.
        others=$(.venv/bin/python -m pip list --format freeze | sed -nE 's/^(mlx-cpu|mlx-cuda-1[23]|nvidia-[a-z0-9-]+)==.*/\1/p')
        [ -z "$others" ] || .venv/bin/python -m pip uninstall --quiet --yes $others
    fi
    if [ "$backend" != mlx-cpu ]; then
        cuda=packaging/cuda${backend#mlx-cuda-}.lock
        lock=$(mktemp)
        trap 'rm -f "$lock"' EXIT
        sed '/^mlx-cpu==/,/[^\\]$/d' packaging/development.lock >"$lock"
        echo "Taking MLX for CUDA ($backend), with more than 2 GB of NVIDIA's libraries. For the CPU: make setup BACKEND=cpu"
        problem=$(says "print(nvidia.problem('$backend'))")
        [ -z "$problem" ] || echo "It cannot compute here: $problem." >&2
    fi
fi

install -r "$lock" ${cuda:+-r "$cuda"}
# Without build isolation: the build backend comes from the lock too.
.venv/bin/python -m pip install --quiet --no-build-isolation --no-deps --editable .
touch .venv/.complete
