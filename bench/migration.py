#!/usr/bin/env python3
"""What moving a running request costs its client and the others, with real processes.

usage: bench/migration.py --helix build/bench/bin/helix [--shape small] [--contexts 256,1024,4096,8192] [--json]

One coordinator and two workers of one thread that hold the whole model each. Requests are moved from one worker to the
other and back while they stream:
  down-time   the longest gap between two tokens around a move, less the usual gap (median of moves), and the same
              in decode steps;
  in a row    one request that moved 100 times says what it says undisturbed;
  overhead    how many tokens per second fewer eight streams get while two of more than 1,024 tokens beside them ask to
              move at every tenth token: windows in turns with quiet ones, the median of the ratios of neighbours; and
              the CPU time of the workers' other threads. First they move for a while, so that the KV memory was used
              once: the kernel gives pages at first touch, which is no matter of moves.
Standard library only.
"""
import argparse
import asyncio
import json
import os
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


class Mover(streams.Stream):
    """A stream that, while `moving`, asks for a move at every tenth piece."""

    def __init__(self, body, port):
        super().__init__(body)
        self.port, self.moving, self.id, self.tasks = port, False, None, set()

    def take(self, event):
        self.id = event.get("id", self.id)
        super().take(event)
        if self.moving and len(self.times) % 10 == 0:
            task = asyncio.create_task(streams.post(self.port, f"/helix/requests/{self.id}/move"))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


class OneAfterAnother(streams.Stream):
    """A stream, the only one, that moves again some pieces after its last move has ended."""

    def __init__(self, body, port, moves, pieces_between):
        super().__init__(body)
        self.port, self.left, self.between, self.id = port, moves, pieces_between, None
        self.spans = []      # when each was asked for and was known to have ended
        self.task, self.ended_at_piece = None, 0

    def take(self, event):
        self.id = event.get("id", self.id)
        super().take(event)
        if self.task is None and self.left > 0 and len(self.times) - self.ended_at_piece >= self.between:
            self.task = asyncio.create_task(self.move())

    async def move(self):
        asked, before = time.monotonic(), await ended(self.port)
        await streams.post(self.port, f"/helix/requests/{self.id}/move")
        while await ended(self.port) == before and not self.finished:
            await asyncio.sleep(0.01)
        self.spans.append((asked, time.monotonic()))
        self.left -= 1
        self.task, self.ended_at_piece = None, len(self.times)

    def wants_more(self):
        return self.left > 0


def gaps(stream):
    return [b - a for a, b in zip(stream.times, stream.times[1:])]


def down_times(stream):
    """For each move the longest gap while it lasted, less the usual one."""
    usual = statistics.median(gaps(stream))
    found = []
    for begin, end in stream.spans:
        near = [b - a for a, b in zip(stream.times, stream.times[1:]) if b >= begin and a < end]
        if near:
            found.append(max(near) - usual)
    return usual, found


async def migrations(port):
    return (await streams.get_json(port, "/helix/cluster"))["migrations"]


async def ended(port):
    counts = await migrations(port)
    return counts["committed"] + sum(counts["given_up"].values())


async def measure_context(port, tokens, moves):
    stream = OneAfterAnother(body_of(tokens, 500, tokens), port, moves, 10)
    before = await migrations(port)
    await stream.run(port)
    if stream.error:
        raise SystemExit(f"context {tokens}: {stream.error}")
    after = await migrations(port)
    if after["committed"] == before["committed"]:
        raise SystemExit(f"context {tokens}: nothing moved ({after})")
    usual, found = down_times(stream)
    return {"context": tokens, "moves": after["committed"] - before["committed"], "usual_ms": usual * 1e3,
            "down_ms": statistics.median(found) * 1e3, "down_max_ms": max(found) * 1e3,
            "p99_gap_ms": sorted(gaps(stream))[int(0.99 * len(gaps(stream)))] * 1e3,
            "steps": statistics.median(found) / usual}


async def in_a_row(port, moves, most):
    stream = OneAfterAnother(body_of(50, most, 77), port, moves, 1)
    before = await migrations(port)
    await stream.run(port)
    after = await migrations(port)
    plain = streams.Stream(body_of(50, len(stream.times), 77))
    await plain.run(port)
    if stream.error or plain.error:
        raise SystemExit(f"moved again and again: {stream.error or plain.error}")
    # A piece may bring several tokens, and an end what is left of a character.
    same = min(len(plain.texts[0]), len(stream.texts[0])) - 4
    if same < len(stream.texts[0]) // 2 or plain.texts[0][:same] != stream.texts[0][:same]:
        raise SystemExit("moved again and again it says something else")
    return after["committed"] - before["committed"]


