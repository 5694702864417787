#!/usr/bin/env python3
"""What it is worth under bursts that running requests move, with real processes.

usage: bench/rescheduling.py --helix build/release/bin/helix [--what bursts,priorities] [--rounds 3] [--seconds 120]
           [--json FILE]

`helix serve` and four modelled workers (real protocol, the times of a table that this script makes up) that hold the
whole model each and have little KV memory.
  bursts      the same requests in bursts from a cluster whose requests move, as `helix serve` does it, and from one
              started with --no-balance
  priorities  a few requests of high priority among others whose rate doubles; once all alike, once with priority
Lengths of prompts and answers follow a power law; gaps between arrivals are gamma distributed. Prints tables for
docs/rescheduling.md:
  TTFT         seconds to the first token
  TPOT         seconds for each further token, mean of a request
  stall        the longest time between two tokens of a request
  stood still  seconds in all gaps of more than half a second, for 1000 requests
A quarter of a core is busy; 20 minutes with the defaults. Standard library only.
"""
import argparse
import asyncio
import json
import os
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "chaos"))
import streams  # noqa: E402
from served import Served  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
VOCABULARY = ROOT / "models" / "helix-demo.gguf"
MODEL, TYPE, LAYERS = "modelled-8", "card", 8
LAYER_BYTES, KV_BYTES = 500_000_000, 16_384  # a layer; a token's KV in it
WORKERS, CONTEXT = 4, 2048
SHORTEST, LONGEST = 16, 800
GAP_S = 0.5  # between tokens: more is no usual step
# Milliseconds of one layer: a batch of decodes, each decode in it, a batch of prompts, each prompt token.
DECODE_MS, EACH_DECODE_MS, PROMPT_MS, EACH_PROMPT_MS = 4.0, 0.03, 4.0, 0.07


def write_profiles(folder, kv_tokens):
    folder = pathlib.Path(folder)
    (folder / "models.json").write_text(json.dumps({MODEL: {
        "num_layers": LAYERS, "layer_param_bytes": LAYER_BYTES, "token_bytes": 2, "activation_bytes_per_token": 8192}}))
    for kind, once, each, sizes in (("decode", DECODE_MS, EACH_DECODE_MS, (1, 8, 32, 128, 512)),
                                    ("prompt", PROMPT_MS, EACH_PROMPT_MS, (1, 64, 256, 1024, 4096))):
        rows = "".join(f"{n},{once + each * n:.6f}\n" for n in sizes)
        (folder / f"{MODEL}_{TYPE}_{kind}_time.csv").write_text("batch_tokens,one_layer_time_ms\n0,0\n" + rows)
    rows = "".join(f"{TYPE},{n},{LAYERS},{kv_tokens * LAYERS},4096,512\n" for n in range(1, LAYERS + 1))
    (folder / f"{MODEL}_limits.csv").write_text(
        "machine_type,num_layers,max_num_layers_of_type,kv_tokens_per_layer,prompt_max_tokens,decode_max_tokens\n" + rows)


def write_placement(folder):
    """Each worker holds the whole model."""
    path = os.path.join(folder, "placement.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"schema": "helix-layout-1", "num_layers": LAYERS, "links": [],
                   "layers": {str(i): [0, LAYERS] for i in range(WORKERS)},
                   "node_names": {str(i): f"w{i}" for i in range(WORKERS)}}, out)
    return path


class Cluster(Served):
    def __init__(self, args, folder, name, more):
        super().__init__(os.path.join(folder, name + ".log"))
        profiles = ["--backend", "modelled", "--profiles", folder, "--profile", MODEL, "--type", TYPE]
        memory = LAYERS * (LAYER_BYTES + args.kv_tokens * KV_BYTES)
        self.start([args.helix, "serve", "--model", str(VOCABULARY), "--listen", f"127.0.0.1:{self.port}", "--no-worker",
                    "--min-workers", str(WORKERS), "--placement", write_placement(folder), "--context", str(CONTEXT),
                    *profiles, *more])
        self.wait("/health/live", 30)
        for index in range(WORKERS):
            self.start([args.helix, "worker", "--join", f"127.0.0.1:{self.port}", "--name", f"w{index}",
                        "--host-id", f"w{index}", "--memory", str(memory), *profiles])
        self.wait("/health/ready", 120)


