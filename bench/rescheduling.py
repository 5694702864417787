#!/usr/bin/env python3
"""What it is worth that running requests move, with real processes: every row of docs/rescheduling.md.

usage: bench/rescheduling.py --helix build/release/bin/helix [--what bursts,priorities,room] [--rates 1.5,2.5,3.5]
           [--background 1.75] [--rounds 3] [--seconds 60] [--at-once 1] [--into docs/rescheduling.md] [--json FILE]

`helix serve` and four modelled workers (real protocol, the times of a table that this script makes up) that hold the
whole model each and have little KV memory.
  bursts      the same requests in bursts, at each of the rates, from a cluster whose requests move, as `helix serve`
              does it; from one that dispatches and moves as Llumnix is published (--scheduler llumnix --balance
              llumnix); from one started with --no-balance; and from four servers with one worker each, to which the
              requests are dealt as they come: in turn, or to the one with the fewest
  priorities  a few requests of high priority among others whose rate doubles; once all alike, once with priority
  room        every worker runs two requests, and a prompt comes that fits beside neither two of them
Lengths of prompts and answers follow a power law; gaps between arrivals are gamma distributed. The tables:
  TTFT         seconds to the first token
  TPOT         seconds for each further token, mean of a request
  stall        the longest time between two tokens of a request
  stood still  seconds in all gaps of more than half a second, for 1000 requests
A cluster keeps a tenth of a core busy; two hours with the defaults, less with --at-once. Standard library only.
"""
import argparse
import asyncio
import concurrent.futures
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
from tables import put, table_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
VOCABULARY = ROOT / "models" / "helix-demo.gguf"
MODEL, TYPE, LAYERS = "modelled-8", "card", 8
LAYER_BYTES, KV_BYTES = 500_000_000, 16_384  # a layer; a token's KV in it
WORKERS, CONTEXT, KV_TOKENS = 4, 2048, 2048
SHORTEST, LONGEST = 16, 800
CV, MEAN = 4, 150  # of the gaps between arrivals; tokens of prompts, and of answers
GAP_S = 0.5  # between tokens: more is no usual step
# Milliseconds of one layer for a batch of decodes, for each decode in it, for a batch of prompts,
# and for each prompt token.
DECODE_MS, EACH_DECODE_MS, PROMPT_MS, EACH_PROMPT_MS = 4.0, 0.03, 4.0, 0.07


def write_profiles(folder):
    folder = pathlib.Path(folder)
    (folder / "models.json").write_text(json.dumps({MODEL: {
        "num_layers": LAYERS, "layer_param_bytes": LAYER_BYTES, "token_bytes": 2, "activation_bytes_per_token": 8192}}))
    for kind, once, each, sizes in (("decode", DECODE_MS, EACH_DECODE_MS, (1, 8, 32, 128, 512)),
                                    ("prompt", PROMPT_MS, EACH_PROMPT_MS, (1, 64, 256, 1024, 4096))):
        rows = "".join(f"{n},{once + each * n:.6f}\n" for n in sizes)
        (folder / f"{MODEL}_{TYPE}_{kind}_time.csv").write_text("batch_tokens,one_layer_time_ms\n0,0\n" + rows)
    rows = "".join(f"{TYPE},{n},{LAYERS},{KV_TOKENS * LAYERS},4096,512\n" for n in range(1, LAYERS + 1))
    (folder / f"{MODEL}_limits.csv").write_text(
        "machine_type,num_layers,max_num_layers_of_type,kv_tokens_per_layer,prompt_max_tokens,decode_max_tokens\n" + rows)


def write_placement(folder, workers):
    """Each worker holds the whole model."""
    path = os.path.join(folder, "placement.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"schema": "helix-layout-1", "num_layers": LAYERS, "links": [],
                   "layers": {str(i): [0, LAYERS] for i in range(workers)},
                   "node_names": {str(i): f"w{i}" for i in range(workers)}}, out)
    return path


class Cluster(Served):
    def __init__(self, helix, folder, name, workers, more):
        super().__init__(os.path.join(folder, name + ".log"))
        profiles = ["--backend", "modelled", "--profiles", folder, "--profile", MODEL, "--type", TYPE]
        memory = LAYERS * (LAYER_BYTES + KV_TOKENS * KV_BYTES)
        self.start([helix, "serve", "--model", str(VOCABULARY), "--listen", f"127.0.0.1:{self.port}", "--no-worker",
                    "--min-workers", str(workers), "--placement", write_placement(folder, workers),
                    "--context", str(CONTEXT), *profiles, *more])
        self.wait("/health/live", 30)
        for index in range(workers):
            self.start([helix, "worker", "--join", f"127.0.0.1:{self.port}", "--name", f"w{index}",
                        "--host-id", f"w{index}", "--memory", str(memory), *profiles])
        self.wait("/health/ready", 120)


