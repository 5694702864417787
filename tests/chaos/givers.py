#!/usr/bin/env python3
"""A worker that gives weights to others is killed or stopped while they fetch from it, with real processes.

    tests/chaos/givers.py HELIX [--shape llama-160m] [--only "warm kill" | --few] [--limit 240]

A coordinator and four workers, each with a cache of its own and with the whole model to hold. In the warm cases the cache of
the first has it all, and the others, whose caches are cold, fetch from it; in the cold cases all caches are, and the one that
is furthest is taken. In the midst of that the giver gets SIGKILL, or SIGSTOP. The others must come to hold the
model without it, with the bytes that it has when nothing happens. Then a giver that was stopped goes on, and one that was
killed is started again with what its cache has by then; and all four answer, to the letter, as a single machine does. Nothing
is removed from a cache that a worker uses, and all from that of one that was killed.
Ends with 1 otherwise. With --few one case alone, unless HELIX_SWEEPS=all. Standard library only.
"""
import argparse
import asyncio
import collections
import filecmp
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cluster as processes
import streams

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
Case = collections.namedtuple("Case", "start how")
Whole = collections.namedtuple("Whole", "folder tensors")  # a cache that has all of the model
CASES = [Case(start, how) for start in ("warm", "cold") for how in SIGNALS]
TRIES = 4  # a case whose transfer was over before anybody was hurt is run again
PROMPTS = 6
LAYERS = {"llama-160m": 12, "small": 4}


class Failure(Exception):
    """Something came out wrong."""


class TransferWasOver(Exception):
    """There was nothing left to disturb."""


class Replicas(processes.Cluster):
    """Every worker is to hold the whole model, and has a cache of its own."""

    def __init__(self, args, model, folder, workers=4):
        super().__init__(args.helix, model, workers, folder, "1GB", 1)
        self.layers = LAYERS[args.shape]
        pieces = [(0, self.layers)] * workers
        self.serve = ["--placement", processes.write_placement(folder, self.layers, pieces)]

    def cache(self, name):
        return self.folder / f"{name}.cache"

    def tensors(self, name):
        """The files of whole tensors in the worker's cache, by their names."""
        return {path.name: path for path in (self.cache(name) / "tensors").glob("??/*") if path.suffix != ".part"}

    def loaded_lines(self, name):
        return re.findall(r"layers \d+-\d+ are loaded: .*", self.log(name))

    async def holding(self):
        """The names of the workers that hold the whole model."""
        try:
            state = await streams.get_json(self.port, "/helix/cluster")
        except (OSError, ValueError):
            return set()
        return {worker["name"] for worker in state["workers"]
                if worker["state"] == "serving" and worker["ready"] and worker["layers"] == [0, self.layers]}


async def until(condition, limit_s, what, cluster, every_s=0.2):
    end = time.monotonic() + limit_s
    while not await condition():
        if time.monotonic() > end:
            logs = "".join(f"--- {name}\n{cluster.log(name)[-2000:]}" for name in cluster.processes)
            raise Failure(f"{what}: not within {limit_s} s\n{logs}")
        await asyncio.sleep(every_s)


def questions():
    return [{"model": "default", "prompt": " ".join(streams.WORDS[i:i + 3 + i]), "max_tokens": 12, "stream": True,
             "ignore_eos": True, "temperature": 0 if i % 2 == 0 else 0.8, "seed": 40 + i} for i in range(PROMPTS)]


async def answer(port, body):
    stream = streams.Stream(body)
    await stream.run(port)
    if stream.error or not stream.finished:
        raise Failure(f"a request failed: {stream.error}\n{body}")
    return stream.answer()


async def single_machine_answers(args, model, folder):
    """What one machine says, without any other."""
    folder.mkdir()
    alone = processes.Cluster(args.helix, model, 1, folder, "1GB", 1)
    try:
        alone.start()
        await alone.ready(args.limit)
        return [await answer(alone.port, body) for body in questions()]
    finally:
        alone.stop()