async def get(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode(errors="replace")
    writer.close()
    return json.loads(answer.split("\r\n\r\n", 1)[-1])


def power_law(rng, mean):
    """From SHORTEST to LONGEST tokens, as many short ones as give that mean."""
    low, high = 0.01, 3.0
    for _ in range(40):  # the exponent, by the mean of the bounded Pareto distribution
        a = (low + high) / 2
        share = SHORTEST ** a / (1 - (SHORTEST / LONGEST) ** a)
        at = share * a / (a - 1 + 1e-9) * (SHORTEST ** (1 - a) - LONGEST ** (1 - a))
        low, high = (a, high) if at > mean else (low, a)
    u = rng.random()
    return int((SHORTEST ** -a - u * (SHORTEST ** -a - LONGEST ** -a)) ** (-1 / a))


def load(seed, seconds, rate, cv, mean, priority=0):
    """(when, body, is it of high priority) of every request; lower numbers go first."""
    rng = random.Random(seed)
    at, made = 0.0, []
    while True:
        at += rng.gammavariate(1 / cv ** 2, cv ** 2 / rate)
        if at >= seconds:
            return made
        body = {"model": "default", "prompt": [rng.randint(10, 250) for _ in range(power_law(rng, mean))],
                "max_tokens": power_law(rng, mean), "stream": True, "ignore_eos": True, "temperature": 0}
        made.append((at, body | ({"priority": priority} if priority else {}), priority < 0))


async def serve(port, requests):
    began = time.monotonic()

    async def one(at, body, high):
        await asyncio.sleep(at - (time.monotonic() - began))
        stream = streams.Stream(body)
        sent = time.monotonic()
        await stream.run(port)
        if stream.error:
            raise SystemExit(stream.error)
        gaps = [b - a for a, b in zip(stream.times, stream.times[1:])]
        return {"high": high, "ttft": stream.times[0] - sent, "tpot": sum(gaps) / max(1, len(gaps)),
                "stall": max(gaps, default=0), "still": sum(gap for gap in gaps if gap > GAP_S)}

    return await asyncio.gather(*[one(*request) for request in requests])


async def measure(port, requests):
    found = await serve(port, requests)
    cluster = await get(port, "/helix/cluster")
    return {"requests": found, "preemptions": cluster["preemptions"], "moves": cluster["migrations"]["committed"]}


def run(args, name, more, requests):
    with tempfile.TemporaryDirectory(prefix="helix-rescheduling-") as folder:
        write_profiles(folder, args.kv_tokens)
        cluster = Cluster(args, folder, "cluster", more)
        try:
            found = asyncio.run(measure(cluster.port, requests))
        finally:
            cluster.stop()
            cluster.log.close()
    print(f"{name}: {len(requests)} requests, {found['preemptions']} preemptions, {found['moves']} moves",
          file=sys.stderr)
    return found


def share(values, part):
    return sorted(values)[int(part * (len(values) - 1))]


def ttft(requests):
    values = [one["ttft"] for one in requests]
    return f"{sum(values) / len(values):.2f} / {share(values, 0.5):.2f} / {share(values, 0.99):.2f}"


def spread(runs, of, digits=1):
    values = [of(one) for one in runs]
    return f"{sum(values) / len(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def bursts(args):
    systems = {"no moves": ["--no-balance"], "moves": []}
    runs = {system: [] for system in systems}
    for turn in range(args.rounds):
        requests = load(turn, args.seconds, args.rate, args.cv, args.mean)
        for system, more in systems.items():
            runs[system].append(run(args, f"bursts, {system}, seed {turn}", more, requests))
    print(f"{WORKERS} workers, KV memory for {args.kv_tokens} tokens each; {args.rate:g} requests/s, CV {args.cv:g}; prompts "
          f"and answers of {args.mean} tokens in the mean; {args.seconds:g} s, {args.rounds} seeds\n")
    print("| system | requests | TTFT s (mean / p50 / p99) | P99 TTFT s (spread) | stall s, p99 (spread) | preemptions / 1000 "
          "| s stood still / 1000 | moves |\n" + "| --- " * 8 + "|")
    for system, found in runs.items():
        all_of = [one for each in found for one in each["requests"]]
        per_1000 = lambda each, what: 1000 * what / len(each["requests"])  # noqa: E731
        print(f"| {system} | {len(all_of)} | {ttft(all_of)} "
              f"| {spread(found, lambda e: share([o['ttft'] for o in e['requests']], 0.99))} "
              f"| {spread(found, lambda e: share([o['stall'] for o in e['requests']], 0.99))} "
              f"| {spread(found, lambda e: per_1000(e, e['preemptions']))} "
              f"| {spread(found, lambda e: per_1000(e, sum(o['still'] for o in e['requests'])), 0)} "
              f"| {sum(each['moves'] for each in found)} |")
    return runs


def priorities(args):
    runs = {}
    for times in (1, 2):
        for system, priority in (("all alike", 0), ("priority", -5)):
            for turn in range(args.rounds):
                high = load(1000 + turn, args.seconds, 0.5, 1, args.mean // 2, priority)
                high = [(at, body, True) for at, body, _ in high]
                others = load(turn, args.seconds, args.background * times, args.cv, args.mean)
                name = f"priorities, {system}, others {args.background * times:g}/s, seed {turn}"
                runs.setdefault((args.background * times, system), []).append(run(args, name, [], high + others))
    print(f"\n0.5 requests/s of high priority (Poisson, {args.mean // 2} tokens in the mean) among others (CV {args.cv:g}, "
          f"{args.mean} tokens); {args.seconds:g} s, {args.rounds} seeds\n")
    print("| requests | others, requests/s | system | TTFT s (mean / p50 / p99) | P99 TTFT s (spread) | TPOT s, mean | stall s, p99 "
          "(spread) |\n" + "| --- " * 7 + "|")
    for wanted in (True, False):
        for (rate, system), found in runs.items():
            chosen = [{"requests": [one for one in each["requests"] if one["high"] == wanted]} for each in found]
            all_of = [one for each in chosen for one in each["requests"]]
            print(f"| {'high' if wanted else 'others'} | {rate:g} | {system} | {ttft(all_of)} "
                  f"| {spread(chosen, lambda e: share([o['ttft'] for o in e['requests']], 0.99), 2)} "
                  f"| {sum(one['tpot'] for one in all_of) / len(all_of):.3f} "
                  f"| {spread(chosen, lambda e: share([o['stall'] for o in e['requests']], 0.99), 2)} |")
    return {f"{rate:g} {system}": found for (rate, system), found in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helix", required=True)
    parser.add_argument("--what", default="bursts,priorities")
    parser.add_argument("--kv-tokens", type=int, default=4096, help="of each worker's KV memory")
    parser.add_argument("--rate", type=float, default=3, help="requests a second, in bursts")
    parser.add_argument("--background", type=float, default=1.5, help="requests a second beside those of high priority")
    parser.add_argument("--cv", type=float, default=4, help="of the gaps between arrivals")
    parser.add_argument("--mean", type=int, default=200, help="tokens of prompts, and of answers")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for every request of every run")
    args = parser.parse_args()
    all_runs = {}
    for what in args.what.split(","):
        all_runs[what] = {"bursts": bursts, "priorities": priorities}[what](args)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(all_runs))


if __name__ == "__main__":
    main()
