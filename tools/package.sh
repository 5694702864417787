#!/bin/sh
# Makes the Debian packages helix and helix-dbg of what CMake has built. Nothing is compiled.
#   tools/package.sh BUILD OUT [ROOT]     BUILD: the build folder, as build/release; OUT: where the packages go
# With ROOT the build is for arm64, and the libraries that it was linked with are those of that folder (tools/arm64.sh).
set -eu
cd "$(dirname "$0")/.."

[ $# -eq 2 ] || [ $# -eq 3 ] || { sed -n 's/^# *//p' "$0" >&2; exit 2; }
[ -x "$1/bin/helix" ] && [ -f "$1/bin/helix.debug" ] || { echo "package.sh: $1/bin/helix is not built" >&2; exit 1; }
built=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
foreign=""
if [ $# -eq 3 ]; then
    HELIX_ROOT=$(realpath "$3")
    export HELIX_ROOT
    # What the build needs of arm64 is in that folder and not among this machine's packages.
    foreign="--host-arch=arm64 --no-check-builddeps"
fi

# The tools of Debian write beside the folder that they are called in, so that is one of its own.
rm -rf "$out/staging" "$out"/helix*.deb "$out"/helix_*.buildinfo "$out"/helix_*.changes
mkdir "$out/staging"
cp -r debian "$out/staging/debian"
# shellcheck disable=SC2086  # two options, or none
(cd "$out/staging" && HELIX_BUILD=$built dpkg-buildpackage --build=binary --no-sign --no-pre-clean $foreign) >"$out/package.log" 2>&1 || {
    tail -30 "$out/package.log" >&2
    exit 1
}
rm -rf "$out/staging"
ls "$out"/helix*.deb
