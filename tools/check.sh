#!/bin/bash
# What CI runs and what a developer runs before a commit. Every step says its name and its time; the first
# failure ends it. ctest over the release build comes last: what starts whole clusters of processes runs beside
# nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

step() {
    local name=$1 began=$SECONDS
    shift
    echo "== $name"
    "$@"
    echo "== $name: $((SECONDS - began)) s"
}

format() { git ls-files '*.h' '*.cc' | xargs clang-format --dry-run -Werror; }
configure() { cmake --preset "$@" >"build/$1.log" 2>&1 || { tail -20 "build/$1.log"; return 1; }; }
build() { cmake --build --preset "$1" -j "$jobs" -- --quiet; }

# Runs ctest, and after a failure shows once more what failed, without the logs of what did not.
tests() {
    ctest --preset "$@" && return
    echo "== failed in $1"
    awk '/^[0-9:.]+ (info|warning|error) /{next}
         / Test: /{name = $NF} /: Failure$|runtime error:|ERROR: .*Sanitizer|CHECK failed/{print name; left = 10}
         left-- > 0 || /^\[  FAILED/' "build/$1/Testing/Temporary/LastTest.log" | head -200
    return 1
}

# The tests that the last run over the release build skipped.
skipped() {
    awk '/ Test: /{name = $NF} /SKIPPED/{print "skipped in " name ": " $4}' build/release/Testing/Temporary/LastTest.log
}

mkdir -p build
[ -d ../shared/data ] || echo "no vocabularies and models of others beside the checkout (../shared/data): tests that need them are skipped"
step format format
step layers python3 tools/check_layers.py .
step words python3 tools/check_words.py .
step "matrix shaders" python3 tools/matrix_shaders.py --check
# Unit tests that are the same under sanitizers run there only, and pointers that address sanitizer has an eye on are
# not looked at twice, but for make test-all.
every=()
pointers=()
if [ "${HELIX_SWEEPS:-}" = all ]; then
    every=(-DHELIX_ONLY_SANITIZED=)
    pointers=(-DHELIX_SANITIZE_POINTERS=ON)
fi
step "configure release" configure release "${every[@]}"
step "build release" build release
step tidy tools/tidy.py build/release
step "configure asan" configure asan "${pointers[@]}"
step "build asan" build asan
# Two slots for each core: a test that computes takes both of them, one that waits only one.
step "ctest asan (fast tests)" tests asan -j $((2 * jobs))
step "ctest release (fast tests)" tests release -j "$jobs" -LE slow
skipped
step "ctest release (clusters of processes)" tests release -j "$jobs" -L slow
skipped

# Notes the tree that has passed all of this.
if [ -z "$(git status --porcelain 2>/dev/null)" ]; then
    git rev-parse 'HEAD^{tree}' >build/checked
fi
