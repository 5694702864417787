#!/usr/bin/env python3
"""Kills and stops workers of a real cluster at random tokens while it serves, and compares every answer.

    tests/chaos/chaos.py HELIX [--faults 1000] [--seed 1] [--workers 4] [--roles] [--vulkan N] [--streams 8]
                         [--model FILE.gguf]

Every request is first answered undisturbed. Then they are asked again and again, several at a time, while after every
few tokens a worker gets SIGKILL (and is started again) or SIGSTOP (and later SIGCONT). Each answer must come to its
end and be the undisturbed one, to the letter. Ends with 1 otherwise. With --roles the first half of the workers computes
prompts and the others decode: every answer moves after its first token. Where the machine has a Vulkan device, of
software or not, the second worker computes on it; --vulkan N says how many do. Standard library only.
"""
import argparse
import asyncio
import collections
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

import cluster as processes
import streams


class Chaos:
    def __init__(self, args, cluster):
        self.args, self.cluster = args, cluster
        self.rng = random.Random(args.seed)
        self.bodies = streams.make_requests(args.requests, args.seed)
        self.expected = []
        self.pieces = 0
        self.counts = collections.Counter()
        self.fault_times = []
        self.gaps = []        # the longest of each request that a fault fell into
        self.calm_gaps = []   # of the others
        self.wrong = []
        self.busy = {}        # worker -> the task that brings it back
        self.over = False

    async def vulkan_worker_holds_layers(self, limit_s=10):
        """Ends the program when none does: every answer would come from CPUs alone."""
        until = time.monotonic() + limit_s
        while True:
            view = await streams.get_json(self.cluster.port, "/helix/cluster")
            holding = [f"{worker['name']} holds layers [{begin}, {end})" for worker in view["workers"]
                       for begin, end in [worker["layers"]]
                       if self.cluster.devices.get(worker["name"], "cpu") != "cpu" and worker["ready"] and end > begin]
            if holding:
                print(f"Vulkan workers: {', '.join(holding)}", flush=True)
                return
            if time.monotonic() > until:
                if self.args.vulkan is None:  # nobody asked for one
                    print("skipped: Vulkan; the plan gives layers to quicker workers alone", flush=True)
                    return
                raise SystemExit(f"no Vulkan worker holds layers: {view['workers']}")
            await asyncio.sleep(0.2)

    async def learn(self):
        for body in self.bodies:
            stream = streams.Stream(body)
            await stream.run(self.cluster.port)
            if stream.error or not stream.finished:
                raise SystemExit(f"an undisturbed request failed: {stream.error}\n{body}")
            self.expected.append(stream.answer())

    async def ask(self):
        while not self.over:
            which = self.rng.randrange(len(self.bodies))
            stream = streams.Stream(self.bodies[which])
            began = time.monotonic()
            try:
                await asyncio.wait_for(stream.run(self.cluster.port, self.count), self.args.limit)
            except asyncio.TimeoutError:
                stream.error = f"no end after {self.args.limit} s"
            except OSError as error:
                stream.error = str(error)
            self.judge(which, stream, began)

    def count(self):
        self.pieces += 1

    def judge(self, which, stream, began):
        self.counts["requests"] += 1
        hit = any(began <= at <= time.monotonic() for at in self.fault_times[-50:])
        (self.gaps if hit else self.calm_gaps).append(stream.longest_gap())
        if stream.error:
            self.counts["failed"] += 1
            self.wrong.append(f"request {which} failed: {stream.error}")
        elif stream.answer() != self.expected[which]:
            self.counts["different"] += 1
            self.wrong.append(f"request {which}: expected {self.expected[which]}\n  but it said {stream.answer()}")
        if len(self.wrong) > 5:
            self.over = True

    async def disturb(self):
        began = time.monotonic()
        while self.counts["faults"] < self.args.faults and not self.over:
            due = self.pieces + self.rng.randint(1, self.args.every)
            waited = time.monotonic()
            while self.pieces < due and time.monotonic() - waited < 10 and not self.over:
                await asyncio.sleep(0.005)
            up = [name for name in self.cluster.names if name not in self.busy]
            if len(up) <= self.args.keep:
                continue
            self.hurt(self.rng.choice(up))
            if self.counts["faults"] % 50 == 0:
                print(f"{time.monotonic() - began:6.0f} s  {self.line()}", flush=True)
        self.over = True

    def hurt(self, name):
        stop = self.rng.random() < self.args.stops
        self.cluster.signal(name, signal.SIGSTOP if stop else signal.SIGKILL)
        self.fault_times.append(time.monotonic())
        self.counts["faults"] += 1
        self.counts["stopped" if stop else "killed"] += 1
        self.busy[name] = asyncio.create_task(self.bring_back(name, stop))

    async def bring_back(self, name, stopped):
        await asyncio.sleep(self.rng.uniform(0.2, 4.0 if stopped else 1.5))
        if stopped:
            self.cluster.signal(name, signal.SIGCONT)
        else:
            self.cluster.start_worker(name)
        await asyncio.sleep(1.0)  # to join; without it a worker may never serve before its next turn
        del self.busy[name]

    def line(self):
        c = self.counts
        return (f"{c['faults']} faults ({c['killed']} killed, {c['stopped']} stopped), {c['requests']} requests, "
                f"{self.pieces} pieces; failed {c['failed']}, different {c['different']}")

    async def run(self):
        await self.cluster.ready()
        if self.cluster.devices:
            await self.vulkan_worker_holds_layers()
        await self.learn()
        print(f"{len(self.bodies)} requests answered undisturbed; now with faults (seed {self.args.seed})", flush=True)
        asking = [asyncio.create_task(self.ask()) for _ in range(self.args.streams)]
        await self.disturb()
        await asyncio.gather(*asking)
        for task in list(self.busy.values()):
            await task


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def gaps_text(name, gaps):
    return (f"  {name:<28} p50 {percentile(gaps, 0.5) * 1e3:6.0f} ms   p99 {percentile(gaps, 0.99) * 1e3:6.0f} ms   "
            f"max {max(gaps, default=0) * 1e3:6.0f} ms   ({len(gaps)} requests)")


