#!/usr/bin/env python3
"""How much of the gap between a plan and the bound on delivered tokens is the bound's own: clusters
so small that every layout can be tried. Regenerates the table "bound gap" of docs/planning.md.

    bench/bound_gap.py build/release/bin/helix data/paper [--case NAME]...

A case is a few machines and a model of a few of LLaMA 70B's layers, cut into blocks so that its
layouts can be counted: every machine holds any run of blocks for which it has memory, or nothing.
Machines of one kind are alike, so layouts that only swap them count once. Every layout that covers
the model runs in the simulator (offline, our own policy with its usual values, 120 s after 60 s);
the best twentieth of them and our plan (`helix plan --budget 20s --usual-policy`, which may cut
between any two layers) run for 600 s after 60 s. What is between the best of all and the bound is
the bound's or the policy's, not the placement's.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tables import DOCS, put, table_of

# Layers of the model, layers to a block, machines (type, how many, most blocks), Gbit/s, ms.
CASES = {
    "2 L4, 2 T4": (12, 3, (("L4", 2, 4), ("T4", 2, 2)), 10, 1),
    "A100, L4, 2 T4": (20, 5, (("A100-40", 1, 4), ("L4", 1, 2), ("T4", 2, 1)), 10, 1),
    "A100, L4, 2 T4, far": (20, 5, (("A100-40", 1, 4), ("L4", 1, 2), ("T4", 2, 1)), 1, 50),
}
SHORT = ("--warmup", "60s", "--duration", "120s")
LONG = ("--warmup", "60s", "--duration", "600s")


def model_file(folder, layers):
    """LLaMA 70B with fewer layers."""
    path = folder / f"layers{layers}.json"
    path.write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192,
        "intermediate_size": 28672, "num_attention_heads": 64, "num_key_value_heads": 8,
        "num_hidden_layers": layers, "vocab_size": 32000, "max_position_embeddings": 4096}))
    return path


def cluster_file(folder, machines, gbit_per_s, latency_ms):
    lines = ['name = "small"', "[coordinator]", 'region = "here"']
    for kind, count, _ in machines:
        lines += ["[[machines]]", f'name = "{kind.lower()}"', f'type = "{kind}"',
                  f"count = {count}", 'region = "here"']
    lines += ["[links]", f'default = {{bandwidth = "{gbit_per_s} Gbit/s", latency = "{latency_ms} ms"}}']
    path = folder / "small.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def runs_of_blocks(blocks, most):
    """All that a machine can hold."""
    return [None] + [(begin, begin + count) for count in range(1, most + 1)
                     for begin in range(blocks - count + 1)]


def all_layouts(blocks, machines):
    """Every layout that covers the model, one of those that only swap machines of a kind."""
    kinds = [itertools.combinations_with_replacement(runs_of_blocks(blocks, most), count)
             for _, count, most in machines]
    for choice in itertools.product(*kinds):
        held = [run for kind in choice for run in kind]
        # Partial runs are served too, so covering is enough for a way through all layers.
        if all(any(run and run[0] <= block < run[1] for run in held) for block in range(blocks)):
            yield held


class Case:
    def __init__(self, helix, data, folder, name):
        layers, self.block_layers, self.machines, gbit_per_s, latency_ms = CASES[name]
        self.helix, self.folder, self.layers = helix, folder, layers
        self.problem = [str(cluster_file(folder, self.machines, gbit_per_s, latency_ms)), "--model",
                        str(model_file(folder, layers))]
        self.lengths = str(pathlib.Path(data) / "replay" / "length_stream_seed0.csv")

    def helix_json(self, command, *arguments):
        done = subprocess.run([self.helix, command, *self.problem, *arguments, "--json"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.refused = done.stderr.strip()
            return None
        return json.loads(done.stdout)

    def served(self, path, window):
        """Decode tokens/s; None where the layout has no room for a request."""
        report = self.helix_json("simulate", "--placement", str(path), "--offline", "--lengths",
                                 self.lengths, *window)
        return report and report["decode_tokens_per_s"]

    def layout(self, number, held):
        kinds = [kind for kind, count, _ in self.machines for _ in range(count)]
        path = self.folder / f"layout{number}.json"
        path.write_text(json.dumps({
            "schema": "helix-layout-1", "cluster": "small", "model": "small",
            "num_layers": self.layers, "links": [],
            "node_types": {str(node): kind for node, kind in enumerate(kinds)},
            "layers": {str(node): [end * self.block_layers for end in run]
                       for node, run in enumerate(held) if run}}))
        return path

    def run(self, name):
        blocks = self.layers // self.block_layers
        layouts = [self.layout(number, held)
                   for number, held in enumerate(all_layouts(blocks, self.machines))]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            short = list(threads.map(lambda path: self.served(path, SHORT), layouts))
            known = sorted(((rate, path) for rate, path in zip(short, layouts) if rate is not None),
                           key=lambda pair: -pair[0])
            if not known:
                sys.exit(f"{name}: no layout runs: {self.refused}")
            chosen = [path for _, path in known[:max(10, len(known) // 20)]]
            best = max(threads.map(lambda path: self.served(path, LONG), chosen))
        plan = self.folder / "plan.json"
        report = self.helix_json("plan", "--budget", "20s", "--usual-policy", "--output", str(plan))
        if report is None:
            sys.exit(f"{name}: no plan: {self.refused}")
        ours = self.served(plan, LONG)
        bound = report["delivered_bound"]
        most = max(ours, best)
        return [name, f"{self.layers} in blocks of {self.block_layers}", len(known), f"{ours:.1f}",
                f"{best:.1f}", f"{bound['tokens_per_s']:.1f}", bound["limited_by"].replace("_", " "),
                f"{(1 - ours / bound['tokens_per_s']) * 100:.0f} %",
                f"{(1 - most / bound['tokens_per_s']) * 100:.0f} %"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("data")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="all without it")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.case or CASES:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(arguments.helix, arguments.data, pathlib.Path(folder), name)
            rows.append(case.run(name))
            print(f"{name}: {rows[-1][2]} layouts tried", file=sys.stderr, flush=True)
    made = table_of(["machines", "layers", "layouts", "our plan", "best of all layouts", "bound",
                     "what binds", "gap of our plan", "gap of the best of all"], rows)
    print(made)
    if not arguments.case:
        put(made, "bound gap", DOCS / "planning.md")


if __name__ == "__main__":
    main()
