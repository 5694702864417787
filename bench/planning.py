#!/usr/bin/env python3
"""Regenerates the tables of flow in docs/planning.md; bench/delivered.py makes the others.

    bench/planning.py HELIX DATA [--only flow,depth,...]

HELIX is the program (build/release/bin/helix), DATA the folder with clusters/, profiles/, layouts/
and traces/. Every figure is what one run of `helix` printed; a run starts from nothing.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import time

from tables import DOCS, put, table_of

# Each is a cluster, a model, a machine mix, the published flow, and how long that took.
INSTANCES = [
    ("ablation10", "llama1-30b", "ablation10", "286.59 (Gurobi, 3,803 s x 20 threads, proven)"),
    ("single24", "llama2-70b", "single24", "1289.56"),
    ("distributed24", "llama2-70b", "single24", "1212.18"),
    ("highhet42", "llama2-70b", "highhet42", "4137.55 (Swarm 4892.24)"),
    ("single24", "llama1-30b", "single24", "1137.18"),
    ("distributed24", "llama1-30b", "single24", "1137.18"),
]


class Runner:
    def __init__(self, helix, data):
        self.helix = helix
        self.data = pathlib.Path(data)

    def command(self, cluster, model, mix, *more):
        return [
            self.helix, "plan", str(self.data / "clusters" / f"{cluster}.json"), "--model", model,
            "--profiles", str(self.data / "profiles"), "--machine-mix", mix, *more,
        ]

    def json(self, command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
        out = json.loads(done.stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        out["wall_s"] = time.monotonic() - began
        out["cpu_s"] = after.ru_utime - before.ru_utime
        return out

    def plan(self, cluster, model, mix, *more):
        print(f"  {cluster} {model} {' '.join(more)}", file=sys.stderr)
        return self.json(self.command(cluster, model, mix, *more))


def flow_table(run):
    rows = []
    for cluster, model, mix, published in INSTANCES:
        cells = []
        for partial in ("--no-partial", "--partial"):
            out = run.plan(cluster, model, mix, "--objective", "flow", "--budget", "10s", partial)
            proven = ", proven" if out["proven_optimal"] else ""
            cells.append(f"{out['max_flow_tokens_per_s']:.2f}{proven}")
            if partial == "--no-partial":
                bound = f"{out['upper_bound_tokens_per_s']:.2f}"
                seconds = f"{out['seconds']:.1f}"
                depth = f"{out['mean_depth']:.1f}"
        rows.append([cluster, model, published, *cells[:1], bound, seconds, depth, *cells[1:]])
    return table_of(["cluster", "model", "published", "flow", "bound", "seconds", "stages",
                     "with partial inference"], rows)


def depth_table(run):
    rows = []
    for cluster, mix, depths in (("single24", "single24", (10, 12, 14, 16, 20, 24)),
                                 ("highhet42", "highhet42", (10, 12, 15, 18, 24))):
        for depth in depths:
            out = run.plan(cluster, "llama2-70b", mix, "--objective", "flow", "--budget", "6s",
                           "--no-partial", "--max-depth", str(depth))
            rows.append([cluster, depth, f"{out['max_flow_tokens_per_s']:.1f}",
                         f"{out['mean_depth']:.2f}", f"{out['least_kv_tokens']:.0f}"])
    return table_of(["cluster", "most stages", "flow", "mean stages", "KV tokens"], rows)


def program_table(run):
    rows = []
    for cluster, model, mix, _ in INSTANCES:
        for prune in ("all", "12"):
            pruned = [] if prune == "all" else ["--prune", prune]
            out = run.plan(cluster, model, mix, "--objective", "flow", "--no-partial", "--method",
                           "milp", "--start", "search", "--budget", "60s", *pruned)
            milp = out["milp"]
            bound = "none" if milp["bound"] is None else f"{milp['bound']:.2f}"
            found = "nothing better"
            if milp["max_flow_tokens_per_s"] > milp["start_flow_tokens_per_s"] * (1 + 1e-6):
                found = f"{milp['max_flow_tokens_per_s']:.2f}"
            start = f"{milp['start_flow_tokens_per_s']:.2f}"
            if not milp["start_used"]:
                start = f"declined: {milp['start_note']}"
            rows.append([cluster, model, prune, start, found, bound,
                         f"{out['upper_bound_tokens_per_s']:.2f}", milp["stopped_by"],
                         f"{milp['seconds']:.1f}"])
    return table_of(["cluster", "model", "links of a machine", "start: our search", "the program found",
                     "its bound", "the configuration bound", "ended", "seconds"], rows)


SECTIONS = {"flow": flow_table, "depth": depth_table, "program": program_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("data")
    parser.add_argument("--only", default=",".join(SECTIONS))
    arguments = parser.parse_args()
    run = Runner(arguments.helix, arguments.data)
    for name in arguments.only.split(","):
        print(name, file=sys.stderr)
        put(SECTIONS[name](run), name, DOCS / "planning.md")


if __name__ == "__main__":
    main()
