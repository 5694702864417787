#!/usr/bin/env python3
"""How far the simulator is off: real processes on this machine against `helix simulate`'s world.

usage: bench/fidelity.py --binary build/release/bin/helix [--clusters equal,unequal,many,cpu,cpu4] [--shares 25,50,75]
           [--repeats 2] [--twins] [--parallel 3] [--json FILE]

Three clusters of `helix serve` and modelled workers (real protocol, the times of tables that this script
makes up), each under three loads: Poisson arrivals at 25, 50 and 75 % of the peak that `helix simulate
--find-peak` finds. `helix bench --against-simulation` plays the same requests on both. Each load runs
twice, with other arrivals and on a new cluster each time: near the peak one run says little. Prints the error
of the means and a table for docs/measuring.md. About six minutes; wants a machine that does nothing else, or
real-time priority (`chrt -f 5 bench/fidelity.py ...` as root): the processes use a tenth of a core.
The clusters `cpu` and `cpu4`, not among the three, are workers that compute, with tables that `helix profile`
measures before on one core: two workers, a core each; and four of one thread that are slowed down (`helix worker
--speed`) to 35, 25, 18 and 12 % of a core, with layers that overlap. Together they use less than a core, so two cores
do for all four; their tables are the core's with the times divided by the speed.
--twins runs each load twice with the same arrivals. What the simulation says between the two, or as near to one of them
as they are to each other, is then no error of its own: the table says what lies beyond, and how far the two are apart.
"""
import argparse
import concurrent.futures
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from served import Served

LAYERS = 48
MODEL = "modelled-48"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VOCABULARY = os.path.join(ROOT, "models", "helix-demo.gguf")
WARMUP_S, WINDOW_S = 6, 24
FIGURES = ("decode_tokens_per_s", "ttft_s.mean", "ttft_s.p50", "tpot_per_request_s.mean",
           "tpot_per_request_s.p50")

# Milliseconds of one layer for a batch of decodes, for each decode in it, for a batch of prompts,
# and for each prompt token.
TYPES = {"big": (0.7, 0.006, 0.8, 0.010), "mid": (1.6, 0.015, 1.6, 0.025),
         "small": (4.0, 0.030, 4.0, 0.070)}
MEMORY_GB = {"big": 24, "mid": 20, "small": 16, "core": 1, "core35": 1, "core25": 1, "core18": 1, "core12": 1}

# For each cluster: its machines; who holds which layers, or None if `helix plan` is to say; and how
# much slower than the tables it runs, so that the processes' own work does not count on a machine
# of few cores.
CLUSTERS = {
    "equal": (["mid"] * 3, [(0, 16), (16, 32), (32, 48)], 1),
    "unequal": (["big", "mid", "mid", "small"], [(0, 30), (22, 48), (30, 48), (0, 22)], 1),
    "many": (["big"] * 4 + ["mid"] * 8 + ["small"] * 12, None, 2),
    "cpu": (["core"] * 2, [(0, 6), (6, 12)], 1),
    "cpu4": (["core35", "core25", "core18", "core12"], [(0, 6), (5, 12), (6, 12), (0, 5)], 1),
}
SPEED = {"core": 1, "core35": 0.35, "core25": 0.25, "core18": 0.18, "core12": 0.12}
DEFAULT = "equal,unequal,many"
COMPUTING = ("cpu", "cpu4")
CPU_SHAPE = "llama-160m"


def write_profiles(folder):
    with open(os.path.join(folder, "models.json"), "w") as out:
        json.dump({MODEL: {"num_layers": LAYERS, "layer_param_bytes": 500_000_000, "token_bytes": 2,
                           "activation_bytes_per_token": 8192}}, out)
    limits = ["machine_type,num_layers,max_num_layers_of_type,kv_tokens_per_layer,prompt_max_tokens,"
              "decode_max_tokens"]
    for name, (decode, each_decode, prompt, each_prompt) in TYPES.items():
        for kind, once, each, sizes in (("decode", decode, each_decode, (1, 8, 32, 128, 512)),
                                        ("prompt", prompt, each_prompt, (1, 64, 256, 1024, 4096))):
            with open(os.path.join(folder, f"{MODEL}_{name}_{kind}_time.csv"), "w") as out:
                out.write("batch_tokens,one_layer_time_ms\n0,0\n")
                out.writelines(f"{n},{once + each * n:.6f}\n" for n in sizes)
        memory = MEMORY_GB[name] * 1e9
        most = int(memory * 0.8 / 5e8)
        for layers in range(1, most + 1):
            kv = int((memory - layers * 5e8) / 16384 / layers)
            limits.append(f"{name},{layers},{most},{kv * layers},4096,512")
    with open(os.path.join(folder, f"{MODEL}_limits.csv"), "w") as out:
        out.write("\n".join(limits) + "\n")


