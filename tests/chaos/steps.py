#!/usr/bin/env python3
"""What can go wrong at every message of a live migration, with real processes.

    tests/chaos/steps.py HELIX [--cases 12] [--seed 1] [--only "SendKv 2 kill-target-1"]

A coordinator and four workers whose messages pass relays (relay.py). A request moves while it streams; at one certain
message of the move a source, a target or the coordinator gets SIGKILL, or the message is dropped, comes twice, or late.
Every answer has to be the undisturbed one, to the letter (up to where the coordinator died), and afterwards no worker
may have a page in use and no request may be moving. --cases 0 runs all cases, else so many by seed. Ends with 1 when
something was wrong. Standard library only.
"""
import argparse
import asyncio
import collections
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import cluster as processes
import relay
import streams

MOVING = ("ReserveKv", "KvReserved", "SendKv", "KvBlocks", "KvArrived", "Commit", "FirstTokens", "FreeSequences")
PARTIES = ("source-1", "source-2", "target-1", "target-2", "coordinator")
LOSSES = ("drop", "twice", "late")
Case = collections.namedtuple("Case", "kind nth action")


class RelayedCluster(processes.Cluster):
    """Workers that reach the coordinator and each other through relays only."""

    def __init__(self, helix, model, workers, folder, memory, speed, decide):
        self.cluster_port = processes.free_port()
        super().__init__(helix, model, workers, folder, memory, speed,
                         ["--cluster-listen", f"127.0.0.1:{self.cluster_port}", "--block-size", "4"])
        # Two pipelines of two workers, whichever of these is gone meanwhile.
        pieces = [(0, 2), (2, 4), (0, 2), (2, 4)]
        self.serve += ["--placement", processes.write_placement(folder, 4, pieces)]
        self.relay = relay.Relay(decide)
        self.join, self.listen, self.reached = {}, {}, {}

    async def start_all(self):
        for name in self.names:
            up = await self.relay.between(name, "coordinator", self.cluster_port)
            self.join[name] = await self.relay.join_page(up)
            self.listen[name] = processes.free_port()
            self.reached[name] = await self.relay.between("a worker", name, self.listen[name])
        self.start()

    def start_worker(self, name):
        self.run(name, ["worker", "--join", f"127.0.0.1:{self.join[name]}", "--name", name, "--host-id", name,
                        "--threads", "1", "--memory", str(self.memory), "--speed", str(self.speed),
                        "--port", str(self.listen[name]), "--address", f"127.0.0.1:{self.reached[name]}",
                        "--no-prefix-cache", "--cache", str(self.folder / "cache")])

    def start_again(self, name):
        if name == "coordinator":
            self.start_coordinator()
        else:
            self.start_worker(name)


class Moved(streams.Stream):
    """Asks for its move at the tenth piece of text."""

    def __init__(self, body, on_tenth):
        super().__init__(body)
        self.on_tenth, self.id, self.task = on_tenth, None, None

    def take(self, event):
        self.id = event.get("id", self.id)
        super().take(event)
        if len(self.times) == 10 and self.on_tenth:
            self.task = asyncio.create_task(self.on_tenth(self.id))