def cpu_s(pid):
    """Of a worker's threads but its busiest, which computes."""
    used = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        fields = pathlib.Path(f"/proc/{pid}/task/{thread}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        used[thread] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(used.values()) - max(used.values())


async def window(cluster, movers, seconds, moving):
    """What eight streams, and two long ones beside them that, with moving, keep moving, get in a second."""
    end = time.monotonic() + seconds
    others = 0

    async def stream(seed):
        nonlocal others
        while time.monotonic() < end:
            one = streams.Stream(body_of(64, 60, seed))
            await one.run(cluster.port)
            others += sum(1 for at in one.times if at < end)

    for mover in movers:
        mover.moving = moving
    begin = time.monotonic()
    before, cpu = await migrations(cluster.port), sum(cpu_s(cluster.processes[name].pid) for name in cluster.names)
    await asyncio.gather(*[stream(i) for i in range(8)])
    after, took = await migrations(cluster.port), time.monotonic() - begin
    if any(mover.error or mover.finished for mover in movers):
        raise SystemExit(f"a long stream ended: {movers[0].error or movers[1].error or 'fewer windows, please'}")
    theirs = sum(1 for mover in movers for at in mover.times if begin < at < end)
    return {"others": others / seconds, "movers": theirs / seconds,
            "moves": (after["committed"] - before["committed"]) / took,
            "cpu": (sum(cpu_s(cluster.processes[name].pid) for name in cluster.names) - cpu) / took}


async def overhead(cluster, args, most):
    movers = [Mover(body_of(1024, most - 1040, 100 + i), cluster.port) for i in range(2)]
    running = [asyncio.create_task(mover.run(cluster.port)) for mover in movers]
    await window(cluster, movers, args.warmup, True)
    windows = {False: [], True: []}
    for i in range(args.rounds):
        for moving in (i % 2 == 1, i % 2 == 0):
            windows[moving].append(await window(cluster, movers, args.seconds, moving))
    for task in running:
        task.cancel()
    cpu = {moving: statistics.mean(one["cpu"] for one in found) for moving, found in windows.items()}
    result = {"moves_per_s": statistics.mean(one["moves"] for one in windows[True]),
              "cpu_share": (cpu[True] - cpu[False]) / len(cluster.names)}
    for who in ("others", "movers"):
        ratios = sorted(moving[who] / quiet[who] for quiet, moving in zip(windows[False], windows[True]))
        result[who] = {"quiet": statistics.median(one[who] for one in windows[False]),
                       "moving": statistics.median(one[who] for one in windows[True]),
                       "change": statistics.median(ratios) - 1, "least": ratios[0] - 1, "most": ratios[-1] - 1}
    return result


def print_overhead(result):
    for who, name in (("others", "eight streams beside two that move"), ("movers", "the two")):
        row = result[who]
        print(f"{name}: {row['quiet']:.0f} tokens/s while nothing moves, {row['moving']:.0f} while the two keep "
              f"moving: {row['change']:+.1%} ({row['least']:+.1%} to {row['most']:+.1%})")
    print(f"{result['moves_per_s']:.1f} moves/s; for them each worker's other threads took {result['cpu_share']:.1%} "
          "of a core", flush=True)


async def run(args, cluster, most):
    await cluster.ready()
    result = {"contexts": []}
    say = (lambda *_: None) if args.json else (lambda text: print(text, flush=True))
    say("context  moves  usual gap  down-time  (most)   in decode steps")
    for tokens in [int(one) for one in args.contexts.split(",")]:
        row = await measure_context(cluster.port, tokens, args.moves)
        result["contexts"].append(row)
        say(f"{row['context']:7} {row['moves']:6} {row['usual_ms']:7.1f} ms {row['down_ms']:7.1f} ms "
            f"{row['down_max_ms']:6.1f} ms {row['steps']:8.2f}")
    result["in_a_row"] = await in_a_row(cluster.port, 100, most - 60)
    say(f"one request moved {result['in_a_row']} times in a row: tokens equal")
    result["overhead"] = await overhead(cluster, args, most)
    if args.json:
        print(json.dumps(result))
    else:
        print_overhead(result["overhead"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helix", required=True)
    parser.add_argument("--shape", default="small")
    parser.add_argument("--contexts", default="256,1024,4096,8192")
    parser.add_argument("--moves", type=int, default=8, help="of a request, for the down-time")
    parser.add_argument("--rounds", type=int, default=5, help="of a quiet window and one with moves")
    parser.add_argument("--seconds", type=float, default=10, help="of a window")
    parser.add_argument("--warmup", type=float, default=20, help="seconds of moves before them")
    parser.add_argument("--memory", default="2GB", help="of each worker")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-migration-") as folder:
        model = str(pathlib.Path(folder) / "model.gguf")
        subprocess.run([args.helix, "model", "synth", "--shape", args.shape, "--quant", "q8_0", model], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        layers = json.loads(subprocess.run([args.helix, "model", "info", model, "--json"], check=True,
                                           capture_output=True).stdout)["config"]["layers"]
        most = max(8192, *[int(one) + 512 for one in args.contexts.split(",")])
        placement = processes.write_placement(folder, layers, [(0, layers), (0, layers)])
        cluster = processes.Cluster(args.helix, model, 2, folder, args.memory, 1,
                                    ["--context", str(most), "--placement", placement])
        try:
            cluster.start()
            asyncio.run(run(args, cluster, most))
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
