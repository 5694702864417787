#!/bin/bash
# One card, proven and measured, in less than eight minutes.
#   bench/gpu.sh [--helix FILE] [--device vulkan:0] [--out DIR] [--like TYPE] [--seed N] [--seconds 450] [--quick]
# --helix: a program that is built already [build/release/bin/helix; where there is none, `make build` makes it, which
# takes minutes more, and the network]. --out: gets results.jsonl [a new folder]. --like: a type of `helix machines` to set
# the ceilings against. --quick: tiny sizes, to try this script out; says nothing of a card.
#
# First the proof: a card that computes wrongly is not measured. Then the ceilings and the operators. Each section has its
# share of the time; what there is no time for is said.
set -euo pipefail
cd "$(dirname "$0")/.."

helix= device=vulkan:0 out= like= seed=$((RANDOM * 32768 + RANDOM)) seconds=450 quick=
usage() { sed -n '2,9s/^# \{0,1\}//p' bench/gpu.sh >&2; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=yes; shift; continue ;;
    --helix | --device | --out | --like | --seed | --seconds) [ $# -gt 1 ] || usage ;;
    *) usage ;;
    esac
    printf -v "${1#--}" %s "$2"
    shift 2
done
if [ -z "$helix" ]; then
    helix=build/release/bin/helix
    [ -x "$helix" ] || make build
fi
[ -x "$helix" ] || { echo "--helix: $helix is no program" >&2; exit 2; }
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/helix-gpu.XXXXXX")}
mkdir -p "$out"
results=$out/results.jsonl
: >"$results"

began=$SECONDS
left() { echo $((seconds - (SECONDS - began))); }
# section NAME SECONDS: says it and sets `limit` to how long it may take; fails where there is no time left.
section() {
    limit=$(($(left) < $2 ? $(left) : $2))
    printf '\n## %s\n\n' "$1"
    if [ "$limit" -ge 5 ]; then return 0; fi
    echo "skipped: no time left"
    return 1
}
say_stopped() { echo "skipped: stopped after $limit s"; }

echo "# $device with $("$helix" --version), $(date -u +%Y-%m-%dT%H:%M:%SZ), seed $seed"

# ---- The proof. What was not proven for want of time may be wrong, too, so then nothing is measured.
section "Proof" 150
status=0
timeout "$limit" "$helix" devices --prove --device "$device" --seed "$seed" --record "$results" \
    ${quick:+--quick} || status=$?
if [ "$status" -eq 124 ]; then
    echo "the proof took longer than $limit s" >&2
fi
[ "$status" -eq 0 ] || exit 1

# ---- Ceilings and operators.
if section "Ceilings and operators" 300; then
    # The ceilings come before the budget, and what has begun after its end is finished.
    timeout $((limit + 20)) "$helix" devices --measure --full --device "$device" --seed "$seed" --record "$results" \
        --budget $((limit * 3 / 4))s ${like:+--like "$like"} ${quick:+--quick} ||
        { [ $? -eq 124 ] && say_stopped || exit 1; }
fi

printf '\n%s s; results in %s\n' $((SECONDS - began)) "$results"
