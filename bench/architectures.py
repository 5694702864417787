#!/usr/bin/env python3
"""The newer families' speed beside llama.cpp, on the same files.

usage: bench/architectures.py HELIX ENGINE_BENCH PEER_BIN [--like NAME]... [--quant q8_0] [--rounds 3] [--threads 2]
           [--wider 4] [--name "llama.cpp of ..."] [--encoders] [--into docs/models.md] [--json FILE]

With --encoders these are measured in their place: tokens a second of a text of 64 tokens and of one of 512.
For each NAME a model is made (`helix model synth --like NAME --wider 4 --quant QUANT --seed 3`). Then, in turns, so that a busy
minute hits both: engine_bench, and from PEER_BIN llama-bench (one sequence behind 64 positions, a prompt of 512) and
llama-batched-bench (8 and 32 sequences behind 64 positions), with and without flash attention, of which the faster one
counts. Tokens per second by the clock on the wall, medians over the rounds: it wants a machine that does nothing else.
--into puts the table into its place on that page.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from tables import place_of, put, table_of

LIKES = ("gpt-oss,gemma2,gemma3,gemma4,gemma4-moe,glm4,glm4-moe,minimax-m2,phi4,llama4,granite,granite-moe,olmo2,smollm3,"
         "command-r,nemotron")
ENCODERS = "bge,nomic-bert,nomic-bert-moe,jina-bert-v2,jina-bert-v3,modern-bert,bge-m3,embeddinggemma"
ROWS = ("decode 1", "decode 8", "decode 32", "prefill 512")
ENCODER_ROWS = ("text of 64", "text of 512")
OURS = re.compile(r"(decode|texts|prefill)\s+(\d+)\s+([\d.]+) tok/s")


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr[-2000:]}{done.stdout[-500:]}")
    return done.stdout


def ours(args, model):
    lines = output_of(args.engine_bench, model, str(args.threads), "3", "f16", "512", "1", "8", "32")
    return {f"{kind} {size}": float(speed) for kind, size, speed in OURS.findall(lines)}


def our_encoder(args, model):
    lines = output_of(args.engine_bench, model, str(args.threads), "9", "f16", "512", "1")
    speeds = {kind: float(speed) for kind, _, speed in OURS.findall(lines)}
    return {"text of 64": speeds["texts"], "text of 512": speeds["prefill"]}


def peers_encoder(args, model, flash):
    lines = output_of(os.path.join(args.peer_bin, "llama-bench"), "-m", model, "-t", str(args.threads), "-p", "64,512", "-n", "0",
                      "-r", "5", "-embd", "1", "-fa", flash, "-o", "json")
    return {f"text of {row['n_prompt']}": row["avg_ts"] for row in json.loads(lines)}


def peers(args, model, flash):
    bench = os.path.join(args.peer_bin, "llama-bench")
    batched = os.path.join(args.peer_bin, "llama-batched-bench")
    threads = ("-t", str(args.threads))
    speeds = {}
    decode = json.loads(output_of(bench, "-m", model, *threads, "-p", "0", "-n", "32", "-d", "64", "-r", "3", "-fa", flash, "-o", "json"))
    speeds["decode 1"] = decode[0]["avg_ts"]
    prompt = json.loads(output_of(bench, "-m", model, *threads, "-p", "512", "-n", "0", "-r", "2", "-fa", flash, "-o", "json"))
    speeds["prefill 512"] = prompt[0]["avg_ts"]
    lines = output_of(batched, "-m", model, *threads, "-c", "4096", "-npp", "64", "-ntg", "32", "-npl", "8,32", "-fa", flash,
                      "--output-format", "jsonl")
    for line in lines.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            speeds[f"decode {row['pl']}"] = row["speed_tg"]
    return speeds


def measure(args, like, model):
    rounds = {"ours": [], "peer": []}
    of_ours, of_peer, names = (our_encoder, peers_encoder, ENCODER_ROWS) if args.encoders else (ours, peers, ROWS)
    for turn in range(args.rounds):
        print(f"{like}: round {turn + 1} of {args.rounds}", file=sys.stderr)
        rounds["ours"].append(of_ours(args, model))
        both = [of_peer(args, model, flash) for flash in ("0", "1")]
        rounds["peer"].append({row: max(speeds[row] for speeds in both) for row in names})
    return {side: {row: statistics.median(speeds[row] for speeds in values) for row in names} for side, values in rounds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("engine_bench")
    parser.add_argument("peer_bin")
    parser.add_argument("--like", action="append")
    parser.add_argument("--quant", default="q8_0")
    parser.add_argument("--wider", default="4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", default="llama.cpp")
    parser.add_argument("--encoders", action="store_true")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("--json")
    args = parser.parse_args()
    place = "speed of encoders" if args.encoders else "speed"
    names = ENCODER_ROWS if args.encoders else ROWS
    if args.into:
        place_of(args.into, place)
    rows = []
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for like in args.like or (ENCODERS if args.encoders else LIKES).split(","):
            model = os.path.join(folder, f"{like}.gguf")
            output_of(args.helix, "model", "synth", "--like", like, "--wider", args.wider, "--quant", args.quant, "--seed", "3", model)
            speeds = found[like] = measure(args, like, model)
            cells = [like, f"{os.path.getsize(model) / 1e6:.0f}"]
            for row in names:
                a, b = speeds["ours"][row], speeds["peer"][row]
                cells += [f"{a:.0f}", f"{b:.0f}", f"{a / b:.2f}"]
            rows.append(cells)
            print(*cells, sep=", ", file=sys.stderr)
            os.remove(model)
    table = table_of([args.quant, "MB", *(cell for row in names for cell in (row, args.name, "ratio"))], rows)
    print(table)
    if args.into:
        put(table, place, args.into)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(found, out, indent=1)


if __name__ == "__main__":
    main()
