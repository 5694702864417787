#!/usr/bin/env python3
"""Regenerates the tables "delivered", "generated" and "policies" and the pictures of
docs/planning.md: our plan beside every other layout known, and what our plans serve under policies
of their own.

    bench/delivered.py HELIX DATA [--case single24:llama2-70b]... [--budget 60s] [--details FILE]
    bench/delivered.py HELIX DATA --policies
    bench/delivered.py HELIX DATA --generated 10

HELIX is the program (build/release/bin/helix), DATA the folder data/paper. For each of the paper's
five cases the plan of `helix plan --budget` and all other layouts run in the simulator under our own
policy, with the recorded length stream, 600 s after 60 s: what every rule makes, the most flow with
at most so many stages, and the published layouts (pipelines of one type of machine each together).
Each figure is what one run of `helix` printed. --details writes a line for each layout.

All of them are served under the usual policy. --policies plans the five cases anew, each with the
policy that serves it most, and runs each plan under its own policy and under the usual one; the
best of all other layouts it takes from the table "delivered".

--generated does the same as without options for so many clusters drawn from the seeds 1, 2, ...: 12
to 30 machines of three to five kinds in one to three regions, with the speeds of the catalogue.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from tables import DOCS, place_of, put, table_of

PAGE = DOCS / "planning.md"

# cluster, model, machine mix, tokens/s to reach, seconds until the first token to stay below
CASES = [
    ("single24", "llama2-70b", "single24", 680, 2.96),
    ("distributed24", "llama2-70b", "single24", 360, 8.96),
    ("highhet42", "llama2-70b", "highhet42", 1400, 2.18),
    ("single24", "llama1-30b", "single24", 570, 2),
    ("distributed24", "llama1-30b", "single24", 320, 3),
]
USUAL_POLICY = ("--prefill-share", "3", "--kv-high-water", "0.9", "--prefill-target", "2s")
RULES = ("even", "replicated", "petals", "swarm", "separate", "separate-plus")
DEPTHS = (8, 10, 12, 14, 16, 20, 24, 28)


# What generated clusters are drawn from: machines of the catalogue, and links between regions.
KINDS = ("T4", "L4", "V100", "L40S", "A100-40", "A100-80", "H100 PCIe")
BETWEEN_REGIONS = ("100 Mbit/s", "500 Mbit/s", "1 Gbit/s")


def generated_cluster(seed):
    """A cluster file, which holds LLaMA 70B with room for its KV."""
    draw = random.Random(seed)
    kinds = draw.sample(KINDS, draw.randint(3, 5))
    regions = ("east", "west", "north")[:draw.randint(1, 3)]
    lines = [f'name = "generated{seed}"', "[coordinator]", f'region = "{regions[0]}"']
    left = draw.randint(12, 30)
    for number, kind in enumerate(kinds):
        count = left if number == len(kinds) - 1 else draw.randint(1, max(1, left // 2))
        count = max(count, 1)
        left -= count
        lines += ["[[machines]]", f'name = "{chr(ord("a") + number)}"', f'type = "{kind}"',
                  f"count = {count}", f'region = "{draw.choice(regions)}"']
    lines += ["[links]",
              f'default = {{bandwidth = "{draw.choice(BETWEEN_REGIONS)}", latency = "30 ms"}}',
              'same_region = {bandwidth = "10 Gbit/s", latency = "1 ms"}']
    return "\n".join(lines) + "\n"


class Case:
    def __init__(self, helix, data, cluster, model, mix, folder):
        self.name = f"{cluster} {model}"
        self.cluster, self.model = cluster, model
        self.helix, self.data, self.folder = helix, pathlib.Path(data), pathlib.Path(folder)
        self.problem = [str(self.data / "clusters" / f"{cluster}.json"), "--model", model,
                        "--profiles", str(self.data / "profiles"), "--machine-mix", mix]

    @classmethod
    def generated(cls, helix, data, seed, folder):
        case = cls(helix, data, f"generated{seed}", "llama2-70b", "", folder)
        path = case.folder / f"generated{seed}.toml"
        path.write_text(generated_cluster(seed))
        case.problem = [str(path), "--model", case.model]
        return case

    def helix_json(self, command, *arguments):
        done = subprocess.run([self.helix, command, *self.problem, *arguments, "--json"],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def plan(self, name, *arguments):
        """The report and the file of a plan; nothing where there is none."""
        path = self.folder / (re.sub(r"\W+", "-", f"{self.name} {name}") + ".json")
        report = self.helix_json("plan", "--output", str(path), *arguments)
        return (report, path) if report else (None, None)

    def served(self, path, policy=()):
        return self.helix_json("simulate", "--placement", str(path), "--offline", *policy,
                               "--lengths", str(self.data / "replay" / "length_stream_seed0.csv"))

    def published(self):
        """Name and file of the published layouts; those of one type each as one."""
        apart = {}
        for path in sorted((self.data / "layouts").glob(f"{self.cluster}__{self.model}__*.json")):
            method = path.stem.split("__")[2]
            kind, _, types = method.partition("_")
            if types:
                apart.setdefault(kind, []).append(path)
            else:
                yield f"published: {kind}", path
        for kind, paths in apart.items():
            joined = self.join(paths)
            if joined is None:
                continue
            path = self.folder / f"{self.cluster}-{self.model}-{kind}.json"
            path.write_text(json.dumps(joined))
            yield f"published: {kind}, one pipeline for each type", path

    def join(self, paths):
        """One layout of several for other machines each; nothing where they name too many."""
        cluster = json.loads(pathlib.Path(self.problem[0]).read_text())
        free = {}
        for number, node in enumerate(cluster["nodes"]):
            free.setdefault(node["type"], []).append(number)
        joined = {"schema": "helix-layout-1", "cluster": self.cluster, "model": self.model,
                  "node_types": {str(number): node["type"]
                                 for number, node in enumerate(cluster["nodes"])},
                  "layers": {}, "links": []}
        for path in paths:
            part = json.loads(path.read_text())
            joined["num_layers"] = part["num_layers"]
            number = {"source": "source", "sink": "sink"}
            for node, kind in part["node_types"].items():
                if node not in part["layers"] or not part["layers"][node]:
                    continue
                if not free.get(kind):
                    return None
                number[int(node)] = free[kind].pop(0)
                joined["layers"][str(number[int(node)])] = part["layers"][node]
            joined["links"] += [[number[a], number[b]] for a, b in part["links"]]
        return joined

    def others(self):
        """Name and file of every layout that is not our plan."""
        yield from self.published()
        for rule in RULES:
            report, path = self.plan(rule, "--method", rule, "--judge", "none")
            if report:
                yield f"rule: {rule}", path
        seen = set()
        for depth in DEPTHS:
            report, path = self.plan(f"flow {depth}", "--objective", "flow", "--max-depth",
                                     str(depth), "--budget", "3s")
            if not report:
                continue
            found = round(report["max_flow_tokens_per_s"], 1), round(report["mean_depth"], 2)
            if found not in seen:
                seen.add(found)
                yield f"most flow, {report['mean_depth']:.1f} stages", path


def rate(report):
    return f"{report['decode_tokens_per_s']:.1f}"


def run_case(case, budget, goal, first_token_s, details):
    picture = []
    if case.model == "llama2-70b" and goal:
        picture = ["--svg", str(DOCS / "img" / f"plan-{case.cluster}.svg")]
    report, path = case.plan("ours", "--budget", budget, "--usual-policy", *picture)
    if not report:
        sys.exit(f"{case.name}: no plan")
    ours = case.served(path)
    layouts = list(case.others())
    others = []
    with concurrent.futures.ThreadPoolExecutor() as threads:
        all_served = list(threads.map(case.served, [layout for _, layout in layouts]))
    for (name, _), served in zip(layouts, all_served):
        if served is None:
            print(f"{case.name}: {name}: does not run", file=details)
            continue
        others.append((served["decode_tokens_per_s"], name))
        print(f"{case.name}: {name}: {rate(served)} tokens/s, first token "
              f"{served['ttft_s']['mean']:.2f} s", file=details)
    best, name = max(others)
    mine = ours["decode_tokens_per_s"]
    print(f"{case.name}: ours: {rate(ours)} tokens/s", file=details, flush=True)
    first = f"{ours['ttft_s']['mean']:.2f}"
    aims = [goal, first, first_token_s] if goal else [first]
    return [case.name, f"{mine:.1f}", *aims, f"{report['mean_depth']:.1f}", report["judged"]["plans"],
            f"{best:.1f} ({name}, of {len(others)})", f"{mine / best:.2f}",
            f"{report['seconds']:.0f}"]


def best_other(name):
    """The tokens/s of the best of all others in this case, as the table "delivered" has it."""
    table = place_of(PAGE, "delivered").group(2)
    head, _, *rows = [[cell.strip() for cell in line.strip("| \n").split("|")]
                      for line in table.strip().splitlines()]
    for row in rows:
        if row[0] == name:
            return float(row[head.index("best of all others")].split()[0])
    sys.exit(f"{PAGE}: the table \"delivered\" has no row {name}")


def run_with_policy(case, budget, goal, first_token_s, details):
    report, path = case.plan("with its policy", "--budget", budget)
    if not report:
        sys.exit(f"{case.name}: no plan")
    policy, bound = report["policy"], report["delivered_bound"]
    ours = case.served(path)
    usual = case.served(path, USUAL_POLICY)
    print(f"{case.name}: {rate(ours)} tokens/s, under the usual policy {rate(usual)}",
          file=details, flush=True)
    best = best_other(case.name)
    return [case.name, rate(ours), goal, f"{ours['ttft_s']['mean']:.2f}", first_token_s,
            f"{policy['prefill_share']:g}", f"{policy['kv_high_water'] * 100:.0f} %",
            f"{policy['prefill_target_s']:g} s", rate(usual), f"{best:.1f}",
            f"{ours['decode_tokens_per_s'] / best:.2f}",
            f"{bound['tokens_per_s']:.0f} ({bound['limited_by']})",
            f"{(1 - ours['decode_tokens_per_s'] / bound['tokens_per_s']) * 100:.0f} %",
            report["judged"]["plans"], f"{report['seconds']:.0f}"]


def write_policies(arguments):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for cluster, model, mix, goal, first_token_s in CASES:
            if arguments.case and f"{cluster}:{model}" not in arguments.case:
                continue
            case = Case(arguments.helix, arguments.data, cluster, model, mix, folder)
            rows.append(run_with_policy(case, arguments.budget, goal, first_token_s,
                                        arguments.details))
    head = ["case", "ours", "aim", "first token s", "aim", "prompts' time", "memory promised",
            "first tokens after", "under the usual policy", "best of all others", "ours over it",
            "bound", "gap", "plans judged", "seconds"]
    finish(arguments, table_of(head, rows), "policies")


def finish(arguments, made, name):
    """Prints a table, and where it is whole puts it into its place on the page."""
    print(made)
    if not arguments.case:
        put(made, name, PAGE)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("data")
    parser.add_argument("--case", action="append", help="CLUSTER:MODEL; all five without it")
    parser.add_argument("--generated", type=int, default=0, metavar="N",
                        help="N clusters drawn from seeds instead of the paper's cases")
    parser.add_argument("--policies", action="store_true",
                        help="the paper's cases, each plan with the policy that serves it most")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--details", type=argparse.FileType("w"), default=sys.stderr)
    arguments = parser.parse_args()
    if arguments.policies:
        return write_policies(arguments)
    name = "generated" if arguments.generated else "delivered"
    if not arguments.case:
        place_of(PAGE, name)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, arguments.generated + 1):
            case = Case.generated(arguments.helix, arguments.data, seed, folder)
            rows.append(run_case(case, arguments.budget, None, None, arguments.details))
        for cluster, model, mix, goal, first_token_s in CASES:
            if arguments.generated:
                break
            if arguments.case and f"{cluster}:{model}" not in arguments.case:
                continue
            case = Case(arguments.helix, arguments.data, cluster, model, mix, folder)
            rows.append(run_case(case, arguments.budget, goal, first_token_s, arguments.details))
    head = ["case", "ours", "aim", "first token s", "aim"]
    if arguments.generated:
        head = ["cluster", "ours", "first token s"]
    head += ["stages", "plans judged", "best of all others", "ours over it", "seconds"]
    finish(arguments, table_of(head, rows), name)


if __name__ == "__main__":
    main()
