#!/bin/bash
# What CI runs and what a developer runs before a commit. Every step says its name and its time; the first
# failure ends it. Clusters of processes wait for much of their time, so clang-tidy and the compiler for the sanitizers
# run at the same time, with what the processors have left (SCHED_IDLE), and nothing else does.
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

# Ends what still runs, and shows what it has said.
end_beside() {
    trap - EXIT
    kill -- "-$beside" 2>/dev/null || true
    cat build/beside.log
}

# The tests that the last run over the release build skipped.
skipped() {
    awk '/ Test: /{name = $NF} /SKIPPED/{print "skipped in " name ": " $4}' build/release/Testing/Temporary/LastTest.log
}

# What runs while clusters of processes do, in a session of its own, which has the least share of the processors where
# the system shares them among sessions.
if [ "${1:-}" = beside-clusters ]; then
    { echo 19 >/proc/self/autogroup; } 2>/dev/null || true
    chrt --idle --pid 0 $$ 2>/dev/null || renice -n 19 -p $$ >/dev/null
    step tidy tools/tidy.py build/release
    step "build asan" build asan
    exit
fi

mkdir -p build
[ -d ../shared/data ] || echo "no vocabularies and models of others beside the checkout (../shared/data): tests that need them are skipped"
step format format
step layers python3 tools/check_layers.py .
step words python3 tools/check_words.py .
step "matrix shaders" python3 tools/matrix_shaders.py --check
# Unit tests that are the same under sanitizers run there only, pointers that address sanitizer has an eye on are not
# looked at twice, and benchmarks are not built, but for make test-all.
every=()
pointers=()
if [ "${HELIX_SWEEPS:-}" = all ]; then
    every=(-DHELIX_ONLY_SANITIZED= -DHELIX_BENCHMARKS=ON)
    pointers=(-DHELIX_SANITIZE_POINTERS=ON)
fi
step "configure release" configure release "${every[@]}"
step "build release" build release
step "configure asan" configure asan "${pointers[@]}"
setsid tools/check.sh beside-clusters </dev/null >build/beside.log 2>&1 &
beside=$!
trap end_beside EXIT
step "ctest release (clusters of processes)" tests release -j "$jobs" -L slow
skipped
step "the rest of what runs beside them" wait "$beside"
end_beside
# Two slots for each core: a test that computes takes both of them, one that waits only one.
step "ctest asan (fast tests)" tests asan -j $((2 * jobs))
step "ctest release (fast tests)" tests release -j $((2 * jobs)) -LE slow
skipped

# Notes the tree that has passed all of this.
if [ -z "$(git status --porcelain 2>/dev/null)" ]; then
    git rev-parse 'HEAD^{tree}' >build/checked
fi
