"""A cluster that serves innocent clients while it is attacked, and what is measured of it meanwhile."""
import asyncio
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "chaos"))
import cluster as processes  # noqa: E402
import streams  # noqa: E402

MB = 1 << 20
# Address space beyond which a process is refused memory, so that a hole ends the test and not the machine.
HARD_LIMIT_BYTES = 6 << 30


def peak_mb(pid):
    """The most memory that the process had resident since reset_peak, in MB; 0 when it is gone."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


class Bed:
    """Coordinator and two workers, each of which can hold the whole model."""

    def __init__(self, helix, folder, serve=(), shape="tiny-32k", workers=2, worker=()):
        self.folder = pathlib.Path(folder)
        self.helix = helix
        self.model = self.folder / f"{shape}.gguf"
        if not self.model.exists():
            subprocess.run([helix, "model", "synth", "--shape", shape, "--quant", "q8_0", str(self.model)],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.port, self.cluster_port = processes.free_port(), processes.free_port()
        self.processes = {}
        self.may_pause = False  # /health may say 503 for a while
        self.run("coordinator", ["serve", "--model", str(self.model), "--no-worker", "--listen", f"127.0.0.1:{self.port}",
                                 "--cluster-listen", f"127.0.0.1:{self.cluster_port}", "--min-workers", str(workers),
                                 *serve])
        for i in range(workers):
            self.run(f"w{i}", ["worker", "--join", f"127.0.0.1:{self.port}", "--name", f"w{i}", "--host-id", f"w{i}",
                               "--threads", "1", "--memory", "256MB", "--cache", str(self.folder / "cache"), *worker])

    def run(self, name, arguments):
        def limited():
            processes.die_with_parent()
            resource.setrlimit(resource.RLIMIT_DATA, (HARD_LIMIT_BYTES, HARD_LIMIT_BYTES))
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen([self.helix] + arguments, stdin=subprocess.DEVNULL, stdout=log,
                                                    stderr=log, preexec_fn=limited)

    async def ready(self, limit_s=60):
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self.processes["coordinator"].poll() is not None:
                break
            try:
                if (await get(self.port, "/health"))[0] == 200:
                    return
            except (OSError, asyncio.IncompleteReadError, ValueError):
                pass
            await asyncio.sleep(0.1)
        raise SystemExit("the cluster was not ready:\n" + self.log("coordinator")[-3000:])

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def dead(self):
        return [f"{name} ({p.poll()})" for name, p in self.processes.items() if p.poll() is not None]

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
            process.wait()


async def exchange(port, raw, limit_s=60):
    """Sends these bytes; (status, headers, body) of what comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        for at in range(0, len(raw), 1 << 16):
            writer.write(raw[at:at + (1 << 16)])
            try:
                await writer.drain()
            except OSError:
                break  # It has said its answer already, perhaps.
        try:
            answer = await asyncio.wait_for(reader.read(-1), limit_s)
        except ConnectionResetError:
            answer = b""
    finally:
        writer.close()
    return parse(answer)


def parse(answer):
    if not answer:
        return 0, {}, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if "chunked" in headers.get("transfer-encoding", ""):
        plain, rest = b"", body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            count = int(size or b"0", 16)
            plain, rest = plain + rest[:count], rest[count + 2:]
            if count == 0:
                break
        body = plain
    return int(lines[0].split(" ")[1]), headers, body


async def get(port, path, limit_s=10):
    return await exchange(port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode(),
                          limit_s)


async def post(port, path, body, headers=(), limit_s=60):
    if not isinstance(body, bytes):
        body = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    lines = [f"POST {path} HTTP/1.1", "Connection: close", f"Content-Length: {len(body)}"]
    given = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json", **dict(headers)}
    lines += [f"{name}: {value}" for name, value in given.items()]
    return await exchange(port, ("\r\n".join(lines) + "\r\n\r\n").encode() + body, limit_s)


