#!/usr/bin/env python3
"""Four unequal machines under 75 % of what they can serve: does every path keep up?

usage: bench/unequal.py --binary build/release/bin/helix [--binary OTHER ...] [--runs 3]
           [--window 60] [--json FILE]

Real processes: `helix serve` and four modelled workers (real protocol, the times of tables that
bench/fidelity.py makes up; they sleep instead of computing, so that the whole takes a fraction of a core).
Layers 0-30, 22-48, 30-48 and 0-22 of 48 stand on machines of three speeds, 1 : 2.5 : 6. Each run has a
cluster of its own and its own Poisson arrivals, the same for every binary. First a run is offered half
more than the peak that `helix simulate --find-peak` of the first binary finds: what is then served is the
measured peak of each binary. The load of the other runs is 75 % of the highest of these, for all binaries
alike. Prints a table for docs/planning.md.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import sys
import tempfile

import fidelity

CLUSTER = "unequal"
WARMUP_S = 15
SHARE = 0.75
OVERLOAD = 1.5


class Arguments:
    """What fidelity's helpers want of theirs."""

    def __init__(self, binary):
        self.binary = binary


def run(binary, folder, profiles, placement, trace, name, window_s):
    cluster = fidelity.Cluster(Arguments(binary), folder, profiles, CLUSTER, placement, name)
    try:
        return json.loads(fidelity.helix(Arguments(binary), "bench", "--url", cluster.url, "--trace", trace,
                                         "--warmup", f"{WARMUP_S}s", "--duration", f"{window_s}s", "--json"))
    finally:
        cluster.stop()


def write_load(folder, tokens_per_s, number, window_s):
    fidelity.WARMUP_S, fidelity.WINDOW_S = WARMUP_S, window_s
    return fidelity.write_load(folder, f"load-{number}", tokens_per_s, 1.0, number)


def row(found):
    return {"tokens_per_s": found["prompt_tokens_per_s"] + found["decode_tokens_per_s"],
            "p50_s": found["ttft_s"]["p50"], "p99_s": found["ttft_s"]["p99"],
            "tpot_s": found["tpot_per_request_s"]["mean"], "errors": found["errors"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", action="append", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--window", type=int, default=60, help="seconds that count")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-unequal-") as folder:
        profiles = os.path.join(folder, "profiles")
        os.mkdir(profiles)
        fidelity.write_profiles(profiles)
        lengths = fidelity.write_lengths(folder)
        types = fidelity.CLUSTERS[CLUSTER][0]
        toml = fidelity.write_cluster(folder, CLUSTER, types)
        problem = ["--model", fidelity.MODEL, "--profiles", profiles]
        first = Arguments(args.binary[0])
        placement = fidelity.write_placement(first, folder, CLUSTER, toml, problem)
        guess = json.loads(fidelity.helix(first, "simulate", toml, *problem, "--placement", placement,
                                          "--lengths", lengths, "--find-peak", "--json"))["peak_tokens_per_s"]
        with concurrent.futures.ThreadPoolExecutor(args.parallel) as executor:
            def all_of(loads, what):
                jobs = [(b, n, executor.submit(run, binary, folder, profiles, placement, load,
                                               f"{what}-{b}-{n}", args.window))
                        for n, load in enumerate(loads) for b, binary in enumerate(args.binary)]
                return {(b, n): row(job.result()) for b, n, job in jobs}
            overload = write_load(folder, OVERLOAD * guess, 0, args.window)
            saturated = all_of([overload], "saturated")
            peak = max(found["tokens_per_s"] for found in saturated.values())
            print(f"simulated peak {guess:.0f}, measured {peak:.0f} tokens/s", file=sys.stderr)
            loads = [write_load(folder, SHARE * peak, n + 1, args.window) for n in range(args.runs)]
            loaded = all_of(loads, "loaded")
    results = []
    for b, binary in enumerate(args.binary):
        runs = [loaded[b, n] for n in range(args.runs)]
        results.append({"binary": binary, "saturated": saturated[b, 0], "offered": SHARE * peak, "runs": runs})
    if args.json:
        with open(args.json, "w") as out:
            json.dump(results, out, indent=1)
    print("| program | saturated tokens/s | offered then | TTFT p50 s, each run | TTFT p99 s, each run | "
          "TPOT s, mean |\n|---|---|---|---|---|---|")
    for result in results:
        each = [" / ".join(f"{found[key]:.2f}" for found in result["runs"]) for key in ("p50_s", "p99_s")]
        tpot = statistics.mean(found["tpot_s"] for found in result["runs"])
        print(f"| {result['binary']} | {result['saturated']['tokens_per_s']:.0f} | {result['offered']:.0f} | "
              f"{each[0]} | {each[1]} | {tpot:.3f} |")
    if any(found["errors"] for result in results for found in result["runs"]):
        raise SystemExit("some requests failed; see --json")


if __name__ == "__main__":
    main()