def bound_text(log, args, gaps):
    """What the coordinator promised of one loss. It is held to it where one worker at a time is killed."""
    lines = re.findall(r"if a worker is lost: (.*)", log)
    bounds = [float(number) / (1000 if unit == "ms" else 1)
              for line in lines for number, unit in re.findall(r"at most ([0-9.]+) (ms|s)", line)]
    if not bounds:
        return "no placement came with a bound of the stall after a loss"
    text = f"the coordinator's bounds of the stall after one loss: {min(bounds):.1f} to {max(bounds):.1f} s"
    if args.keep < args.workers - 1 or args.stops > 0:
        return text
    return text + f"; longer than the greatest: {sum(gap > max(bounds) for gap in gaps)} of {len(gaps)}"


def devices_of(args):
    """What each worker computes on; empty: all on CPUs. Vulkan workers follow the first, so that they are among CPU ones."""
    if args.vulkan == 0:
        return []
    there = processes.vulkan_devices(args.helix)
    if not there:
        if args.vulkan is not None:
            raise SystemExit(f"--vulkan {args.vulkan}: helix devices lists no Vulkan device that can be used")
        print("Vulkan workers: skipped, helix devices lists no Vulkan device that can be used", flush=True)
        return []
    count = 1 if args.vulkan is None else args.vulkan
    if not 0 < count < args.workers:
        raise SystemExit(f"--vulkan {count}: of {args.workers} workers 0 to {args.workers - 1} can be Vulkan ones")
    return ["cpu"] + [there[i % len(there)] for i in range(count)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--roles", action="store_true", help="half of the workers compute prompts, half decode")
    parser.add_argument("--vulkan", type=int, metavar="N",
                        help="workers on Vulkan devices [1 where helix devices lists one, else 0]")
    parser.add_argument("--keep", type=int, default=2, help="so many workers are left alone at any time")
    parser.add_argument("--streams", type=int, default=8, help="requests at a time")
    parser.add_argument("--requests", type=int, default=24, help="different ones")
    parser.add_argument("--every", type=int, default=60, help="a fault after 1 to so many pieces of text")
    parser.add_argument("--stops", type=float, default=0.25, help="share of SIGSTOP among the faults")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a request may take")
    parser.add_argument("--model", help="GGUF file [a small synthetic one]")
    parser.add_argument("--memory", default="900kB", help="of each worker")
    parser.add_argument("--speed", type=float, default=0.1, help="share of full speed of each worker")
    return parser.parse_args()


def main():
    args = parse()
    devices = devices_of(args)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="helix-chaos-"))
    model = args.model or processes.tiny_model(args.helix, folder)
    template = folder / "chat.jinja"
    template.write_text(streams.CHAT_TEMPLATE)
    half = args.workers // 2
    roles = ["prefill"] * half + ["decode"] * (args.workers - half) if args.roles else []
    cluster = processes.Cluster(args.helix, model, args.workers, folder, args.memory, args.speed,
                                serve=["--chat-template", str(template)], roles=roles, devices=devices)
    chaos = Chaos(args, cluster)
    try:
        cluster.start()
        asyncio.run(chaos.run())
    finally:
        cluster.stop()
    print(chaos.line())
    print("longest gap between two pieces of text of a request")
    print(gaps_text("with a fault in its time", chaos.gaps))
    print(gaps_text("without", chaos.calm_gaps))
    print(bound_text(cluster.log("coordinator"), args, chaos.gaps))
    placements = sorted(set(re.findall(r"in force: (.*)", cluster.log("coordinator"))))
    print(f"{len(placements)} different placements, such as: {'; or '.join(placements[:2])}")
    for text in chaos.wrong:
        print(text)
    if chaos.wrong or chaos.counts["requests"] == 0:
        print(f"FAILED; logs in {folder}; again: {' '.join(sys.argv)}")
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