class Innocent:
    """One client that streams the same request again and again, and one that asks for /health."""

    BODY = {"model": "default", "prompt": "once upon a time there was a little dog", "max_tokens": 40,
            "stream": True, "ignore_eos": True, "seed": 7, "temperature": 0.7}

    def __init__(self, bed):
        self.bed = bed
        self.expected = None
        self.wrong = []
        self.streams = 0
        self.slowest_health_s = 0.0
        self.longest_gap_s = 0.0
        self.over = False

    async def learn(self):
        stream = streams.Stream(self.BODY)
        await stream.run(self.bed.port)
        if stream.error:
            raise SystemExit(f"an undisturbed request failed: {stream.error}")
        self.expected = stream.answer()

    async def ask(self):
        while not self.over:
            stream, began = streams.Stream(self.BODY), time.monotonic()
            try:
                await asyncio.wait_for(stream.run(self.bed.port), 120)
            except (OSError, asyncio.TimeoutError) as error:
                stream.error = repr(error)
            self.streams += 1
            first = stream.times[0] - began if stream.times else 0.0
            self.longest_gap_s = max(self.longest_gap_s, stream.longest_gap(), first)
            if stream.error:
                self.wrong.append(f"an innocent stream failed: {stream.error}")
            elif stream.answer() != self.expected:
                self.wrong.append(f"an innocent stream changed: {stream.answer()}")
            await asyncio.sleep(0.02)

    async def watch_health(self):
        while not self.over:
            began = time.monotonic()
            try:
                status = (await get(self.bed.port, "/health", 120))[0]
                if status != 200 and not (status == 503 and self.bed.may_pause):
                    self.wrong.append(f"/health said {status}")
            except (OSError, asyncio.TimeoutError, ValueError) as error:
                self.wrong.append(f"/health: {error!r}")
            self.slowest_health_s = max(self.slowest_health_s, time.monotonic() - began)
            await asyncio.sleep(0.05)


class Outcome:
    def __init__(self, name):
        self.name = name
        self.wrong = []
        self.health_s = self.gap_s = self.took_s = 0.0
        self.grown_mb = {}
        self.said = ""


async def attacked(bed, name, attack, budget_mb, health_limit_s):
    """Runs attack(bed) beside innocent clients. It returns a sentence about what it saw, or raises AssertionError."""
    outcome = Outcome(name)
    innocent = Innocent(bed)
    await innocent.learn()
    before = {}
    for who, process in bed.processes.items():
        reset_peak(process.pid)
        before[who] = peak_mb(process.pid)
    clients = [asyncio.create_task(innocent.ask()), asyncio.create_task(innocent.watch_health())]
    began = time.monotonic()
    await asyncio.sleep(0.2)
    try:
        outcome.said = await asyncio.wait_for(attack(bed), 240) or ""
    except AssertionError as error:
        outcome.wrong.append(str(error))
    except (OSError, asyncio.TimeoutError) as error:
        outcome.wrong.append(f"the attacker's own requests ended with {error!r}")
    innocent.over = True
    await asyncio.wait(clients, timeout=130)
    outcome.took_s = time.monotonic() - began
    outcome.health_s, outcome.gap_s = innocent.slowest_health_s, innocent.longest_gap_s
    for who, process in bed.processes.items():
        outcome.grown_mb[who] = peak_mb(process.pid) - before.get(who, 0.0)
    outcome.wrong += innocent.wrong[:3]
    if len(innocent.wrong) > 3:
        outcome.wrong.append(f"and {len(innocent.wrong) - 3} more of these")
    if innocent.streams == 0:
        outcome.wrong.append("no innocent stream came to its end")
    outcome.wrong += [f"{who} died" for who in bed.dead()]
    outcome.wrong += [f"{who} took {grown:.0f} MB more; at most {budget_mb} are allowed"
                      for who, grown in outcome.grown_mb.items() if grown > budget_mb]
    if outcome.health_s > health_limit_s:
        outcome.wrong.append(f"/health took {outcome.health_s:.2f} s; at most {health_limit_s} are allowed")
    return outcome
