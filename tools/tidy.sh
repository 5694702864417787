#!/bin/bash
# clang-tidy over src/, two files at a time. A file is skipped when neither it, nor any header of ours, nor
# the configuration changed since it last passed (stamps in the build folder).
#   tools/tidy.sh BUILD_DIR
set -eu
build=${1:?usage: tools/tidy.sh BUILD_DIR}
stamps=${HELIX_TIDY_STAMPS:-$build/tidy}
mkdir -p "$stamps"
headers=$(git ls-files 'src/**/*.h' 'src/*.h' .clang-tidy cmake CMakeLists.txt | sort -u | xargs cat | sha256sum | cut -c1-32)
export build stamps headers
check() {
    key=$(cat "$1" <(echo "$headers $1") | sha256sum | cut -c1-32)
    [ -e "$stamps/$key" ] && return 0
    if out=$(clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option "$1" 2>&1); then
        touch "$stamps/$key"
    else
        printf '%s\n' "$out" | grep -v 'warnings generated' >&2
        return 1
    fi
}
export -f check
git ls-files 'src/*.cc' 'src/**/*.cc' | sort -u | xargs -P "$(nproc)" -I{} bash -c 'check {}'
echo "clang-tidy: clean"