def power_law(rng, mean=MEAN):
    """From SHORTEST to LONGEST tokens, as many short ones as give that mean."""
    low, high = 0.01, 3.0
    for _ in range(40):  # the exponent, by the mean of the bounded Pareto distribution
        a = (low + high) / 2
        share = SHORTEST ** a / (1 - (SHORTEST / LONGEST) ** a)
        at = share * a / (a - 1 + 1e-9) * (SHORTEST ** (1 - a) - LONGEST ** (1 - a))
        low, high = (a, high) if at > mean else (low, a)
    u = rng.random()
    return int((SHORTEST ** -a - u * (SHORTEST ** -a - LONGEST ** -a)) ** (-1 / a))


def arrivals(seed, seconds, rate, cv=CV, mean=MEAN, priority=0):
    """(when, body) of every request; lower numbers go first. Each seed has exactly rate x seconds of them."""
    rng = random.Random(seed)
    gaps = [rng.gammavariate(1 / cv ** 2, cv ** 2 / rate) for _ in range(round(rate * seconds))]
    at, made = 0.0, []
    for gap in gaps:
        at += gap * seconds / sum(gaps)
        made.append((at, body_of(rng, power_law(rng, mean), power_law(rng, mean), priority)))
    return made


def body_of(rng, prompt, output, priority=0):
    body = {"model": "default", "prompt": [rng.randint(10, 250) for _ in range(prompt)], "max_tokens": output,
            "stream": True, "ignore_eos": True, "temperature": 0}
    return body | ({"priority": priority} if priority else {})


class Dispatch:
    """To which of the servers a request goes when it comes: to the next one, or to the one with the fewest."""

    def __init__(self, ports, how):
        self.inside, self.how, self.count = {port: 0 for port in ports}, how, 0

    def choose(self):
        self.count += 1
        ports = list(self.inside)
        turn = ports[self.count % len(ports):] + ports[:self.count % len(ports)]
        return turn[0] if self.how == "in turn" else min(turn, key=self.inside.get)

    async def run(self, stream):
        port = self.choose()
        self.inside[port] += 1
        await stream.run(port)
        self.inside[port] -= 1


async def serve(dispatch, requests):
    began = time.monotonic()

    async def one(at, body, kind):
        await asyncio.sleep(at - (time.monotonic() - began))
        stream = streams.Stream(body)
        sent = time.monotonic()
        await dispatch.run(stream)
        if stream.error:
            raise SystemExit(stream.error)
        gaps = [b - a for a, b in zip(stream.times, stream.times[1:])]
        return {"kind": kind, "late": sent - began - at, "ttft": stream.times[0] - sent,
                "tpot": sum(gaps) / max(1, len(gaps)), "stall": max(gaps, default=0),
                "still": sum(gap for gap in gaps if gap > GAP_S)}

    return await asyncio.gather(*[one(*request) for request in requests])


async def measure(ports, how, requests):
    found = await serve(Dispatch(ports, how), requests)
    clusters = [await streams.get_json(port, "/helix/cluster") for port in ports]
    return {"requests": found, "preemptions": sum(c["preemptions"] for c in clusters),
            "moves": sum(c["migrations"]["committed"] for c in clusters)}


# What serves: how many times `helix serve`, how requests come to these, and with which options.
SYSTEMS = {"a queue at each machine, in turn": (WORKERS, "in turn", []),
           "a queue at each machine, fewest requests": (WORKERS, "fewest", []),
           "one queue": (1, "in turn", ["--no-balance"]),
           "one queue, moves": (1, "in turn", []),
           "one queue, dispatch and moves of Llumnix":
               (1, "in turn", ["--scheduler", "llumnix", "--balance", "llumnix"])}


