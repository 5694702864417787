#!/usr/bin/env python3
"""How well the model of our own batching (src/plan/predict/performance.h), by which searches look
for placements, foretells what the simulator delivers.

    bench/prediction.py build/release/bin/helix data/paper [--layouts 200] [--seed 1]
    bench/prediction.py HELIX DATA --clusters single24,generated3 --layouts 40 --keep FOLDER

Of each cluster so many valid layouts of LLaMA-2 70B are drawn, from poor to good ones: machines in
random order that hold random runs of layers; what rules, most-flow searches and our own unjudged
search make; and these with up to 40 random changes. Requests are spread by a maximum flow. `helix plan
--method manual` says what the model predicts for a layout, and `helix simulate` what it serves
(offline, the usual policy, the Azure conversations' recorded lengths, 600 s after 60 s). The
table has the rank correlation of the two (Spearman) and the error of the prediction as a share of
what was served. Clusters are the paper's three and generated ones (bench/delivered.py has how they
are drawn from a seed). FITTED_ON are kept apart: the model's constants may be chosen on them, so they are no test of it.

--keep holds a file for each cluster with every layout that is done, and a later run with the same
options goes on from there. Files of another program or other options are refused; with
--same-simulator simulated figures of another program are kept, and only predictions made anew.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile

from delivered import CASES, DEPTHS, RULES, USUAL_POLICY, Case
from tables import table_of

MODEL = "llama2-70b"
PUBLISHED = ("single24", "distributed24", "highhet42")
GENERATED = tuple(f"generated{seed}" for seed in range(1, 11))
FITTED_ON = tuple(f"generated{seed}" for seed in range(101, 105))
WINDOW = ("--warmup", "60s", "--duration", "600s")
MOST_DRAWS = 60  # for each layout that is wanted; most draws of some clusters do not fit


def ranks(values):
    """Ranks from 0; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for place in range(begin, end):
            rank[order[place]] = (begin + end - 1) / 2
        begin = end
    return rank


def spearman(x, y):
    """The rank correlation; nothing where one side is the same throughout."""
    a, b = ranks(x), ranks(y)
    mean = (len(a) - 1) / 2
    ab = sum((p - mean) * (q - mean) for p, q in zip(a, b))
    aa = sum((p - mean) ** 2 for p in a)
    bb = sum((q - mean) ** 2 for q in b)
    return ab / (aa * bb) ** 0.5 if aa > 0 and bb > 0 else None


