#!/usr/bin/env bash
# Puts a developer's certificate and the credentials for notarisation into a keychain of its own, on a hosted Mac, from secrets:
#
#   CERTIFICATE       the identity "Developer ID Application: ..." as a PKCS 12 file in base64, and CERTIFICATE_PASSWORD
#   APPLE_ID, APPLE_TEAM, APPLE_PASSWORD     the account, its team, and a password made for notarisation (appleid.apple.com)
#
# Prints the identity's hash, for SIGNING_IDENTITY of build_app.sh. Without CERTIFICATE it does nothing: the application is then
# signed ad hoc.
set -euo pipefail

[ -n "${CERTIFICATE:-}" ] || exit 0
keychain=$HOME/Library/Keychains/draftlight.keychain-db
password=$(openssl rand -hex 16)
file=$(mktemp)
trap 'rm -f "$file"' EXIT
base64 --decode <<<"$CERTIFICATE" >"$file"

{
    security create-keychain -p "$password" "$keychain"
    security set-keychain-settings -lut 21600 "$keychain"
    security unlock-keychain -p "$password" "$keychain"
    security import "$file" -f pkcs12 -P "$CERTIFICATE_PASSWORD" -k "$keychain" -T /usr/bin/codesign
    security set-key-partition-list -S apple-tool:,apple: -s -k "$password" "$keychain"
    security list-keychains -d user -s "$keychain" login.keychain
    security default-keychain -d user -s "$keychain"
    # the name under which Briefcase looks for them
    xcrun notarytool store-credentials "briefcase-macOS-$APPLE_TEAM" --apple-id "$APPLE_ID" --team-id "$APPLE_TEAM" \
        --password "$APPLE_PASSWORD" --keychain "$keychain"
} >&2
security find-identity -v -p codesigning "$keychain" | awk '/Developer ID Application/ {print $2; exit}'