def run(helix, name, system, requests):
    servers, how, more = SYSTEMS[system]
    with tempfile.TemporaryDirectory(prefix="helix-rescheduling-") as folder:
        write_profiles(folder)
        clusters = []
        try:
            for number in range(servers):
                clusters.append(Cluster(helix, folder, f"cluster{number}", WORKERS // servers, more))
            found = asyncio.run(measure([one.port for one in clusters], how, requests))
        finally:
            for one in clusters:
                one.stop()
                one.log.close()
    late = max(one["late"] for one in found["requests"])
    print(f"{name}: {len(found['requests'])} requests, {found['preemptions']} preemptions, {found['moves']} moves, "
          f"sent at most {1000 * late:.0f} ms late", file=sys.stderr, flush=True)
    return found


def run_all(args, jobs):
    """What run() found for each row's list of (name, system, requests)."""
    with concurrent.futures.ProcessPoolExecutor(args.at_once) as pool:
        began = {row: [pool.submit(run, args.helix, *job) for job in turns] for row, turns in jobs.items()}
        return {row: [one.result() for one in turns] for row, turns in began.items()}


def share(values, part):
    return sorted(values)[int(part * (len(values) - 1))]


def ttft(requests):
    values = [one["ttft"] for one in requests]
    return f"{sum(values) / len(values):.2f} / {share(values, 0.5):.2f} / {share(values, 0.99):.2f}"


def spread(runs, of, digits=1):
    values = [of(one) for one in runs]
    return f"{sum(values) / len(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def p99(what):
    return lambda one: share([request[what] for request in one["requests"]], 0.99)


def per_1000(value):
    return lambda one: 1000 * value(one) / len(one["requests"])


def bursts(args):
    jobs = {}
    for rate in args.rates:
        loads = [[(at, body, "all") for at, body in arrivals(turn, args.seconds, rate)] for turn in range(args.rounds)]
        for system in SYSTEMS:
            jobs[rate, system] = [(f"{rate:g}/s, {system}, seed {turn}", system, load)
                                  for turn, load in enumerate(loads)]
    found = run_all(args, jobs)
    rows = []
    for (rate, system), runs in found.items():
        requests = [one for each in runs for one in each["requests"]]
        rows.append([f"{rate:g}", system, len(requests), ttft(requests), spread(runs, p99("ttft")),
                     spread(runs, p99("stall")), spread(runs, per_1000(lambda one: one["preemptions"])),
                     spread(runs, per_1000(lambda one: sum(r["still"] for r in one["requests"])), 0),
                     sum(each["moves"] for each in runs)])
    return found, table_of(["requests/s", "system", "requests", "TTFT s (mean / p50 / p99)", "P99 TTFT s (spread)",
                            "stall s, p99", "preemptions / 1000", "s stood still / 1000", "moves"], rows)


def priorities(args):
    jobs = {}
    for rate in (args.background, 2 * args.background):
        for name, priority in (("all alike", 0), ("priority", -5)):
            jobs[rate, name] = []
            for turn in range(args.rounds):
                high = arrivals(1000 + turn, args.seconds, 0.5, 1, MEAN // 2, priority)
                load = [(at, body, "high") for at, body in high]
                load += [(at, body, "others") for at, body in arrivals(turn, args.seconds, rate)]
                jobs[rate, name].append((f"others {rate:g}/s, {name}, seed {turn}", "one queue, moves", load))
    found = run_all(args, jobs)
    rows = []
    for kind in ("high", "others"):
        for (rate, name), runs in found.items():
            chosen = [{"requests": [one for one in each["requests"] if one["kind"] == kind]} for each in runs]
            requests = [one for each in chosen for one in each["requests"]]
            rows.append([kind, f"{rate:g}", name, len(requests), ttft(requests), spread(chosen, p99("ttft"), 2),
                         f"{sum(one['tpot'] for one in requests) / len(requests):.3f}",
                         spread(chosen, p99("stall"), 2)])
    return found, table_of(["requests", "others, requests/s", "system", "number", "TTFT s (mean / p50 / p99)",
                            "P99 TTFT s (spread)", "TPOT s, mean", "stall s, p99"], rows)


def room(args):
    """Two requests of about 600 tokens run on every worker; a prompt of 1,200 comes."""
    jobs = {}
    for system in ("one queue", "one queue, moves"):
        jobs[system,] = []
        for turn in range(args.rounds * args.long_prompts):
            rng = random.Random(turn)
            requests = [(0.2 * i, body_of(rng, rng.randint(150, 250), rng.randint(350, 450)), "others")
                        for i in range(2 * WORKERS)]
            requests.append((rng.uniform(3, 6), body_of(rng, 1200, 20), "long"))
            jobs[system,].append((f"room, {system}, seed {turn}", system, requests))
    found = run_all(args, jobs)
    rows = []
    for (system,), runs in found.items():
        long = [one for each in runs for one in each["requests"] if one["kind"] == "long"]
        others = [one for each in runs for one in each["requests"] if one["kind"] != "long"]
        values = [one["ttft"] for one in long]
        rows.append([system, len(long), ttft(long), f"{min(values):.2f}-{max(values):.2f}",
                     f"{sum(one['tpot'] for one in others) / len(others):.3f}",
                     f"{share([one['stall'] for one in others], 0.99):.2f}", sum(each["preemptions"] for each in runs),
                     sum(each["moves"] for each in runs)])
    return found, table_of(["system", "long prompts", "their TTFT s (mean / p50 / p99)", "least-greatest",
                            "TPOT s of the others, mean", "their stall s, p99", "preemptions", "moves"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helix", required=True)
    parser.add_argument("--what", default="bursts,priorities,room")
    parser.add_argument("--rates", type=lambda text: [float(one) for one in text.split(",")], default=[1.5, 2.5, 3.5],
                        help="requests a second, in bursts")
    parser.add_argument("--background", type=float, default=1.75, help="requests a second beside those of high priority")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="seeds of every row")
    parser.add_argument("--long-prompts", type=int, default=4,
                        help="for each of the rounds, each in a cluster of its own")
    parser.add_argument("--at-once", type=int, default=1, help="clusters that run side by side")
    parser.add_argument("--into", type=pathlib.Path, help="page whose tables between <!-- name --> and <!-- end --> "
                        "are replaced")
    parser.add_argument("--json", type=pathlib.Path, help="file for every request of every run")
    args = parser.parse_args()
    every = {}
    for what in args.what.split(","):
        found, made = {"bursts": bursts, "priorities": priorities, "room": room}[what](args)
        every[what] = {" ".join(map(str, row)): runs for row, runs in found.items()}
        print(f"{what}\n{made}\n", flush=True)
        if args.into:
            put(made, what, args.into)
        if args.json:
            args.json.write_text(json.dumps(every))


if __name__ == "__main__":
    main()
