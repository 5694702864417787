#!/bin/bash
# One card, proven and measured, in less than eight minutes.
#   bench/gpu.sh [--helix FILE] [--device vulkan:0] [--out DIR] [--like TYPE] [--seed N] [--seconds 450] [--quick]
#                [--model SHAPE:QUANT]... [--llama-bench FILE] [--llama-server FILE]
# --helix: a program that is built already [build/release/bin/helix; where there is none, `make build` makes it, which
# takes minutes more, and the network]. --out: gets results.jsonl [a new folder]. --like: a type of `helix machines` to set
# the ceilings against. --model: what is served, as `helix model synth` makes it [llama-1b:q8_0 and llama-1b:q4_k].
# --llama-bench, --llama-server: llama.cpp's programs, built for this card, to stand beside.
# --quick: tiny sizes, to try this script out; says nothing of a card.
#
# First the proof: a card that computes wrongly is not measured. Then the ceilings and the operators; what clients get over
# HTTP with 1 and 64 streams; and the peers. The last two need Python 3 and 2 GB in TMPDIR for models. Each section has its
# share of the time; what there is no time for is said.
set -euo pipefail
cd "$(dirname "$0")/.."

helix= device=vulkan:0 out= like= seed=$((RANDOM * 32768 + RANDOM)) seconds=450 quick= llama_bench= llama_server=
models_of=()
usage() { sed -n '2,14s/^# \{0,1\}//p' bench/gpu.sh >&2; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=yes; shift; continue ;;
    --help) usage ;;
    --model) [ $# -gt 1 ] || usage; models_of+=(--model "$2"); shift 2; continue ;;
    --helix | --device | --out | --like | --seed | --seconds | --llama-bench | --llama-server) [ $# -gt 1 ] || usage ;;
    *) usage ;;
    esac
    option=${1#--}
    printf -v "${option//-/_}" %s "$2"
    shift 2
done
if [ -z "$helix" ]; then
    helix=build/release/bin/helix
    [ -x "$helix" ] || make build
fi
for option in helix llama_bench llama_server; do
    program=${!option}
    if [ -n "$program" ] && { [ ! -f "$program" ] || [ ! -x "$program" ]; }; then
        echo "--${option//_/-}: $program is no program" >&2
        exit 2
    fi
done
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/helix-gpu.XXXXXX")}
mkdir -p "$out"
results=$out/results.jsonl
: >"$results"

began=$SECONDS
left() { echo $((seconds - (SECONDS - began))); }
# section NAME SECONDS [LATER]: says it and sets `limit` to how long it may take, so that LATER seconds remain; fails where
# there is no time left.
section() {
    limit=$(($(left) - ${3:-0} < $2 ? $(left) - ${3:-0} : $2))
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
served_seconds=100 peers_seconds=5
[ -z "$llama_bench$llama_server" ] || peers_seconds=100
if section "Ceilings and operators" 300 $((served_seconds + peers_seconds)); then
    # The ceilings come before the budget, and what has begun after its end is finished.
    timeout $((limit + 20)) "$helix" devices --measure --full --device "$device" --seed "$seed" --record "$results" \
        --budget $((limit * 3 / 4))s ${like:+--like "$like"} ${quick:+--quick} ||
        { [ $? -eq 124 ] && say_stopped || exit 1; }
fi

# ---- What clients get, and the same of peers.
models=$(mktemp -d "${TMPDIR:-/tmp}/helix-models.XXXXXX")
trap 'rm -rf "$models"' EXIT
# measured PROGRAM [OPTION...]: a part in Python, which minds the limit itself.
measured() {
    command -v python3 >/dev/null || { echo "skipped: no python3"; return 0; }
    timeout $((limit + 20)) python3 "$@" --helix "$helix" --device "$device" --models "$models" --record "$results" \
        --seconds "$limit" --seed "$seed" ${quick:+--quick} ${models_of[@]+"${models_of[@]}"} ||
        { [ $? -eq 124 ] && say_stopped || exit 1; }
}
if section "Served" $served_seconds $peers_seconds; then
    measured bench/gpu_serve.py
fi
if section "Peers" $peers_seconds; then
    measured bench/gpu_peers.py ${llama_bench:+--llama-bench "$llama_bench"} ${llama_server:+--llama-server "$llama_server"}
fi

printf '\n%s s; results in %s\n' $((SECONDS - began)) "$results"