async def ask_all(cluster, expected, names, limit_s):
    """The questions again and again, until each of these workers has answered some: all as expected."""
    used = set()
    end = time.monotonic() + limit_s
    asked = 0
    while not names <= used:
        if time.monotonic() > end:
            raise Failure(f"within {limit_s} s only {sorted(used)} of {sorted(names)} answered")
        said = await asyncio.gather(*[answer(cluster.port, body) for body in questions()])
        asked += len(said)
        for body, got, right in zip(questions(), said, expected):
            if got != right:
                raise Failure(f"expected {right}\n  but it said {got}\n  to {body}")
        state = await streams.get_json(cluster.port, "/helix/cluster")
        name_of = {worker["id"]: worker["name"] for worker in state["workers"]}
        used |= {name_of.get(stage["worker"]) for request in state["requests"] for stage in request.get("pipeline") or ()}
    return asked


async def hurt_giver(cluster, case, count, args):
    """Sends the signal when part of the model is where it should come; returns the giver's name and how far others were."""
    others = cluster.names[1:]
    while True:
        have = {name: len(cluster.tensors(name)) for name in cluster.names}
        giver = "w0" if case.start == "warm" else max(have, key=have.get)
        others = [name for name in cluster.names if name != giver]
        if max(have[name] for name in others) >= count // 5:
            break
        for name, process in cluster.processes.items():
            if process.poll() is not None:
                raise Failure(f"{name} ended by itself:\n{cluster.log(name)[-3000:]}")
        if time.monotonic() > args.end:
            raise Failure("the transfer did not begin:\n" + cluster.log("coordinator")[-3000:])
        await asyncio.sleep(0.005)
    cluster.signal(giver, SIGNALS[case.how])
    had = {name: len(cluster.tensors(name)) for name in others}
    if min(had.values()) >= count:
        raise TransferWasOver
    return giver, had


def check_bytes(cluster, names, reference):
    """Each has every tensor in its cache, with the bytes that the reference has."""
    for name in names:
        have = cluster.tensors(name)
        if have.keys() != reference.keys():
            raise Failure(f"{name} has {len(have)} tensors, not the {len(reference)} of the model")
        wrong = [key for key in have if not filecmp.cmp(have[key], reference[key], shallow=False)]
        if wrong:
            raise Failure(f"{name}: not the bytes of the model: {wrong}")


async def start_again(cluster, name, args):
    """A worker that starts with a whole cache reads all from it: each tensor has the hash that it is named by."""
    before = len(cluster.loaded_lines(name))
    cluster.signal(name, signal.SIGKILL)
    cluster.start_worker(name)

    async def loaded():
        return len(cluster.loaded_lines(name)) > before
    await until(loaded, args.limit, f"{name} does not load again", cluster)
    line = cluster.loaded_lines(name)[-1]
    if "from the cache" not in line or "from the coordinator" in line or " from w" in line:
        raise Failure(f"{name} was to find all in its cache: {line}")


def listed(cluster, name):
    """What helix model list says of the worker's cache."""
    said = subprocess.run([cluster.helix, "model", "list", "--received", "--json", "--cache", str(cluster.cache(name))],
                          check=True, stdout=subprocess.PIPE).stdout
    return [(model["bytes"] == model["model_bytes"], model["in_use"]) for model in json.loads(said)]


def remove_unused(cluster, name):
    subprocess.run([cluster.helix, "model", "rm", "--received", "--cache", str(cluster.cache(name))], check=True,
                   stdout=subprocess.DEVNULL)


def check_removing(cluster, name, reference):
    """What a worker that runs uses stays; what one that was killed has left goes."""
    if listed(cluster, name) != [(True, True)]:
        raise Failure(f"{name} uses the whole model, but helix model list says {listed(cluster, name)}")
    remove_unused(cluster, name)
    check_bytes(cluster, [name], reference.tensors)
    cluster.signal(name, signal.SIGKILL)
    if listed(cluster, name) != [(True, False)]:
        raise Failure(f"{name} was killed, but helix model list says {listed(cluster, name)}")
    remove_unused(cluster, name)
    if listed(cluster, name) or cluster.tensors(name):
        raise Failure(f"{name} was killed, and its cache still has {len(cluster.tensors(name))} tensors")


