#!/usr/bin/env bash
# What a newcomer goes through: from a bare Debian to a first answer and a window, with the seconds of each step. Needs root.
#
#   packaging/bare_machine.sh CHANNEL [FOLDER]
#
# CHANNEL: deb (dist/draftlight_*.deb), uv or pipx (dist/draftlight-*.whl), or checkout (`make run`). FOLDER: where log and
# screenshot go, build/bare by default. DEBIAN=trixie takes another release than this machine's. The bare root is made by
# debootstrap once and unpacked anew for each run; everything in it runs as an ordinary user, and what comes after the
# installation of the Debian package without any network. The window is shown on an X server of its own, where there is Xvfb.
set -euo pipefail
cd "$(dirname "$0")/.."

channel=${1:?which channel: deb, uv, pipx or checkout}
folder=$(realpath -m "${2:-build/bare}")
release=${DEBIAN:-$(. /etc/os-release; echo "$VERSION_CODENAME")}
[ "$(id -u)" = 0 ] || { echo "Needs root, for chroot." >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "Needs debootstrap (apt-get install debootstrap)." >&2; exit 1; }

case $channel in
    deb) carried=$(ls dist/draftlight_*+"$(sed "s/bookworm/debian12/; s/trixie/debian13/" <<<"$release")"_*.deb) ;;
    uv | pipx) carried=$(ls dist/draftlight-*.whl) ;;
    checkout) carried="" ;;
    *) echo "There is no channel $channel." >&2; exit 1 ;;
esac

mkdir -p build/bare "$folder"
seed=build/bare/$release.tar
if [ ! -f "$seed" ]; then
    sources=$(ls /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true)
    mirror=$(grep -hE '^(URIs:|deb )' $sources </dev/null | grep -om1 'https\?://[^ ]*') ||
        { echo "Needs a mirror in /etc/apt." >&2; exit 1; }
    new=$(mktemp -d -p build/bare)
    debootstrap --variant=minbase --include=ca-certificates "$release" "$new" "$mirror" >"$seed.log" 2>&1 ||
        { tail -n 3 "$seed.log" >&2; exit 1; }
    tar -C "$new" -cf "$seed" .
    rm -rf "$new"
fi
root=$(mktemp -d -p build/bare)
display=""
server=""
finish() { [ -z "$server" ] || kill "$server"; rm -rf --one-file-system "$root"; }
trap finish EXIT
tar -C "$root" -xf "$seed"
chmod 755 "$root" # for others than root, too; in the archive it is as mktemp makes it

# How this machine reaches its package indexes counts there too.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
cp -r /etc/ssl/certs/. "$root/etc/ssl/certs/"
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
mkdir -p "$root/etc/skel/.config"
[ ! -d ~/.config/pip ] || cp -r ~/.config/pip "$root/etc/skel/.config/"
chroot "$root" useradd --create-home --home-dir /srv/ada --shell /bin/bash ada
[ -z "$carried" ] || cp "$carried" "$root/tmp/"
[ "$channel" != checkout ] || git clone -q . "$root/srv/ada/draftlight"
chroot "$root" chown -R ada: /srv/ada
mkdir -p "$root/tmp/.X11-unix" "$root/opt"
if command -v Xvfb >/dev/null; then
    read -r display < <(Xvfb -displayfd 1 -screen 0 1440x900x24 -nolisten tcp 2>/dev/null & echo "$!" >"$root.server"; wait) || true
    server=$(cat "$root.server"); rm "$root.server"
fi