class Steps:
    def __init__(self, args, folder, model):
        self.cluster = RelayedCluster(args.helix, model, 4, folder, args.memory, args.speed, self.decide)
        self.rng = random.Random(args.seed)
        self.bodies = []
        for extra in ({}, {"n": 2, "temperature": 0.9}, {"temperature": 0.7}):
            prompt = " ".join(self.rng.choice(streams.WORDS) for _ in range(30))
            self.bodies.append({"model": "default", "prompt": prompt, "max_tokens": 60, "stream": True,
                                "ignore_eos": True, "seed": 7, "temperature": 0, **extra})
        self.expected = []
        self.counts = collections.Counter()
        self.wrong = []
        self.begin(None)

    def begin(self, case):
        self.case, self.seen, self.order = case, collections.Counter(), []
        self.parties, self.hit, self.down = {}, False, []
        self.attempt, self.met = None, set()  # the attempt that moves; whom a step has reached

    # ---- what passes the relays

    def step_of(self, message):
        """Messages of the move by kind. Its commit are the first rows of the new attempt, at each of its stages."""
        if message.kind in ("StageInputs", "TokensProduced", "FreeSequences"):
            attempt = message.attempt()
            if message.kind == "FreeSequences":
                return "FreeSequences" if attempt == self.attempt else None
            if self.attempt is None:
                self.attempt = attempt
            if attempt == self.attempt:
                return None
            step = "Commit" if message.kind == "StageInputs" else "FirstTokens"
            return step if (step, message.receiver) not in self.met else None
        return message.kind if message.kind in MOVING else None

    async def decide(self, message):
        step = self.step_of(message) if self.parties else None
        if step is None:
            return 1
        self.met.add((step, message.receiver))
        self.seen[step] += 1
        self.order.append((step, self.seen[step]))
        if self.hit or self.case is None or self.order[-1] != self.case[:2]:
            return 1
        self.hit = True
        return await self.act(self.case.action)

    async def act(self, action):
        if action == "drop":
            return 0
        if action == "twice":
            return 2
        if action == "late":
            await asyncio.sleep(1)
            return 1
        name = self.parties.get(action.removeprefix("kill-"))
        if name:
            self.cluster.signal(name, signal.SIGKILL)
            self.down.append(name)
        return 1

    # ---- a case

    async def move(self, request):
        """Learns who takes part, and asks for the move."""
        view = await streams.get_json(self.cluster.port, "/helix/cluster")
        names = {worker["id"]: worker["name"] for worker in view["workers"]}
        sources = []
        for record in view["requests"]:
            if record["id"] == request:
                sources += [names[stage["worker"]] for stage in record["pipeline"] if names[stage["worker"]] not in sources]
        targets = [name for name in self.cluster.names if name not in sources]
        self.parties = dict(zip(PARTIES, sources[:2] + [None] * (2 - len(sources[:2])) + targets[:2]))
        self.parties["coordinator"] = "coordinator"
        await streams.post(self.cluster.port, f"/helix/requests/{request}/move")

    async def calm(self, limit_s=30):
        """All workers have layers, nothing moves and no page is in use."""
        view = "nothing answers"
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            try:
                view = await streams.get_json(self.cluster.port, "/helix/cluster")
                workers = view["workers"]
                if (len(workers) == 4 and all(w["layers"][1] > w["layers"][0] and w["ready"] for w in workers)
                        and all(w["kv_pages_used"] == 0 for w in workers) and not view["migrations"]["under_way"]):
                    return None
            except (OSError, ValueError, KeyError, IndexError):
                pass
            await asyncio.sleep(0.05)
        return json.dumps(view)

    async def run_case(self, which, case):
        self.begin(case)
        stream = Moved(self.bodies[which], self.move)
        try:
            await asyncio.wait_for(stream.run(self.cluster.port), 60)
            await stream.task
        except asyncio.TimeoutError:
            stream.error = "no end after 60 s"
        except OSError as error:
            stream.error = stream.error or str(error)
        self.judge(which, case, stream)
        for name in self.down:
            self.cluster.start_again(name)
        self.parties = {}
        left = await self.calm()
        if left:
            self.fault(which, case, f"it does not become calm: {left}")

    def judge(self, which, case, stream):
        self.counts["cases"] += 1
        self.counts["met" if self.hit else "not met"] += 1
        expected, answer = self.expected[which], stream.answer()
        if "coordinator" in self.down and stream.error:
            if not all(expected[i][0].startswith(text) for i, (text, _) in answer.items()):
                self.fault(which, case, f"expected the beginning of {expected}\n  but it said {answer}")
        elif stream.error:
            self.fault(which, case, stream.error)
        elif answer != expected:
            self.fault(which, case, f"expected {expected}\n  but it said {answer}")

    def fault(self, which, case, text):
        replay = "" if case is None else f' (--only "{case.kind} {case.nth} {case.action}")'
        self.wrong.append(f"request {which}{replay}: {text}")
        print("WRONG " + self.wrong[-1], flush=True)

    async def undisturbed(self):
        """The answers without a move, and the messages of a move of each."""
        found = set()
        for which, body in enumerate(self.bodies):
            stream = streams.Stream(body)
            await stream.run(self.cluster.port)
            if stream.error:
                raise SystemExit(f"an undisturbed request failed: {stream.error}")
            self.expected.append(stream.answer())
            await self.run_case(which, None)
            found |= set(self.order)
        self.counts.clear()
        return sorted(found, key=lambda step: (MOVING.index(step[0]), step))


def all_cases(steps):
    return [Case(kind, nth, action) for kind, nth in steps
            for action in [f"kill-{party}" for party in PARTIES] + list(LOSSES)]


async def run(args, steps):
    await steps.cluster.start_all()
    await steps.cluster.ready()
    left = await steps.calm()
    if left:
        raise SystemExit(f"the workers did not all get layers: {left}")
    found = await steps.undisturbed()
    print("messages of a move: " + ", ".join(f"{kind} {nth}" for kind, nth in found), flush=True)
    cases = all_cases(found)
    if args.only:
        kind, nth, action = args.only.split()
        cases = [Case(kind, int(nth), action)] * 3
    elif args.cases:
        cases = steps.rng.sample(cases, min(args.cases, len(cases)))
    began = time.monotonic()
    for i, case in enumerate(cases):
        await steps.run_case(i % len(steps.bodies), case)
        if (i + 1) % 20 == 0:
            print(f"{time.monotonic() - began:6.0f} s  {i + 1} of {len(cases)} cases, {len(steps.wrong)} wrong", flush=True)
    print(f"{len(cases)} cases, of which the message was met in {steps.counts['met']}; wrong {len(steps.wrong)}")
    return not steps.wrong and (args.only or 2 * steps.counts["met"] > len(cases))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help='one case, three times: "MESSAGE NTH ACTION"')
    parser.add_argument("--memory", default="600kB", help="of each worker")
    parser.add_argument("--speed", type=float, default=0.1, help="share of full speed of each worker")
    return parser.parse_args()


def main():
    args = parse()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="helix-steps-"))
    steps = Steps(args, folder, processes.tiny_model(args.helix, folder))
    good = False
    try:
        good = asyncio.run(run(args, steps))
    finally:
        steps.cluster.stop()
        if not good:
            print(f"logs are in {folder}")
    if not good:
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