def quantile(values, share):
    """The smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000 * len(ordered)) // 1000) - 1)]


class Layouts:
    """Draws layouts of one cluster. The k-th is the same for every run with the same seed."""

    def __init__(self, case, seed, folder):
        """The starts are made once: how far a search gets in its time differs from run to run."""
        self.case, self.seed = case, seed
        path = folder / f"{case.cluster}-starts.json"
        if not path.exists():
            path.write_text(json.dumps(self.make_starts()))
        kept = json.loads(path.read_text())
        self.n_layers, self.types = kept["n_layers"], kept["types"]
        self.starts = [[run and tuple(run) for run in layers] for layers in kept["starts"]]
        # The most layers of a machine of each type in any of them.
        self.most = {kind: 1 for kind in self.types}
        for layers in self.starts:
            for kind, run in zip(self.types, layers):
                if run:
                    self.most[kind] = max(self.most[kind], run[1] - run[0])

    def make_starts(self):
        """What rules and searches make."""
        plans = [("--method", rule) for rule in RULES]
        plans += [("--objective", "flow", "--budget", "2s", "--max-depth", str(depth))
                  for depth in DEPTHS]
        plans.append(("--judge", "none", "--budget", "4s"))
        starts = []
        for number, arguments in enumerate(plans):
            report, _ = self.case.plan(f"start {number}", *arguments)
            if report is None:
                continue
            made = {"n_layers": report["num_layers"],
                    "types": [node["type"] for node in report["nodes"]]}
            layers = list(report["layers"].values())
            if layers not in starts:
                starts.append(layers)
        if not starts:
            sys.exit(f"{self.case.name}: no rule finds a layout")
        return {**made, "starts": starts}

    def covers(self, layers):
        held = [0] * self.n_layers
        for run in layers:
            for layer in range(*(run or (0, 0))):
                held[layer] += 1
        return min(held) > 0

    def scattered(self, draw):
        """Every machine a run of layers anywhere."""
        layers = []
        for kind in self.types:
            count = draw.randint(max(1, self.most[kind] // 2), self.most[kind])
            begin = draw.randint(-count + 1, self.n_layers - 1)
            layers.append((max(0, begin), min(self.n_layers, begin + count)))
        return layers

    def chained(self, draw):
        """Pipelines, one after the other, of machines in random order."""
        order = list(range(len(self.types)))
        draw.shuffle(order)
        least = draw.choice((0.3, 0.6, 0.9))  # of what a machine can hold
        layers = [None] * len(order)
        begin = 0
        for machine in order:
            most = self.most[self.types[machine]]
            end = min(self.n_layers, begin + draw.randint(max(1, round(least * most)), most))
            layers[machine] = (begin, end)
            begin = 0 if end == self.n_layers else end
        return layers

    def changed(self, draw):
        """A start with some random changes."""
        layers = list(draw.choice(self.starts))
        for _ in range(draw.choice((0, 1, 2, 4, 8, 16, 40))):
            machine, other = draw.randrange(len(layers)), draw.randrange(len(layers))
            run = layers[machine]
            kind = draw.randrange(5) if run else 0
            by = draw.randint(-8, 8) if kind == 1 else draw.randint(-3, 3)
            if kind == 0:  # the other's layers
                layers[machine] = self.within(machine, layers[other])
            elif kind == 1:
                layers[machine] = self.within(machine, (run[0] + by, run[1] + by))
            elif kind == 2:
                layers[machine] = self.within(machine, (run[0] + by, run[1]))
            elif kind == 3:
                layers[machine] = self.within(machine, (run[0], run[1] + by))
            else:
                layers[machine] = self.within(machine, layers[other])
                layers[other] = self.within(other, run)
        return layers

    def within(self, machine, run):
        """What of a run of layers the model has and the machine can hold; nothing of none."""
        begin, end = max(0, run[0] if run else 0), min(self.n_layers, run[1] if run else 0)
        end = min(end, begin + self.most[self.types[machine]])
        return (begin, end) if begin < end else None

    def drawn(self, number):
        """A layout that covers the model, or nothing."""
        draw = random.Random(f"{self.case.name} {self.seed} {number}")
        way = draw.choices((self.scattered, self.chained, self.changed), (1, 2, 5))[0]
        layers = way(draw)
        return layers if self.covers(layers) else None

    def all(self):
        """Different ones, with their numbers, without end."""
        seen = set()
        number = 0
        while True:
            number += 1
            layers = self.drawn(number)
            if layers is None or tuple(layers) in seen:
                layers = None
            else:
                seen.add(tuple(layers))
            yield number, layers


class Cluster:
    def __init__(self, arguments, name, folder):
        self.arguments, self.name, self.folder = arguments, name, pathlib.Path(folder)
        if name.startswith("generated"):
            self.case = Case.generated(arguments.helix, arguments.data, int(name[9:]), folder)
        else:
            mix = next(mix for cluster, model, mix, *_ in CASES
                       if (cluster, model) == (name, MODEL))
            self.case = Case(arguments.helix, arguments.data, name, MODEL, mix, folder)
        program = hashlib.sha256(pathlib.Path(arguments.helix).read_bytes()).hexdigest()
        self.head = {"cluster": name, "seed": arguments.seed, "window": list(WINDOW),
                     "program": program}

    def kept(self):
        """What earlier runs have measured, by the draw's number."""
        self.path = None
        if not self.arguments.keep:
            return {}
        self.path = pathlib.Path(self.arguments.keep) / f"{self.name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = {}
        if self.path.exists():
            head, *lines = self.path.read_text().splitlines()
            head = json.loads(head)
            other = [key for key, value in self.head.items() if head.get(key) != value]
            if other and not (self.arguments.same_simulator and other == ["program"]):
                sys.exit(f"{self.path}: is of another {', '.join(other)}; choose another folder "
                         "or remove it")
            for line in lines:
                row = json.loads(line)
                if other:
                    row["predicted"] = None
                rows[row["number"]] = row
        self.path.write_text("".join(json.dumps(line) + "\n"
                                     for line in [self.head, *rows.values()]))
        return rows

    def measure(self, number, layers, types, n_layers, row):
        """Both figures of a layout; None where it does not fit or serves nothing."""
        path = self.folder / f"{self.name}-{number}.json"
        path.write_text(json.dumps({
            "schema": "helix-layout-1", "cluster": self.name, "model": MODEL, "links": [],
            "num_layers": n_layers, "node_types": {str(k): kind for k, kind in enumerate(types)},
            "layers": {str(k): run for k, run in enumerate(layers) if run}}))
        plan = self.folder / f"{self.name}-{number}-plan.json"
        report = self.case.helix_json("plan", "--method", "manual", "--placement", str(path),
                                      "--judge", "none", "--usual-policy", "--budget", "1s",
                                      "--output", str(plan))
        fits = report is not None and report.get("predicted") is not None
        row = dict(row or {"number": number, "layers": layers, "simulated": None})
        row["predicted"] = report["predicted"] if fits else None
        if fits and row["simulated"] is None:
            served = self.case.helix_json(
                "simulate", "--placement", str(plan), "--offline", *USUAL_POLICY, *WINDOW,
                "--lengths", str(self.case.data / "replay" / "length_stream_seed0.csv"))
            row["simulated"] = served and {
                "decode_tokens_per_s": served["decode_tokens_per_s"],
                "ttft_s": served["ttft_s"]["mean"], "tpot_s": served["tpot_s"]["mean"]}
        row["fits"] = fits and row["simulated"] is not None
        return row

    def run(self):
        """(predicted, simulated) of the layouts that are served."""
        rows = self.kept()
        layouts = Layouts(self.case, self.arguments.seed,
                          self.path.parent if self.path else self.folder)
        wanted = self.arguments.layouts
        found = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            drawn = layouts.all()
            tried = 0
            while len(found) < wanted:
                if tried >= MOST_DRAWS * wanted:
                    sys.exit(f"{self.name}: only {len(found)} of {tried} draws can be served")
                batch = []
                while len(batch) < min(wanted - len(found), 2 * os.cpu_count()):
                    number, layers = next(drawn)
                    tried += 1
                    if layers is not None:
                        batch.append((number, layers))
                    elif tried >= MOST_DRAWS * wanted:
                        break
                for row in threads.map(lambda one: self.row(*one, layouts, rows), batch):
                    if row["number"] not in rows and self.path:
                        with self.path.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                    if row["fits"]:
                        found.append((row["predicted"]["decode_tokens_per_s"],
                                      row["simulated"]["decode_tokens_per_s"]))
                print(f"{self.name}: {len(found)} of {wanted}, {tried} drawn", file=sys.stderr,
                      flush=True)
        return found[:wanted]

    def row(self, number, layers, layouts, rows):
        known = rows.get(number)
        if known and (not known["fits"] or known["predicted"]):
            return known
        return self.measure(number, layers, layouts.types, layouts.n_layers, known)


