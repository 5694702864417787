#!/usr/bin/env python3
"""What it is worth under bursts that running requests move, with real processes.

usage: bench/rescheduling.py --helix build/release/bin/helix [--rounds 2] [--seconds 40] [--json]

Four workers that hold the whole model each and have little KV memory get the same requests in bursts, in turns from a
cluster whose requests move (as `helix serve` does it) and from one started with --no-balance:
  TTFT         seconds to the first token: mean, p50, p99
  stall        the longest gap between two tokens of a request: p99
  preemptions  requests set back to waiting; and requests that moved
Gaps between arrivals are gamma distributed; lengths of answers fall off by a power law. Standard library only.
"""
import argparse
import asyncio
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "chaos"))
import cluster as processes  # noqa: E402
import streams  # noqa: E402

CONTEXT = 640


async def get(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode(errors="replace")
    writer.close()
    return answer.split("\r\n\r\n", 1)[-1]


async def preemptions(port):
    for line in (await get(port, "/metrics")).splitlines():
        if line.startswith("vllm:num_preemptions_total"):
            return float(line.split()[-1])
    raise SystemExit("/metrics does not tell of preemptions")


def load(seconds, rate, cv, seed):
    """(when, body) of every request."""
    rng = random.Random(seed)
    at, made = 0.0, []
    while True:
        at += rng.gammavariate(1 / cv ** 2, cv ** 2 / rate)
        if at >= seconds:
            return made
        prompt = min(300, int(16 * rng.paretovariate(1.0)))
        output = min(320, int(24 * rng.paretovariate(0.8)))
        made.append((at, {"model": "default", "prompt": [rng.randint(10, 250) for _ in range(prompt)],
                          "max_tokens": output, "stream": True, "ignore_eos": True, "temperature": 0}))


async def serve(port, requests):
    began = time.monotonic()

    async def one(at, body):
        await asyncio.sleep(at - (time.monotonic() - began))
        stream = streams.Stream(body)
        sent = time.monotonic()
        await stream.run(port)
        if stream.error:
            raise SystemExit(stream.error)
        return stream.times[0] - sent, max((b - a for a, b in zip(stream.times, stream.times[1:])), default=0)

    return await asyncio.gather(*[one(at, body) for at, body in requests])


def share(values, part):
    return sorted(values)[int(part * (len(values) - 1))]


async def measure(cluster, requests):
    await cluster.ready()
    found = await serve(cluster.port, requests)
    moved = json.loads(await get(cluster.port, "/helix/cluster"))["migrations"]["committed"]
    ttft, stall = [a for a, _ in found], [b for _, b in found]
    return {"requests": len(found), "ttft_mean_s": sum(ttft) / len(ttft), "ttft_p50_s": share(ttft, 0.5),
            "ttft_p99_s": share(ttft, 0.99), "stall_p99_s": share(stall, 0.99),
            "preemptions": await preemptions(cluster.port), "moves": moved}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helix", required=True)
    parser.add_argument("--shape", default="tiny")
    parser.add_argument("--memory", default="24MB", help="of each worker")
    parser.add_argument("--rate", type=float, default=8, help="requests a second")
    parser.add_argument("--cv", type=float, default=4, help="of the gaps between them")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="helix-rescheduling-") as folder:
        model = str(pathlib.Path(folder) / "model.gguf")
        subprocess.run([args.helix, "model", "synth", "--shape", args.shape, "--quant", "q8_0", model], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for turn in range(args.rounds):
            requests = load(args.seconds, args.rate, args.cv, turn)
            for moves in (False, True):
                extra = ["--context", str(CONTEXT)] + ([] if moves else ["--no-balance"])
                cluster = processes.Cluster(args.helix, model, 4, folder, args.memory, 1, extra)
                try:
                    cluster.start()
                    row = asyncio.run(measure(cluster, requests))
                finally:
                    cluster.stop()
                rows.append({"round": turn, "moves_on": moves, **row})
                if not args.json:
                    print(f"round {turn} {'moves   ' if moves else 'no moves'} {row['requests']:4} requests  TTFT s "
                          f"{row['ttft_mean_s']:.2f} / {row['ttft_p50_s']:.2f} / {row['ttft_p99_s']:.2f}  "
                          f"stall p99 {row['stall_p99_s']:.2f}  preemptions {row['preemptions']:.0f}  "
                          f"moves {row['moves']}", flush=True)
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
