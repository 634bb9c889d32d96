#!/usr/bin/env bash
# Builds dist/draftlight_VERSION+DISTRIBUTION_ARCHITECTURE.deb from dist/draftlight-*.whl, for the Debian or Ubuntu this runs on.
#
#   packaging/linux/build_deb.sh              with python3; PYTHON=... takes another, of the version that the distribution has
#
# The package has every locked dependency and the built-in model in an environment of its own, /usr/lib/draftlight, on the
# distribution's Python: nothing is downloaded later, and nothing meets what else is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

wheel=$(ls dist/draftlight-*.whl)
python=${PYTHON:-python3}
short=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
distribution=$(. /etc/os-release; echo "$ID$VERSION_ID")
version=$(basename "$wheel" | cut -d- -f2)+$distribution
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

build=build/deb
root=$build/root
home=/usr/lib/draftlight
site=$root$home/lib/python$short/site-packages
rm -rf "$root"
mkdir -p "$site" "$root$home/bin" "$root/usr/bin" "$root/usr/share/applications" "$root/usr/share/doc/draftlight" \
    "$root/usr/share/icons/hicolor/scalable/apps" "$root/DEBIAN"

bash packaging/fill_packages.sh "$site" "$python"
find "$site" -name '*.so*' -type f -exec chmod 644 {} +

printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$short" >"$root$home/pyvenv.cfg"
ln -s "/usr/bin/python$short" "$root$home/bin/python3"
printf '#!%s/bin/python3 -I\nimport sys\n\nfrom app.cli.entry import main\n\nsys.exit(main())\n' "$home" >"$root$home/bin/draftlight"
chmod 755 "$root$home/bin/draftlight"
ln -s ../lib/draftlight/bin/draftlight "$root/usr/bin/draftlight"
cp packaging/linux/draftlight.desktop "$root/usr/share/applications/"
cp assets/app-icon.svg "$root/usr/share/icons/hicolor/scalable/apps/draftlight.svg"
cat LICENSE NOTICE >"$root/usr/share/doc/draftlight/copyright"

# From Debian 13 on some libraries are called NAMEt64.
libraries() { bash packaging/system_packages.sh "--list-$1" | sed 's/.*/& | &t64/' | paste -sd, | sed 's/,/, /g'; }
cat >"$root/DEBIAN/control" <<CONTROL
Package: draftlight
Version: $version
Architecture: $architecture
Maintainer: The Draftlight authors <draftlight@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: python$short, libstdc++6, libgcc-s1, zlib1g, $(libraries needed)
Recommends: $(libraries wanted), fonts-dejavu-core | fonts-noto-core, ca-certificates
Section: science
Priority: optional
Description: chat window for local language models with speculative decoding
 Shows speculative decoding as it happens: which tokens a drafter proposed,
 which of them the target model accepted or rejected, why, and what was gained.
 A small model is included, so that it works without a network.
CONTROL

find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
package=dist/draftlight_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zzstd -z9 --build "$root" "$package" >/dev/null
echo "$package $(du -m "$package" | cut -f1) MB, installed $(du -sm "$root/usr" | cut -f1) MB"
