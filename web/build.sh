#!/bin/bash
# Builds the page into web/dist, from which it goes into the program:
#     web/build.sh            writes web/dist
#     web/build.sh --check    checks types, runs the unit tests, builds elsewhere, and says whether web/dist is what comes out.
#                             Exits 77, "skipped", without node, npm or packages.
# --work DIR: where packages and the build go (default: build/web)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$here/../build/web check=""
while [ $# -gt 0 ]; do
    case $1 in
        --check) check=yes ;;
        --work) work=$2; shift ;;
        *) echo "build.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
skip() {
    echo "SKIPPED: $1"
    [ -n "$check" ] && exit 77
    exit 1
}
for tool in node npm; do
    command -v $tool >/dev/null || skip "no $tool"
done
[ "$(node -p 'process.versions.node.split(".")[0] >= 18')" = true ] || skip "node is older than 18"
mkdir -p "$work"
rm -rf "$work/src" "$work/unit" "$work/unit-out"
cp -r "$here/src" "$here/unit" "$here/index.html" "$here"/*.json "$here"/*.ts "$here"/*.js "$here/.npmrc" "$work/"
cd "$work"
if ! cmp -s package-lock.json installed.lock; then
    npm ci --loglevel=error || skip "npm ci could not get the packages"
    cp package-lock.json installed.lock
fi
if [ -n "$check" ]; then
    npm run --silent check
    node_modules/.bin/esbuild unit/*.ts --bundle --platform=node --format=esm --outdir=unit-out --log-level=warning
    node --test unit-out/*.js >unit-out/log || { cat unit-out/log; exit 1; }
fi
HELIX_PAGE_OUT=out npm run --silent build -- --logLevel warn
if [ -z "$check" ]; then
    rm -rf "$here/dist"
    cp -r out "$here/dist"
elif ! diff -r "$here/dist" out >/dev/null; then
    diff -rq "$here/dist" out || true
    echo "web/dist is stale: make web builds it" >&2
    exit 1
fi
