#!/bin/sh
# Makes the Debian packages helix and helix-dbg of what CMake has built. Nothing is compiled.
#   tools/package.sh BUILD OUT     BUILD: the build folder, as build/release; OUT: where the packages go
set -eu
cd "$(dirname "$0")/.."

[ $# -eq 2 ] || { sed -n 's/^# *//p' "$0" >&2; exit 2; }
[ -x "$1/bin/helix" ] && [ -f "$1/bin/helix.debug" ] || { echo "package.sh: $1/bin/helix is not built" >&2; exit 1; }
built=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")

# The tools of Debian write beside the folder that they are called in, so that is one of its own.
rm -rf "$out/staging" "$out"/helix*.deb "$out"/helix_*.buildinfo "$out"/helix_*.changes
mkdir "$out/staging"
cp -r debian "$out/staging/debian"
(cd "$out/staging" && HELIX_BUILD=$built dpkg-buildpackage --build=binary --no-sign --no-pre-clean) >"$out/package.log" 2>&1 || {
    tail -30 "$out/package.log" >&2
    exit 1
}
rm -rf "$out/staging"
ls "$out"/helix*.deb
