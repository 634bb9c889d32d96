#!/usr/bin/env bash
# Builds Draftlight.app and dist/Draftlight-VERSION.dmg on a Mac with Apple silicon, from dist/draftlight-*.whl, and tests both.
#
#   packaging/macos/build_app.sh
#
# Signed ad hoc, unless SIGNING_IDENTITY names a developer's identity in the keychain (keychain.sh puts it there); then it is
# notarised, too. PYTHON=... takes another interpreter than the environment's; Briefcase brings a Python of the same version along.
set -euo pipefail
cd "$(dirname "$0")/../.."

# iCloud keeps adding attributes to files, which signing refuses. Briefcase would say so only at its end.
if xattr -p 'com.apple.fileprovider.fpfs#P' . >/dev/null 2>&1 || [[ "$PWD/" == *"/Library/Mobile Documents/"* ]]; then
    echo "$PWD is synchronised with iCloud, where an application cannot be signed." >&2
    echo "Move the checkout elsewhere, for example to ~/src, and run make app again." >&2
    exit 1
fi

python=${PYTHON:-$PWD/.venv/bin/python}
wheel=$(ls dist/draftlight-*.whl)
version=$(basename "$wheel" | cut -d- -f2)
project=build/macos
bundle=$project/build/draftlight/macos/app/Draftlight.app
site=$bundle/Contents/Resources/app_packages

rm -rf $project
mkdir -p build
cp -R packaging/macos $project
"$python" -m venv --clear build/briefcase
build/briefcase/bin/python -m pip install --quiet --disable-pip-version-check briefcase==0.4.7
.venv/bin/python packaging/macos/make_icon.py $project/icon/draftlight.icns

briefcase() { (cd $project && ../briefcase/bin/briefcase "$1" macOS app --no-input -C "version='$version'" "${@:2}"); }
briefcase create
# Older templates name an older system than the wheels need.
plutil -replace LSMinimumSystemVersion -string 15.0 $bundle/Contents/Info.plist
# MLX has wheels for 14, 15 and 26, and an installer on 26 would take the last: its kernels run nowhere else.
mkdir -p $site
MACOSX_DEPLOYMENT_TARGET=15.0 bash packaging/fill_packages.sh $site "$PWD/build/briefcase/bin/python" aarch64-apple-darwin
briefcase build # gives the program its name
"$python" packaging/macos/thin.py $bundle
"$python" packaging/macos/check_bundle.py $bundle

# Signs from the inside out, each library before what contains it, and makes the disk image.
if [ -n "${SIGNING_IDENTITY:-}" ]; then
    briefcase package --packaging-format dmg --identity "$SIGNING_IDENTITY"
else
    briefcase package --packaging-format dmg --adhoc-sign
fi
mkdir -p dist
cp $project/dist/Draftlight-"$version".dmg dist/
codesign --verify --deep --strict $bundle
bash packaging/macos/check_app.sh $bundle dist/Draftlight-"$version".dmg
