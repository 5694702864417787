#!/usr/bin/env python3
"""The program for arm64, run by qemu-user on amd64, says bit for bit what the one for amd64 says: its tests pass; kernels and models give the
same bits; served models give the same tokens and log-probabilities; and one answer is computed by workers of both kinds, whichever of them dies.

usage: arm64_test.py HELIX HELIX_DEVICE_VALUES BUILD_OF_ARM64      the first two are for amd64

It takes many minutes, so it runs with whole sweeps only (HELIX_SWEEPS=all, `make test-all`), and in `make arm64`. What is not built for arm64
is built. Exits 77 (skipped) else, where this is no amd64, and where the compiler, qemu-user or mmdebstrap is missing.
"""
import asyncio
import contextlib
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "chaos"), str(HERE.parent / "package")]
import cluster as processes  # noqa: E402
import streams  # noqa: E402
from clean_system import check, is_ready, skip, wait_until  # noqa: E402

TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64-static", "mmdebstrap")
TESTED = "base|core|engine|model|spec|text|wire"
SEED = 18
# Every format of weights with one type of KV or another. Whole blocks of 256 columns need more than the tiny shape.
SERVED = [("small", quant, ("f16", "bf16", "f32", "q8")[i % 4]) for i, quant in enumerate(
    ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "mxfp4", "q2_k", "iq4_xs", "iq3_xxs", "iq3_s", "iq2_xxs", "iq2_xs", "iq2_s", "iq1_s", "iq1_m", "tq1_0", "tq2_0", "nvfp4", "fp8", "int4"))]
LAYERS = 8  # of the demo model


