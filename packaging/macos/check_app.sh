#!/usr/bin/env bash
# Runs the self-test of an application, and again from the disk image it is in: packaging/macos/check_app.sh APP IMAGE
# Each with an empty data folder and from an empty one, so that neither the source tree nor a downloaded model can help.
set -euo pipefail

app=$(cd "$1" && pwd)
image=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
empty=$(mktemp -d)
mount=$empty/image
finish() { hdiutil detach "$mount" -quiet -force 2>/dev/null || true; rm -rf "$empty"; }
trap finish EXIT

self_test() {
    echo "self-test of $1"
    (cd "$empty" && env -u PYTHONPATH DRAFTLIGHT_HOME="$empty/data" "$1/Contents/MacOS/Draftlight" self-test)
    [ -z "$(ls "$empty/data/models" 2>/dev/null)" ] || { echo "The built-in model was downloaded." >&2; exit 1; }
}
self_test "$app"
mkdir "$mount"
hdiutil attach "$image" -nobrowse -readonly -mountpoint "$mount" -quiet
self_test "$mount/Draftlight.app"
