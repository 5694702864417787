#!/bin/bash
# Runs the tests of the npm clients against a server, one after the other:
#     run.sh --base-url http://127.0.0.1:8000     one that runs already
#     run.sh --server PROGRAM                     one that PROGRAM starts; it prints its address and serves until its input ends
# --tests GLOB: only these scripts (default: *_test.mjs)
# --work DIR: where the packages go (default: a temporary directory). Exits 77, "skipped", without node, npm or packages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work="" base_url="" server="" tests="*_test.mjs"
while [ $# -gt 0 ]; do
    case $1 in
        --work) work=$2 ;;
        --base-url) base_url=$2 ;;
        --tests) tests=$2 ;;
        --server) server=$(realpath "$2") ;;
        *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
for tool in node npm; do
    command -v $tool >/dev/null || { echo "SKIPPED: no $tool"; exit 77; }
done
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
cp "$here/package.json" "$here/package-lock.json" "$here"/*.mjs "$work/"
cd "$work"
if ! cmp -s package-lock.json installed.lock; then
    npm ci --no-audit --no-fund --loglevel=error || { echo "SKIPPED: npm ci could not get the packages"; exit 77; }
    cp package-lock.json installed.lock
fi
if [ -n "$server" ]; then
    HELIX_STATE_DIR=$(mktemp -d -p "$work")
    export HELIX_STATE_DIR
    coproc SERVER { exec "$server"; }
    read -r base_url <&"${SERVER[0]}"
fi
[ -n "$base_url" ] || { echo "run.sh: --base-url or --server is needed" >&2; exit 2; }
status=0
for test in $tests; do
    echo "== $test"
    HELIX_BASE_URL=${base_url%/}/v1 node "$test" || status=1
done
exit $status