def write_cluster(folder, name, types):
    path = os.path.join(folder, name + ".toml")
    with open(path, "w") as out:
        out.write(f'name = "{name}"\n')
        for index, kind in enumerate(types):
            out.write(f'[[machines]]\nname = "w{index}"\ntype = "{kind}"\n'
                      f'memory = "{MEMORY_GB[kind]} GB"\n')
        out.write('[links]\ndefault = {bandwidth = "10 Gbit/s", latency = "300 us"}\n')
    return path


def helix(args, *command):
    done = subprocess.run([args.binary, *command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"helix {' '.join(command)}:\n{done.stderr}{done.stdout}")
    return done.stdout


def write_placement(args, folder, name, cluster, problem):
    layers = CLUSTERS[name][1]
    path = os.path.join(folder, name + ".plan.json")
    if layers is None:
        helix(args, "plan", cluster, *problem, "--budget", "5s", "--judge", "none", "--seed", "1",
              "--output", path)
        return path
    with open(path, "w") as out:
        json.dump({"schema": "helix-layout-1", "num_layers": max(end for _, end in layers),
                   "layers": {str(i): list(span) for i, span in enumerate(layers)},
                   "node_names": {str(i): f"w{i}" for i in range(len(layers))}, "links": []}, out)
    return path


def draw_lengths(source):
    return source.randint(40, 400), source.randint(8, 40)


def write_load(folder, name, peak, share, repeat):
    """A trace whose tokens are within 1 % of what the share asks for."""
    asked = share * peak * (WARMUP_S + WINDOW_S)
    for draw in range(10_000):
        source = random.Random(f"{name} {share} {repeat} {draw}")
        rows, at, mean = [], 0.0, (40 + 400) / 2 + (8 + 40) / 2
        while True:
            at += source.expovariate(share * peak / mean)
            if at >= WARMUP_S + WINDOW_S:
                break
            rows.append((at, *draw_lengths(source)))
        if abs(sum(prompt + output for _, prompt, output in rows) / asked - 1) < 0.01:
            break
    else:
        raise SystemExit(f"no load of {share:.0%} found")
    path = os.path.join(folder, f"{name}-{share:g}-{repeat}.csv")
    with open(path, "w") as out:
        out.write("arrival_s,prompt_tokens,output_tokens\n")
        out.writelines(f"{at:.6f},{prompt},{output}\n" for at, prompt, output in rows)
    return path


def write_lengths(folder):
    source = random.Random(1)
    path = os.path.join(folder, "lengths.csv")
    with open(path, "w") as out:
        out.write("prompt_tokens,output_tokens\n")
        for _ in range(2000):
            out.write("{},{}\n".format(*draw_lengths(source)))
    return path


class Cluster(Served):
    """`helix serve` and its workers."""

    def __init__(self, args, folder, profiles, name, placement, run):
        types, _, slower = CLUSTERS[name]
        super().__init__(os.path.join(folder, f"{name}-{run}.log"))
        backend = ["--backend", "modelled", "--profiles", profiles, "--profile", MODEL, "--time-scale",
                   str(slower)]
        model, extra = VOCABULARY, lambda index: backend
        computes = name in COMPUTING
        if computes:
            model = os.path.join(folder, "cpu.gguf")
            own = lambda index: ["--cpus", str(index)] if name == "cpu" else ["--speed", str(SPEED[types[index]])]
            extra = lambda index: ["--model", model, "--threads", "1", *own(index)]
        self.start([args.binary, "serve", "--model", model, "--listen", f"127.0.0.1:{self.port}",
                    "--no-worker", "--min-workers", str(len(types)), "--placement", placement,
                    *([] if computes else ["--type", types[0], *backend])])
        self.wait("/health/live", 30)
        for index, kind in enumerate(types):
            self.start([args.binary, "worker", "--join", f"127.0.0.1:{self.port}", "--name", f"w{index}",
                        "--host-id", f"w{index}", "--type", kind, "--memory", f"{MEMORY_GB[kind]}GB",
                        *extra(index)])
        self.wait("/health/ready", 120)


def profile_cpu(args, folder, profiles):
    """A model to compute and its tables, of one core."""
    gguf = os.path.join(folder, "cpu.gguf")
    helix(args, "model", "synth", "--shape", CPU_SHAPE, "--quant", "q8_0", gguf)
    helix(args, "profile", "--model", gguf, "--output", profiles, "--type", "core", "--name", "cpu",
          "--threads", "1", "--cpus", "0", "--memory", f"{MEMORY_GB['core']}GB", "--context", "128",
          "--max-prompt", "512", "--max-sequences", "16", "--budget", "20s")


def write_slower(profiles):
    """The tables of the core, slowed down."""
    with open(os.path.join(profiles, "cpu_limits.csv")) as file:
        head, *limits = [line.rstrip("\n") for line in file if line.strip()]
    for kind, speed in SPEED.items():
        if kind == "core":
            continue
        for batch in ("decode", "prompt"):
            with open(os.path.join(profiles, f"cpu_core_{batch}_time.csv")) as file:
                header, *rows = file.read().split()
            rows = [(tokens, float(time_ms) / speed) for tokens, time_ms in (row.split(",") for row in rows)]
            with open(os.path.join(profiles, f"cpu_{kind}_{batch}_time.csv"), "w") as out:
                out.write(header + "\n" + "".join(f"{tokens},{time_ms:.6f}\n" for tokens, time_ms in rows))
        limits += [kind + line[len("core"):] for line in limits if line.startswith("core,")]
    with open(os.path.join(profiles, "cpu_limits.csv"), "w") as out:
        out.write("\n".join([head, *limits]) + "\n")


def measure(args, folder, profiles, lengths, name):
    types, layers, slower = CLUSTERS[name]
    model = "cpu" if name in COMPUTING else MODEL
    if name in COMPUTING:
        profile_cpu(args, folder, profiles)
        write_slower(profiles)
    problem = ["--model", model, "--profiles", profiles]
    toml = write_cluster(folder, name, types)
    placement = write_placement(args, folder, name, toml, problem)
    found = json.loads(helix(args, "simulate", toml, *problem, "--placement", placement, "--lengths",
                             lengths, "--find-peak", "--json"))
    peak = found["peak_tokens_per_s"] / slower
    print(f"{name}: {len(types)} machines, peak {peak:.0f} tokens/s", file=sys.stderr)
    shares = [float(percent) / 100 for percent in args.shares.split(",")]
    runs = [(share, repeat, twin) for share in shares for repeat in range(args.repeats)
            for twin in range(2 if args.twins else 1)]
    traces = {run: write_load(folder, name, peak, *run[:2]) for run in runs}

    def one(run):
        """On a cluster of its own, which has learned nothing from other loads."""
        cluster = Cluster(args, folder, profiles, name, placement, f"{run[0]:g}-{run[1]}-{run[2]}")
        try:
            cpu, began = cluster.cpu_seconds(), time.time()
            found = json.loads(helix(args, "bench", "--url", cluster.url, "--trace", traces[run],
                                     "--warmup", f"{WARMUP_S}s", "--duration", f"{WINDOW_S}s",
                                     "--against-simulation", "--profiles", profiles, "--profile", model,
                                     "--time-scale", str(slower), "--json"))
            found["cores"] = (cluster.cpu_seconds() - cpu) / (time.time() - began)
            return found
        finally:
            cluster.stop()

    with concurrent.futures.ThreadPoolExecutor(1 if name in COMPUTING else args.parallel) as executor:
        found = dict(zip(runs, executor.map(one, runs)))
    return [summarise(name, share, [[found[run] for run in runs if run[:2] == (share, i)] for i in range(args.repeats)])
            for share in shares]


def beyond_twins(pairs, key):
    """(how far the simulation is beyond what two runs of the same arrivals differ by, how far these are apart): means."""
    beyond, apart = [], []
    for pair in pairs:
        measured = [run["against_simulation"][key]["measured"] for run in pair]
        simulated = statistics.mean(run["against_simulation"][key]["simulated"] for run in pair)
        middle, spread = statistics.mean(measured), max(measured) - min(measured)
        nearest = min(abs(simulated - value) for value in measured)
        inside = min(measured) <= simulated <= max(measured)
        sign = 1 if simulated > middle else -1
        beyond.append(0 if inside else sign * max(0, nearest - spread) / middle)
        apart.append(spread / middle)
    return statistics.mean(beyond), statistics.mean(apart)


def summarise(name, share, pairs):
    """The means of the runs, and how far they are off."""
    figures = {}
    runs = [run for pair in pairs for run in pair]
    for key in FIGURES:
        measured, simulated = (statistics.mean(run["against_simulation"][key][side] for run in runs)
                               for side in ("measured", "simulated"))
        figures[key] = {"measured": measured, "simulated": simulated, "error": simulated / measured - 1,
                        "runs": [run["against_simulation"][key] for run in runs]}
        if len(pairs[0]) == 2:
            figures[key]["beyond"], figures[key]["apart"] = beyond_twins(pairs, key)
    row = {"cluster": name, "share": share, "figures": figures,
           "requests": sum(run["requests"]["counted"] for run in runs),
           "errors": {kind: count for run in runs for kind, count in run["errors"].items()},
           "cores": statistics.mean(run["cores"] for run in runs),
           "hop_s": [run["load"]["link_latency_s"] for run in runs],
           "late_s": max(run["send_delay_s"]["p99"] for run in runs)}
    print(f"{name} {share:.0%}, {row['cores']:.2f} cores, a hop costs "
          f"{1e6 * statistics.mean(row['hop_s']):.0f} us: " + ", ".join(
              f"{key} {value['measured']:.4g} / {value['simulated']:.4g} ({value['error']:+.1%})"
              for key, value in figures.items()), file=sys.stderr)
    return row


def markdown(results):
    lines = ["| cluster | load | requests | cores used | tokens/s | TTFT mean | TTFT p50 | TPOT mean | "
             "TPOT p50 |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in results:
        cells = [row["cluster"], f"{row['share']:.0%} of peak", str(row["requests"]),
                 f"{row['cores']:.2f}"]
        for key in FIGURES:
            figure = row["figures"][key]
            scale, unit = (1, "") if key == "decode_tokens_per_s" else (1000, " ms")
            error = f"{figure['error'] * 100:+.1f} %"
            if "beyond" in figure:
                error += f"; beyond twins {figure['beyond'] * 100:+.1f} %, twins apart {figure['apart'] * 100:.1f} %"
            cells.append(f"{figure['measured'] * scale:.4g}{unit} ({error})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--clusters", default=DEFAULT)
    parser.add_argument("--shares", default="25,50,75", help="per cent of the peak")
    parser.add_argument("--repeats", type=int, default=2, help="runs of each load")
    parser.add_argument("--twins", action="store_true", help="each load twice with the same arrivals")
    parser.add_argument("--parallel", type=int, default=3, help="runs at a time")
    parser.add_argument("--json", help="write all figures there")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="helix-fidelity-") as folder:
        profiles = os.path.join(folder, "profiles")
        os.mkdir(profiles)
        write_profiles(profiles)
        lengths = write_lengths(folder)
        for name in args.clusters.split(","):
            results += measure(args, folder, profiles, lengths, name)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(results, out, indent=1)
    print("measured (error of the simulation)\n\n" + markdown(results))
    worst = {key: max(abs(row["figures"][key]["error"]) for row in results) for key in FIGURES}
    print("\nworst: " + ", ".join(f"{key} {value:.1%}" for key, value in worst.items()))
    if any(row["errors"] for row in results):
        raise SystemExit("some requests failed; see --json")


if __name__ == "__main__":
    main()