def output(*command, **more):
    done = subprocess.run([str(word) for word in command], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    check(done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def said(line, began):
    print(f"{line} ({time.monotonic() - began:.0f} s)", flush=True)


def emulated(program, build, folder):
    """A program for amd64 that runs one for arm64."""
    path = folder / f"{program}-arm64"
    path.write_text(f'#!/bin/sh\nexec qemu-aarch64-static -L "{build.parent}/arm64-sysroot" "{build}/bin/{program}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def unit_tests(build):
    began = time.monotonic()
    done = subprocess.run(["ctest", "--test-dir", str(build), "-R", f"^helix_({TESTED})_test", "--output-on-failure", "--no-tests=error",
                           "-j", "2", "--timeout", "3000"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0, "tests of the build for arm64 fail:\n" + done.stdout[-12000:])
    said("the tests of the build for arm64 pass: " + done.stdout.splitlines()[-3].strip(), began)


def device_values(ours, theirs):
    began = time.monotonic()
    right = output(ours, SEED).splitlines()
    check(len(right) > 300, f"only {len(right)} cases")
    others = dict(line.rsplit(", ", 1) for line in output(ours, SEED + 1).splitlines())
    same = [line for line in right if others.get(line.rsplit(", ", 1)[0]) == line.rsplit(", ", 1)[1]]
    check(len(same) * 20 < len(right), f"the bits do not depend on the numbers: {same}")
    for name, got in (("portable kernels of amd64", output(ours, SEED, "portable")), ("arm64", output(theirs, SEED))):
        different = [f"{a}\n  but by amd64's best: {b}" for a, b in zip(got.splitlines(), right) if a != b]
        check(len(got.splitlines()) == len(right) and not different, f"{name}: {len(different)} of {len(right)} differ:\n" + "\n".join(different[:20]))
    said(f"{len(right)} cases of kernels, angles and models give the same bits", began)


def synthetic(ours, theirs, folder):
    """Models of every format, of which both make the same files."""
    began = time.monotonic()
    made = []
    for shape, quant, kv in SERVED:
        paths = [folder / f"{quant}-{i}.gguf" for i in range(2)]
        for helix, path in zip((ours, theirs), paths):
            output(helix, "model", "synth", "--shape", shape, "--quant", quant, "--seed", SEED, path)
        check(paths[0].read_bytes() == paths[1].read_bytes(), f"the synthetic models of {quant} are not the same")
        paths[1].unlink()
        made.append((paths[0], kv))
    said(f"{len(made)} synthetic models are the same files", began)
    return made


def questions(prompt, tokens):
    """Greedy and by seeds, with log-probabilities, so that more bits than those of the tokens count."""
    plain = {"model": "default", "prompt": prompt, "max_tokens": tokens, "logprobs": 5, "ignore_eos": True}
    return [{**plain, "temperature": 0}, {**plain, "temperature": 0.8, "seed": 7}, {**plain, "temperature": 1, "seed": 8, "top_p": 0.9, "n": 2},
            {**plain, "temperature": 1, "seed": 9, "top_k": 20, "frequency_penalty": 0.5}]


@contextlib.contextmanager
def served(helix, model, folder, *options):
    port = processes.free_port()
    base = f"http://127.0.0.1:{port}"
    with open(folder / "serve.log", "w+", encoding="utf-8") as log:
        process = subprocess.Popen([str(helix), "serve", "--model", str(model), "--listen", f"127.0.0.1:{port}", "--memory", "200MB", "--threads", "2",
                                    "--no-announce", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   preexec_fn=processes.die_with_parent)
        try:
            if not wait_until(lambda: process.poll() is not None or is_ready(base), 300) or process.poll() is not None:
                log.seek(0)
                raise SystemExit(f"{helix} does not serve {model}:\n" + log.read()[-3000:])
            yield base
        finally:
            process.kill()
            process.wait()


def choices(base, bodies):
    answered = []
    for body in bodies:
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as response:
            answered.append(json.loads(response.read())["choices"])
    return answered


def answers(ours, theirs, folder, model, kv, bodies):
    got = []
    for helix in (ours, theirs):
        with served(helix, model, folder, "--kv", kv) as base:
            got.append(choices(base, bodies))
    for body, right, other in zip(bodies, *got):
        check(right == other, f"{model.name}, KV {kv}, asked {json.dumps(body)}:\namd64 says {json.dumps(right)}\narm64 says {json.dumps(other)}")
    return got[0]


def served_models(ours, theirs, folder, models):
    began = time.monotonic()
    for model, kv in models:
        answers(ours, theirs, folder, model, kv, questions("once upon a time", 24))
    demo = SOURCE / "models" / "helix-demo.gguf"
    chat = {"model": "default", "messages": [{"role": "user", "content": "What is a pipeline?"}], "max_tokens": 40, "logprobs": True, "top_logprobs": 5}
    bodies = [{**chat, "temperature": 0}, {**chat, "temperature": 0.8, "seed": 7}, *questions("Once upon a time", 40)]
    first = answers(ours, theirs, folder, demo, "f16", bodies)[0]
    text = first[0]["message"]["content"]
    check("machines" in text, f"not the model's answer: {text!r}")
    said(f"{len(models) + 1} served models say the same, among it {text!r}", began)


class MixedCluster(processes.Cluster):
    """Both halves of the demo model on amd64, and the second on arm64, too, so that either of those two may die."""

    ARM64 = "w1"

    def __init__(self, ours, theirs, model, folder):
        pieces = [(0, LAYERS // 2), (LAYERS // 2, LAYERS), (LAYERS // 2, LAYERS)]
        serve = ["--placement", processes.write_placement(folder, LAYERS, pieces), "--no-announce", "--no-balance"]
        # Both twins must be needed: a worker without a share of the planned flow is given nothing.
        super().__init__(str(ours), str(model), len(pieces), folder, "100MB", 1, serve, speeds=(1, 1, 0.01))
        self.programs = {self.ARM64: str(theirs)}
        self.amd64 = str(ours)

    def run(self, name, arguments):
        self.helix = self.programs.get(name, self.amd64)
        super().run(name, arguments)

    async def holds(self, name, starts=1, limit_s=300):
        """Waits until that worker, started so many times, computes layers. Its number outlives a start, its log says more."""
        until = time.monotonic() + limit_s
        view = None
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError, IndexError):
                view = await streams.get_json(self.port, "/helix/cluster")
                for one in view["workers"]:
                    if (one["name"] == name and one["ready"] and one["layers"][1] > one["layers"][0]
                            and self.log(name).count("are loaded") >= starts):
                        return
            await asyncio.sleep(0.1)
        raise SystemExit(f"{name} gets no layers: {json.dumps(view)}\n{self.log(name)[-2000:]}")

    async def records(self, holds):
        """The requests of which this is true, by name: like holds(record, names of the workers that compute it)."""
        view = await streams.get_json(self.port, "/helix/cluster")
        names = {worker["id"]: worker["name"] for worker in view["workers"]}
        return {(record["id"], record["choice"]) for record in view["requests"]
                if holds(record, [names.get(stage["worker"]) for stage in record["pipeline"]])}


async def loses(cluster, name, bodies, expected):
    """All requests at once; when all have said something, and some are on that worker, it is killed. How many answers went on elsewhere."""
    under_way = [streams.Stream(body) for body in bodies]
    tasks = [asyncio.create_task(stream.run(cluster.port)) for stream in under_way]
    hit = set()
    until = time.monotonic() + 300
    while not hit and time.monotonic() < until:
        await asyncio.sleep(0.02)
        if all(len(stream.times) >= 3 for stream in under_way):
            hit = await cluster.records(lambda record, workers: record["state"] == "running" and name in workers)
        if all(task.done() for task in tasks):
            break
    cluster.signal(name, signal.SIGKILL)
    for task in tasks:
        await asyncio.wait_for(task, 600)
    for body, stream, right in zip(bodies, under_way, expected):
        check(not stream.error, f"after the death of {name}: {stream.error}, asked {json.dumps(body)}")
        check(stream.answer() == right, f"after the death of {name}, asked {json.dumps(body)}: expected {right}\n  but it said {stream.answer()}")
    return len(hit & await cluster.records(lambda record, workers: len(record["attempts"]) > 1))


async def run_cluster(cluster, bodies, expected):
    await cluster.ready(300)
    for name in cluster.names:
        await cluster.holds(name)
    counts = []
    for name in ("w1", "w2"):
        counts.append(await loses(cluster, name, bodies, expected))
        cluster.start_worker(name)
        await cluster.holds(name, starts=2)
    return counts


async def undisturbed(base, bodies):
    expected = []
    for body in bodies:
        stream = streams.Stream(body)
        await stream.run(int(base.rsplit(":", 1)[1]))
        check(not stream.error and stream.finished, f"an undisturbed request failed: {stream.error}")
        expected.append(stream.answer())
    return expected


def mixed_cluster(ours, theirs, folder):
    began = time.monotonic()
    model = SOURCE / "models" / "helix-demo.gguf"
    bodies = [{**body, "max_tokens": 80} for body in streams.make_requests(8, SEED) if "messages" not in body]
    with served(ours, model, folder) as base:
        expected = asyncio.run(undisturbed(base, bodies))
    cluster = MixedCluster(ours, theirs, model, folder)
    try:
        cluster.start()
        killed = asyncio.run(run_cluster(cluster, bodies, expected))
    finally:
        cluster.stop()
    check(all(killed), f"no answer had to go on elsewhere: {killed}")
    said(f"a cluster of both kinds gives the same answers; {killed[0]} went on after the death of its arm64 worker, {killed[1]} on it after that of "
         "its amd64 twin", began)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    helix, values, build = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    if os.environ.get("HELIX_SWEEPS") != "all":
        skip("the build for arm64 is compared with whole sweeps only (HELIX_SWEEPS=all)")
    if platform.machine() != "x86_64":
        skip("this is no amd64")
    for tool in TOOLS:
        if not shutil.which(tool):
            skip(f"no {tool}; tools/install-deps.sh --arm64 installs it")
    print(output(SOURCE / "tools" / "arm64.sh", "build"), end="", flush=True)
    with tempfile.TemporaryDirectory(prefix="helix-arm64-") as folder:
        folder = pathlib.Path(folder)
        theirs, their_values = (emulated(program, build, folder) for program in ("helix", "helix_device_values"))
        device_values(values, their_values)
        served_models(helix, theirs, folder, synthetic(helix, theirs, folder))
        mixed_cluster(helix, theirs, folder)
    unit_tests(build)


if __name__ == "__main__":
    main()
