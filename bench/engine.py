#!/usr/bin/env python3
"""The engine beside its physical limits and, where their figures are given, beside its peers, as a table.

usage: bench/engine.py --bench build/bench/bin/engine_bench [--threads N] [--repeats N] [--peers FILE]
                       NAME=MODEL.gguf...

Runs engine_bench on each model. `per CPU s` is per second that a thread really ran, times the threads:
the figure that compares on a machine that others use. The limit is what the machine can read or
multiply at all, measured in the same process.

A file of peers has the figures that a peer's own tools gave on the same machine, files and threads:
    {"some engine 1.2": {"q8_0 decode 8": {"wall": 31.0, "cpu": 30.1}, "q8_0 prefill 512": {"cpu": 50}}}
wall or cpu may be missing. The ratio is to the best peer of the row, per CPU second where the peer has
that figure.
"""
import argparse
import json
import re
import subprocess
import sys

# What each row aims at: a share of what memory gives, or a multiple of the best peer.
TARGETS = {"q8_0 decode 1": "95 %", "q4_0 decode 1": "95 %", "q4_k decode 1": "1x", "q6_k decode 1": "1x",
           "q8_0 decode 8": "2.5x", "q4_0 decode 8": "2x"}
for quant in ("q8_0", "q4_0"):
    TARGETS[f"{quant} decode 32"] = "5x"
    TARGETS[f"{quant} prefill 512"] = "4x"

ROW = re.compile(r"(decode|prefill)\s+(\d+)\s+([\d.]+) tok/s\s+([\d.]+) per CPU second\s+"
                 r"limit\s+([\d.]+)\s+([\d.]+)\s+([\d.]+) % of (\w+)")


def best_peer(peers, key):
    """(name, figure, "cpu" or "wall") of the fastest; None when no peer has the row."""
    for clock in ("cpu", "wall"):
        found = [(figures[key][clock], name) for name, figures in peers.items() if clock in figures.get(key, {})]
        if found:
            figure, name = max(found)
            return name, figure, clock
    return None


def peer_columns(peers, key, wall, cpu):
    peer = best_peer(peers, key)
    if peer is None:
        return ["", ""]
    name, figure, clock = peer
    ours = cpu if clock == "cpu" else wall
    return [f"{figure:.1f} ({name}{'' if clock == 'cpu' else ', wall'})", f"{ours / figure:.2f}x"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--peers", help="file of the peers' figures")
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL.gguf")
    args = parser.parse_args()
    peers = {}
    if args.peers:
        with open(args.peers, encoding="utf-8") as file:
            peers = json.load(file)
    print(f"{args.threads} threads\n")
    head = ["", "target", "tok/s", "per CPU s", "limit per CPU s", "of the limit", "bound by"]
    if peers:
        head += ["best peer per CPU s", "ratio"]
    print("| " + " | ".join(head) + " |")
    print("| --- " * len(head) + "|")
    for model in args.models:
        name, _, path = model.partition("=")
        command = [args.bench, path, str(args.threads), str(args.repeats), "f16", str(args.prompt)]
        out = subprocess.run(command + args.batches.split(","), check=True, capture_output=True, text=True).stdout
        rows = ROW.findall(out)
        if not rows:
            sys.exit(f"{args.bench} printed no figures:\n{out}")
        for what, size, wall, cpu, _, limit, share, bound in rows:
            key = f"{name} {what} {size}"
            cells = [key, TARGETS.get(key, ""), wall, cpu, limit, f"{share} %", bound]
            if peers:
                cells += peer_columns(peers, key, float(wall), float(cpu))
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
