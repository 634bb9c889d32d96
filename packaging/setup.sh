#!/usr/bin/env bash
# Makes .venv with everything that the lock file names, and Draftlight itself as an editable install.
# Called by `make setup`, which calls it again only when the lock or pyproject.toml has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() { printf '%s\n' "$@" >&2; exit 1; }

case "$(uname -s) $(uname -m)" in
    "Darwin arm64" | "Linux x86_64" | "Linux aarch64") ;;
    "Darwin x86_64") stop "MLX needs Apple silicon, but this Mac has an Intel processor (or this terminal runs under Rosetta)." ;;
    *) stop "Draftlight runs on Macs with Apple silicon and on 64-bit Linux, not on $(uname -s) $(uname -m)." ;;
esac

bash packaging/system_packages.sh || stop "Qt cannot start without these packages."

# The first interpreter that is new enough; PYTHON=... chooses one.
python=""
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || stop "Draftlight needs Python 3.11 or newer. Found: $(python3 --version 2>&1 || echo 'no python3')." \
    "On a Mac: brew install python@3.12. On Debian: apt-get install python3 python3-venv. Or: make setup PYTHON=/path/to/python3.12"

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    "$python" -m venv --clear .venv || stop "$python cannot create virtual environments. On Debian: apt-get install python3-venv"
fi

# Wheels only and by hash: what is installed here is what was tested, and nothing is compiled.
.venv/bin/python -m pip install --quiet --require-hashes --only-binary :all: --no-deps -r packaging/development.lock
# Without build isolation: the build backend comes from the lock too.
.venv/bin/python -m pip install --quiet --no-build-isolation --no-deps --editable .
touch .venv/.complete