settings=$(env | grep -E '^(PIP_|UV_|SSL_CERT|REQUESTS_CA|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)' || true)
log=$folder/$channel-$release.log
{ echo "# $channel on a bare $release, $(nproc) cores, $(date +%F)"; } | tee "$log"
# step WHO NETWORK WORDS COMMAND: runs it inside, with its time. A failure ends everything.
step() {
    local who=$1 network=$2 words=$3 command=$4 began output
    began=$(date +%s.%N)
    output=$(mktemp)
    if ! inside "$who" "$network" "$command" >"$output" 2>&1; then
        { echo "FAILED: $words"; tail -n 20 "$output"; } | tee -a "$log"
        exit 1
    fi
    printf '%7.1f s  %s\n' "$(echo "$(date +%s.%N) - $began" | bc)" "$words" | tee -a "$log"
    if [ "$who" = ada ]; then { grep -v '^WARNING' "$output" || true; } | tail -n 4 | cut -c1-160 | sed 's/^/             /' | tee -a "$log"; fi
    rm "$output"
}
# Mounts are private to each step and gone with it.
inside() {
    local network=(); [ "$2" = net ] || network=(--net)
    local user=(); [ "$1" = root ] || user=(--userspec=ada:ada)
    local home=/root; [ "$1" = root ] || home=/srv/ada
    unshare --mount --pid --fork "${network[@]}" bash -c '
        root=$1; shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --bind /opt "$root/opt"
        [ ! -d /tmp/.X11-unix ] || mount --bind /tmp/.X11-unix "$root/tmp/.X11-unix"
        exec "$@"' inside "$root" chroot "${user[@]}" "$root" /usr/bin/env -i HOME=$home LANG=C.UTF-8 DISPLAY="${display:+:$display}" \
        PATH=$home/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin $settings bash -c "cd && $3" </dev/null
}

after=net
run=draftlight
step root net "apt-get update" "apt-get update -q"
case $channel in
    deb)
        step root net "apt-get install ./$(basename "$carried")" \
            "DEBIAN_FRONTEND=noninteractive apt-get install -q -y /tmp/$(basename "$carried")"
        after=none
        ;;
    uv | pipx)
        libraries=$(bash packaging/system_packages.sh --list-needed; bash packaging/system_packages.sh --list-wanted)
        names=$(for name in $libraries; do chroot "$root" apt-cache show "$name" >/dev/null 2>&1 && echo "$name" || echo "${name}t64"; done)
        [ $channel = pipx ] && tools="pipx" || tools="python3-venv"
        step root net "apt-get install $tools and Qt's libraries" \
            "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $tools fonts-dejavu-core $(echo $names)"
        if [ $channel = uv ]; then step ada net "install uv" "python3 -m venv .uv && .uv/bin/pip install -q uv && mkdir -p .local/bin && ln -s ~/.uv/bin/uv .local/bin/"; fi
        [ $channel = uv ] && command="uv tool install" || command="pipx install"
        step ada net "$command $(basename "$carried")" "$command /tmp/$(basename "$carried")"
        ;;
    checkout)
        step root net "apt-get install make python3-venv" \
            "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends make python3-venv git"
        step root net "make model (installs system packages, too)" "cd ~ada/draftlight && bash packaging/system_packages.sh"
        step ada net "make model" "cd draftlight && make model"
        run=draftlight/.venv/bin/draftlight
        ;;
esac
step ada $after "first answer" "$run chat 'Why is the sky blue?' --seed 1 --max-tokens 64"
step ada $after "draftlight self-test" "$run self-test"
if [ -n "$display" ]; then
    inside ada $after "timeout 60 $run" >/dev/null 2>&1 &
    window=$!
    ${PYTHON:-.venv/bin/python} - ":$display" "$folder/$channel-$release.png" <<'PYTHON' | tee -a "$log"
"""Waits until something is painted on the display and has stayed as it is for two seconds; saves it."""
import os
import sys
import time

os.environ.update(DISPLAY=sys.argv[1], QT_QPA_PLATFORM="xcb")
from PySide6.QtGui import QGuiApplication

application = QGuiApplication([])
began, since, last = time.monotonic(), 0.0, None
while time.monotonic() - began < 50:
    image = application.primaryScreen().grabWindow(0).toImage()
    now = time.monotonic()
    if image != last:
        since, last = now, image
    elif now - since > 2 and len({image.pixel(x, y) for x in range(0, 1440, 16) for y in range(0, 900, 16)}) > 8:
        image.save(sys.argv[2])
        print(f"{since - began:7.1f} s  until the window stands")
        sys.exit()
    time.sleep(0.1)
sys.exit("FAILED: no window")
PYTHON
    kill $window 2>/dev/null || true
fi
