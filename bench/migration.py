#!/usr/bin/env python3
"""What moving a running request costs its client and the others, with real processes.

usage: bench/migration.py --helix build/bench/bin/helix [--shape small] [--contexts 256,1024,4096,8192] [--json]

One coordinator and two workers that hold the whole model each. Requests of several lengths are moved from one worker to
the other and back while they stream:
  down-time   the longest gap between two tokens around a move, less the usual gap (median of moves), and the same
              in decode steps;
  in a row    one request that is moved at every few tokens says what it says undisturbed;
  overhead    how many tokens per second fewer eight streams get while two beside them keep moving, in turns with quiet.
Standard library only.
"""
import argparse
import asyncio
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "chaos"))
import cluster as processes  # noqa: E402
import streams  # noqa: E402


def body_of(tokens, output, seed):
    rng = random.Random(seed)
    return {"model": "default", "prompt": [rng.randint(10, 250) for _ in range(tokens)], "max_tokens": output,
            "stream": True, "ignore_eos": True, "temperature": 0.8, "seed": seed}


class Moving(streams.Stream):
    """A stream that asks for a move at certain pieces."""

    def __init__(self, body, port, moves):
        super().__init__(body)
        self.port, self.moves, self.asked, self.id = port, set(moves), [], None
        self.tasks = []

    def take(self, event):
        self.id = event.get("id", self.id)
        super().take(event)
        if len(self.times) in self.moves:
            self.asked.append(time.monotonic())
            self.tasks.append(asyncio.create_task(streams.post(self.port, f"/helix/requests/{self.id}/move")))

    async def done(self):
        """How many of the moves were taken up."""
        answers = [await task for task in self.tasks]
        bad = [text for status, text in answers if status != 202]
        return len(answers) - len(bad), bad


def gaps(stream):
    return [b - a for a, b in zip(stream.times, stream.times[1:])]


def down_times(stream):
    """For each move the longest gap until the next move, less the usual one."""
    usual = statistics.median(gaps(stream))
    found = []
    edges = stream.asked + [stream.times[-1]]
    for begin, end in zip(edges, edges[1:]):
        near = [b - a for a, b in zip(stream.times, stream.times[1:]) if b >= begin and a < end]
        if near:
            found.append(max(near) - usual)
    return usual, found


async def migrations(port):
    return (await streams.get_json(port, "/helix/cluster"))["migrations"]


async def measure_context(port, tokens, moves_each=6):
    output = 40 * (moves_each + 1)
    stream = Moving(body_of(tokens, output, tokens), port, [40 * (i + 1) for i in range(moves_each)])
    before = await migrations(port)
    await stream.run(port)
    if stream.error:
        raise SystemExit(f"context {tokens}: {stream.error}")
    await stream.done()
    after = await migrations(port)
    usual, found = down_times(stream)
    calm = sorted(gaps(stream))
    return {"context": tokens, "moves": after["committed"] - before["committed"], "usual_ms": usual * 1e3,
            "down_ms": statistics.median(found) * 1e3, "down_max_ms": max(found) * 1e3,
            "p99_gap_ms": calm[int(0.99 * len(calm))] * 1e3, "steps": statistics.median(found) / usual}


async def in_a_row(port, moves):
    body = body_of(200, 3 * moves + 30, 77)
    plain = streams.Stream(body)
    await plain.run(port)
    before = await migrations(port)
    stream = Moving(body, port, [3 * (i + 1) for i in range(moves)])
    await stream.run(port)
    await stream.done()
    after = await migrations(port)
    if stream.error or stream.answer() != plain.answer():
        raise SystemExit(f"moved {moves} times it says something else: {stream.error}")
    return after["committed"] - before["committed"]


async def all_streams(port, seconds, moving):
    """Tokens per second of eight streams, and of two long ones beside them that, with moving, keep moving."""
    end = time.monotonic() + seconds
    others = movers = 0

    async def stream(seed):
        nonlocal others
        while time.monotonic() < end:
            one = streams.Stream(body_of(64, 60, seed))
            await one.run(port)
            others += sum(1 for at in one.times if at < end)

    async def mover(seed):
        nonlocal movers
        while time.monotonic() < end:
            one = Moving(body_of(1024, 120, seed), port, range(10, 120, 10) if moving else [])
            await one.run(port)
            await one.done()
            if one.error:
                raise SystemExit(f"a stream of 1024 and 120 tokens (--contexts too small?): {one.error}")
            movers += sum(1 for at in one.times if at < end)

    await asyncio.gather(*[stream(i) for i in range(8)], *[mover(100 + i) for i in range(2)])
    return others / seconds, movers / seconds


async def run(args, cluster):
    await cluster.ready()
    port = cluster.port
    result = {"contexts": []}
    if not args.json:
        print("context  moves  usual gap  down-time  (most)   in decode steps")
    for tokens in [int(one) for one in args.contexts.split(",")]:
        row = await measure_context(port, tokens)
        result["contexts"].append(row)
        if not args.json:
            print(f"{row['context']:7} {row['moves']:6} {row['usual_ms']:7.1f} ms {row['down_ms']:7.1f} ms "
                  f"{row['down_max_ms']:6.1f} ms {row['steps']:8.2f}", flush=True)
    result["in_a_row"] = await in_a_row(port, 100)
    if not args.json:
        print(f"asked to move 100 times in a row: moved {result['in_a_row']} times, tokens equal", flush=True)
    rates = {False: [], True: []}
    for _ in range(args.rounds):
        for moving in (False, True):
            rates[moving].append(await all_streams(port, args.seconds, moving))
    for i, who in enumerate(("others", "movers")):
        quiet, moving = (statistics.median(rate[i] for rate in rates[on]) for on in (False, True))
        result[who] = {"quiet": quiet, "moving": moving, "overhead": moving / quiet - 1}
        if not args.json:
            name = "eight streams beside two that move" if i == 0 else "the two"
            print(f"{name}: {quiet:.0f} tokens/s while nothing moves, {moving:.0f} while the two keep moving "
                  f"({moving / quiet - 1:+.1%})", flush=True)
    if args.json:
        print(json.dumps(result))



def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helix", required=True)
    parser.add_argument("--shape", default="small")
    parser.add_argument("--contexts", default="256,1024,4096,8192")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--memory", default="2GB", help="of each worker")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-migration-") as folder:
        model = str(pathlib.Path(folder) / "model.gguf")
        subprocess.run([args.helix, "model", "synth", "--shape", args.shape, "--quant", "q8_0", model], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        most = max(int(one) for one in args.contexts.split(",")) + 512
        cluster = processes.Cluster(args.helix, model, 2, folder, args.memory, 1, ["--context", str(most)])
        try:
            cluster.start()
            asyncio.run(run(args, cluster))
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
