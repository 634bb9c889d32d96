#!/usr/bin/env bash
# Sees to it that Debian and its kin have the system libraries Qt needs. Does nothing anywhere else.
#
#   system_packages.sh               what the window needs
#   system_packages.sh --tests       that, and clang for the kernel's tests, which compile its source as C++ and check its
#                                    address spaces; g++ would be half of that and is not needed beside it
#   system_packages.sh --list-needed what Qt cannot start without, one a line; --list-wanted: what a window on a screen needs
#
# Installs what is missing when it may (as root, or with a sudo that asks nothing); else names the one command to run.
# Exit status 1 only when Qt could not start at all.
set -euo pipefail

qt="libegl1 libgl1 libxkbcommon0 libfontconfig1 libfreetype6 libdbus-1-3 libglib2.0-0 libx11-6"
[ "$(uname -m)" = x86_64 ] || qt="$qt libatomic1"
screen="libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-shape0 libxcb-xkb1
    libxkbcommon-x11-0 libx11-xcb1 libwayland-client0 libwayland-cursor0"
case "${1:-}" in
    --list-needed) printf '%s\n' $qt; exit ;;
    --list-wanted) printf '%s\n' $screen; exit ;;
esac

[ "$(uname -s)" = Linux ] || exit 0
command -v dpkg-query >/dev/null 2>&1 || exit 0

installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }
# From Debian 13 on some libraries are called NAMEt64.
missing() { for name in "$@"; do installed "$name" || installed "${name}t64" || printf '%s ' "$name"; done; }

# The interpreter that .venv is made with may be another than Debian's: ask for its venv only if Debian's is used.
venv=""
case "$(command -v python3 || true)" in
    /usr/bin/python3) python3 -c 'import ensurepip' 2>/dev/null || venv="python3-venv" ;;
    "") venv="python3 python3-venv" ;;
esac

needed="$venv $(missing $qt)"
wanted=$(missing $screen)
[ -n "$(find /usr/share/fonts /usr/local/share/fonts ~/.fonts ~/.local/share/fonts -name '*.[to]tf' -print -quit 2>/dev/null)" ] ||
    wanted="$wanted $(missing fonts-dejavu-core)"
if [ "${1:-}" = --tests ]; then
    [ -n "$(compgen -c clang++)" ] || wanted="$wanted clang"
fi

all=$(echo $needed $wanted) # joined with single spaces
[ -n "$all" ] || exit 0

run=""
if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then run="sudo"; else run="cannot"; fi
fi
if [ "$run" != cannot ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing system packages: $all"
    log=$(mktemp)
    if { $run apt-get update -q && $run env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $all; } >"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    tail -n 15 "$log" >&2
    rm -f "$log"
fi

echo "Some system packages are missing. To install them:" >&2
echo "    sudo apt-get install $all" >&2
[ -z "$(echo $needed)" ] # without the second list Qt still starts, if only without a window on a screen