def line_of(name, pairs):
    pairs = [pair for pair in pairs if pair[1] > 0]
    predicted, simulated = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    errors = [p / s - 1 for p, s in pairs]
    sizes = [abs(error) for error in errors]
    correlation = spearman(predicted, simulated)
    return [name, len(pairs), f"{min(simulated):.0f} to {max(simulated):.0f}",
            "none" if correlation is None else f"{correlation:.3f}",
            f"{statistics.mean(sizes) * 100:.1f} %", f"{quantile(sizes, 0.9) * 100:.1f} %",
            f"{statistics.mean(errors) * 100:+.1f} %"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("data")
    parser.add_argument("--clusters", default=",".join(PUBLISHED + GENERATED),
                        help="by name; generatedN is drawn from the seed N")
    parser.add_argument("--layouts", type=int, default=200, help="of each cluster")
    parser.add_argument("--seed", type=int, default=1, help="of the layouts")
    parser.add_argument("--keep", help="a folder for what is measured; a later run goes on from it")
    parser.add_argument("--same-simulator", action="store_true",
                        help="kept figures of another program are only predicted anew")
    arguments = parser.parse_args()
    names = arguments.clusters.split(",")
    for name in names:
        if name not in PUBLISHED and not (name.startswith("generated") and name[9:].isdigit()):
            parser.error(f"--clusters: {name} is neither {', '.join(PUBLISHED)} nor generatedN")
    if arguments.layouts < 3:
        parser.error("--layouts: at least 3 have ranks worth the name")
    lines = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(line_of(name, Cluster(arguments, name, folder).run()))
        print(" ".join(str(cell) for cell in lines[-1]), file=sys.stderr, flush=True)
    made = table_of(["cluster", "layouts", "tokens/s served", "rank correlation", "mean error",
                     "90 % of errors below", "mean, with its sign"], lines)
    print(made)


if __name__ == "__main__":
    main()
