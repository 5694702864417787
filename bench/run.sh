#!/bin/bash
# make bench: every benchmark, on models of a real shape with random weights.
#   bench/run.sh BIN_DIR
# HELIX_BENCH_PEERS=FILE: peers' figures to compare with (bench/engine.py says how they are written): measure
# them with the peer's own tool on the same file, on the same machine, at the same time.
# HELIX_BENCH_MODELS=DIR: where the models are, or are made (4 GB).
set -euo pipefail
bin=${1:?usage: bench/run.sh BIN_DIR}
threads=${HELIX_BENCH_THREADS:-$(nproc)}
models=${HELIX_BENCH_MODELS:-$(dirname "$bin")/models}
mkdir -p "$models"
named=()
files=()
for quant in q8_0 q4_0 q4_k q6_k; do
    file=$models/llama-1b-$quant.gguf
    [ -e "$file" ] || "$bin/helix" model synth --shape llama-1b --quant "$quant" --seed 1 "$file" >/dev/null
    named+=("$quant=$file")
    files+=("$file")
done
echo "== engine, llama-1b"
python3 bench/engine.py --bench "$bin/engine_bench" --threads "$threads" \
    ${HELIX_BENCH_PEERS:+--peers "$HELIX_BENCH_PEERS"} "${named[@]}"
echo "== memory of a process that coordinates and computes (target: weights and KV and a tenth)"
python3 bench/memory.py --helix "$bin/helix" --ways serve --tokens 100 "${files[@]}"
echo "== CPU time per streamed token (target: at most 0.1 ms)"
python3 bench/stream_cost.py --binary "$bin/helix" --model "${HELIX_BENCH_TINY:-models/helix-demo.gguf}" \
    ${HELIX_BENCH_PEER_SERVER:+--peer "$HELIX_BENCH_PEER_SERVER"}
echo "== one process against three workers"
python3 bench/serve.py --binary "$bin/helix" --model "$models/llama-1b-q8_0.gguf" --rounds "${HELIX_BENCH_ROUNDS:-1}"
echo "== grammars: microseconds per token"
"$bin/grammar_bench" || echo "skipped: no vocabulary file"
echo "== planner, one second each"
"$bin/plan_bench" 1000
echo "== 2,000 event streams on one thread"
"$bin/sse_load" --streams 2000
echo "== simulator"
"$bin/sim_bench"
# HELIX_BENCH_SECONDS=3600: a whole hour of 1,000 machines.
"$bin/sim_bench" thousand "${HELIX_BENCH_SECONDS:-60}"
echo "== a new coordinator takes over a simulated cluster"
"$bin/takeover_bench"
echo "== what gateways cost (target: at most 0.04 ms of CPU a token, tokens/s within 3 %)"
python3 bench/gateway.py --binary "$bin/helix" --model "${HELIX_BENCH_TINY:-models/helix-demo.gguf}"