async def run_case(case, args, model, folder, expected, reference):
    folder.mkdir()
    cluster = Replicas(args, model, folder)
    if case.start == "warm":
        shutil.copytree(reference.folder, cluster.cache("w0"))
    args.end = time.monotonic() + args.limit
    try:
        cluster.start()
        giver, had = await hurt_giver(cluster, case, len(reference.tensors), args)
        rest = {name for name in cluster.names if name != giver}

        async def rest_holds():
            holding = await cluster.holding()
            return holding >= rest and giver not in holding
        await until(rest_holds, args.limit, f"{sorted(rest)} do not all hold the model without {giver}", cluster)
        check_bytes(cluster, rest, reference.tensors)
        if case.how == "stop":
            cluster.signal(giver, signal.SIGCONT)
        else:
            cluster.start_worker(giver)

        async def all_hold():
            return await cluster.holding() == set(cluster.names)
        await until(all_hold, args.limit, "not all hold the model again", cluster)
        await cluster.ready(args.limit)
        check_bytes(cluster, cluster.names, reference.tensors)
        asked = await ask_all(cluster, expected, set(cluster.names), args.limit)
        await start_again(cluster, sorted(rest)[0], args)
        check_removing(cluster, sorted(rest)[1], reference)
        lines = [line for name in sorted(rest) for line in re.findall(r"was asked for .*", cluster.log(name))]
        print(f"{case.start} {case.how}: {giver} was hurt when the others had {sorted(had.values())} of {len(reference.tensors)} "
              f"tensors; {len(lines)} fetches were told that it did not give; {asked} answers right", flush=True)
    finally:
        cluster.stop()


async def whole_cache(args, model, folder):
    """The tensors that a worker gets of the coordinator while nothing happens."""
    folder.mkdir()
    calm = Replicas(args, model, folder, 1)
    try:
        calm.start()
        await calm.ready(args.limit)
        return Whole(calm.cache("w0"), calm.tensors("w0"))
    finally:
        calm.stop()


async def run_all(args, folder):
    model = processes.tiny_model(args.helix, folder, args.shape)
    expected = await single_machine_answers(args, model, folder / "single")
    reference = await whole_cache(args, model, folder / "calm")
    for case in CASES:
        if args.only and args.only != f"{case.start} {case.how}":
            continue
        for again in range(TRIES):
            here = folder / f"{case.start}-{case.how}-{again}"
            try:
                await run_case(case, args, model, here, expected, reference)
                break
            except TransferWasOver:
                print(f"{case.start} {case.how}: all was given before the signal came; again", flush=True)
        else:
            raise Failure(f"{case}: {TRIES} times all was given before the signal came; take a larger --shape")
        shutil.rmtree(here)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("--shape", default="llama-160m", choices=sorted(LAYERS), help="of the synthetic model")
    parser.add_argument("--only", help="one case, as its line names it")
    parser.add_argument("--few", action="store_true", help="the first case alone, unless HELIX_SWEEPS=all")
    parser.add_argument("--limit", type=float, default=240, help="seconds that each step may take")
    args = parser.parse_args()
    if args.few and os.environ.get("HELIX_SWEEPS") != "all":
        args.only = f"{CASES[0].start} {CASES[0].how}"
    if args.only and args.only not in [f"{case.start} {case.how}" for case in CASES]:
        raise SystemExit(f"--only {args.only}: there is no such case")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="helix-givers-"))
    try:
        asyncio.run(run_all(args, folder))
    except (Failure, SystemExit) as failure:
        print(failure, f"\nlogs are in {folder}", file=sys.stderr)
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
