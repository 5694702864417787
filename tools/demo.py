#!/usr/bin/env python3
"""Shows Helix at work on this machine: one coordinator and three unequal workers, all processes of their own.

    tools/demo.py [--check] [--model FILE] [--binary HELIX]

Starts the cluster, prints the plan, asks three questions through the OpenAI API, prints the answers as
they arrive and the pipeline that each took, kills a worker in the middle of an answer and lets it come
back, and leaves the cluster running until Ctrl-C. With --check it
asks each question twice, verifies all of it and ends. Standard library only.
"""

from __future__ import annotations

import argparse
import ctypes
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO_MODEL = ROOT / "models" / "helix-demo.gguf"
START_LIMIT_S = 60   # to be ready, and more for the transfer of large weights:
SLOWEST_LOAD = 20e6  # bytes per second
MOST_ROUNDS = 4      # of asking again until every worker has taken part
DEMO_QUESTIONS = ["What is a pipeline?", "Why does a large model need several machines?",
                  "Tell me a story about a robot."]
OTHER_QUESTIONS = ["In one sentence: what is a pipeline?", "Name three animals that can fly.",
                   "Tell me a very short story about a robot."]
TEXT_STARTS = ["Once upon a time", "One day, a little fox", "The big machine and the small machine"]
ASCII = str.maketrans({"█": "#", "·": ".", "→": ">", "…": "~", "–": "-", "’": "'", "“": '"', "”": '"'})


class DemoError(Exception):
    """Something a person should read; the message says what to do."""


class WorkerShape(NamedTuple):
    name: str
    layer_share: float  # of the model's layers, for which it gets memory
    speed: float        # share of a core that it may use


WORKERS = [WorkerShape("big", 0.6, 1.0), WorkerShape("medium", 0.45, 0.7), WorkerShape("small", 0.35, 0.5)]
KV_TOKENS = 1024    # of context that a worker's memory has room for, besides its layers
KILL_AT = 12        # pieces of the answer in which a worker is killed
BACK_AFTER_S = 1.0  # it is started again
SPARE_AFTER_S = 4   # without layers it is a spare
MOST_MEMORY = 0.95  # of the weights: no worker alone can hold the model


# ---- what is printed -----------------------------------------------------------------------------
class Screen:
    """Plain text everywhere; colours only on a terminal that has them and unless NO_COLOR is set."""

    def __init__(self) -> None:
        self.colours = (sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
                        and "NO_COLOR" not in os.environ)
        encoding = (sys.stdout.encoding or "ascii").lower()
        self.unicode = "utf" in encoding
        self.width = min(100, shutil.get_terminal_size((80, 24)).columns)

    def paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colours else text

    def fit(self, text: str) -> str:
        """The text in characters that this terminal has."""
        return text if self.unicode else text.translate(ASCII).encode("ascii", "replace").decode()

    def line(self, text: str = "") -> None:
        print(self.fit(text), flush=True)

    def title(self, text: str) -> None:
        self.line()
        self.line(self.paint("1", text))


class Wrapper:
    """Prints text as it arrives, breaking lines at spaces."""

    def __init__(self, screen: Screen, indent: str) -> None:
        self.screen, self.indent, self.column, self.word = screen, indent, 0, ""

    def push(self, text: str) -> None:
        for char in text:
            if char in " \n":
                self._word()
                if char == "\n":
                    self._raw("\n")
                    self.column = 0
                elif self.column:
                    self.column += 1
                    self._raw(" ")
            else:
                self.word += char
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """On a line of its own, between two words."""
        self._word()
        self._raw("\n" + self.indent + self.screen.paint("1;31", text) + "\n")
        self.column = 0
        sys.stdout.flush()

    def end(self) -> None:
        self._word()
        self._raw("\n")
        sys.stdout.flush()

    def _word(self) -> None:
        if self.column and self.column + len(self.word) > self.screen.width - len(self.indent):
            self._raw("\n")
            self.column = 0
        if self.word and not self.column:
            self._raw(self.indent)
        self._raw(self.word)
        self.column += len(self.word)
        self.word = ""

    def _raw(self, text: str) -> None:
        sys.stdout.write(self.screen.fit(text))


# ---- the cluster's processes ---------------------------------------------------------------------
def die_with_parent() -> None:
    """In the child: a SIGKILL of this script ends the cluster too (Linux)."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (OSError, AttributeError):
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Processes:
    def __init__(self, helix: str) -> None:
        self.helix = helix
        self.folder: Optional[pathlib.Path] = None  # of the logs, made with the first process
        self.keep_logs = False
        self.running: Dict[str, subprocess.Popen] = {}

    def start(self, name: str, arguments: List[str], delay_s: float = 0) -> None:
        if self.folder is None:
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="helix-demo-"))
        with open(self.folder / f"{name}.log", "a", encoding="utf-8") as log:
            log.write("$ helix " + " ".join(arguments) + "\n")
            log.flush()
            # Each process has a session of its own, so that Ctrl-C reaches this script first and it
            # can end them in order.
            later = ["sh", "-c", f'sleep {delay_s}; exec "$0" "$@"'] if delay_s else []
            self.running[name] = subprocess.Popen(
                later + [self.helix] + arguments, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def log(self, name: str) -> str:
        assert self.folder is not None
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def check(self) -> None:
        for name, process in self.running.items():
            code = process.poll()
            if code is not None:
                tail = "\n".join("    " + line for line in self.log(name).splitlines()[-12:])
                raise DemoError(f"{name} ended early with exit code {code}. Its last words:\n{tail}")

    def stop(self) -> None:
        for process in reversed(list(self.running.values())):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + 5
        for process in self.running.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()
        if self.folder is not None and not self.keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)


# ---- the API -------------------------------------------------------------------------------------
class Answer(NamedTuple):
    id: str
    text: str
    finish: str
    tokens: int
    ttft_s: float
    tokens_per_s: float
    longest_gap_s: float


class Api:
    def __init__(self, port: int, chat: bool) -> None:
        self.port, self.chat = port, chat

    def get(self, path: str, timeout_s: float = 5) -> Any:
        body = self.get_text(path, timeout_s)
        return json.loads(body) if body.strip() else {}

    def get_text(self, path: str, timeout_s: float = 5) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read().decode("utf-8", errors="replace")
            if response.status != 200:
                raise DemoError(f"GET {path} answered {response.status}: {body[:300]}")
            return body
        finally:
            connection.close()

    def ask(self, question: str, limit: int, wrapper: Optional[Wrapper],
            on_piece: Optional[Callable[[int, str], None]] = None) -> Answer:
        """One streamed, greedy completion, printed as it comes; of a chat if the model has a template. on_piece is
        told how many pieces of text have come, and the request's id."""
        body: Dict[str, Any] = {"model": self.model(), "stream": True, "temperature": 0, "max_tokens": limit,
                                "stream_options": {"include_usage": True}}
        if self.chat:
            body["messages"] = [{"role": "user", "content": question}]
        else:
            body["prompt"] = question
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        began = time.monotonic()
        first = last = gap = 0.0
        pieces = 0
        text, finish, tokens, id_, done = "", "", 0, "", False
        try:
            connection.request("POST", "/v1/chat/completions" if self.chat else "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise DemoError(f"the request was answered with {response.status}: "
                                f"{response.read().decode(errors='replace')[:400]}")
            for raw in response:
                line = raw.decode("utf-8").strip()
                if not line.startswith("data:"):
                    continue
                if line == "data: [DONE]":
                    done = True
                    break
                chunk = json.loads(line[5:])
                if "error" in chunk:
                    raise DemoError(f"the stream ended with an error: {chunk['error'].get('message')}")
                id_ = chunk.get("id", id_)
                if chunk.get("usage"):
                    tokens = chunk["usage"]["completion_tokens"]
                for choice in chunk.get("choices", []):
                    piece = (choice.get("delta", {}).get("content") if self.chat else choice.get("text")) or ""
                    finish = choice.get("finish_reason") or finish
                    if piece:
                        now = time.monotonic()
                        gap = max(gap, now - last) if last else 0.0
                        last, first, pieces = now, first or now, pieces + 1
                        text += piece
                        if wrapper:
                            wrapper.push(piece)
                        if on_piece:
                            on_piece(pieces, id_)
        finally:
            connection.close()
            if wrapper:
                wrapper.end()
        if not done:
            raise DemoError("the stream broke off before its end")
        rate = (tokens - 1) / (last - first) if tokens > 1 and last > first else 0.0
        return Answer(id_, text, finish, tokens, (first or time.monotonic()) - began, rate, gap)

    def model(self) -> str:
        return str(self.get("/v1/models")["data"][0]["id"])


# ---- the demo ------------------------------------------------------------------------------------
def model_info(helix: str, model: str) -> Dict[str, Any]:
    done = subprocess.run([helix, "model", "info", "--json", model], capture_output=True, text=True)
    if done.returncode != 0:
        raise DemoError(done.stderr.strip() or f"{model} cannot be read")
    info: Dict[str, Any] = json.loads(done.stdout)
    if not info.get("runnable"):
        raise DemoError(f"{model}: Helix cannot run this model (see 'helix model info')")
    layers = info["config"]["layers"]
    if layers < len(WORKERS):
        raise DemoError(f"{model} has {layers} layers; the demo spreads a model over {len(WORKERS)} workers")
    return info


def worker_memory(info: Dict[str, Any]) -> List[int]:
    """Bytes for each of WORKERS: its share of the layers, their KV cache, and the larger end of the model."""
    spec, layers = info["spec"], info["config"]["layers"]
    whole = layers * spec["layer_bytes"] + spec["embedding_bytes"] + spec["head_bytes"]
    per_layer = spec["layer_bytes"] + KV_TOKENS * spec["kv_bytes_per_token_layer"]
    ends = max(spec["embedding_bytes"], spec["head_bytes"])
    return [int(min(MOST_MEMORY * whole, shape.layer_share * layers * per_layer + ends)) for shape in WORKERS]


class Demo:
    def __init__(self, helix: str, model: str, check: bool) -> None:
        self.screen, self.check, self.model = Screen(), check, model
        self.info = model_info(helix, model)
        self.ours = pathlib.Path(model).resolve() == DEMO_MODEL.resolve()
        self.port = free_port()
        self.api = Api(self.port, bool(self.info["chat_template"]))
        self.processes = Processes(helix)
        most = 160 if self.ours else 120
        self.limit = min(most, self.info["config"]["context_length"] // 2)  # tokens of an answer
        self.used: Dict[str, int] = {}
        self.workers: Dict[str, List[str]] = {}  # their command lines
        self.page = f"http://127.0.0.1:{self.port}/#/cluster"

    def run(self) -> None:
        began = time.monotonic()
        self.start()
        self.wait_ready()
        self.screen.line(f"Ready after {time.monotonic() - began:.1f} s.")
        self.show_plan()
        questions = DEMO_QUESTIONS if self.ours else OTHER_QUESTIONS if self.api.chat else TEXT_STARTS
        answers = [self.question(q) for q in questions]
        longest = max(range(len(answers)), key=lambda i: answers[i].tokens)
        if answers[longest].tokens > 2 * KILL_AT:
            self.lose_a_worker(questions[longest], answers[longest])
        else:
            self.screen.line(f"\nThe answers are too short (under {2 * KILL_AT} tokens) to kill a worker in their midst.")
        if self.check:
            self.verify(questions, answers)
            self.screen.title("All checks passed.")
            return
        self.stay(questions[longest], answers[longest])

    def start(self) -> None:
        address = f"127.0.0.1:{self.port}"
        size = pathlib.Path(self.model).stat().st_size
        self.screen.title("Helix demo: one coordinator and three unequal workers")
        self.screen.line(f"model   {self.model} ({size / 1e6:.1f} MB)")
        self.screen.line(f"page    {self.page}  shows all that happens here, as it happens")
        self.processes.start("coordinator", [
            "serve", "--no-worker", "--min-workers", str(len(WORKERS)), "--model", self.model,
            "--listen", address])
        threads = 1 if self.ours else max(1, (os.cpu_count() or 1) // len(WORKERS))
        for shape, memory in zip(WORKERS, worker_memory(self.info)):
            self.screen.line(f"worker  {shape.name:<8} {memory / 1e6:8.1f} MB of memory, speed x{shape.speed:g}")
            self.workers[shape.name] = [
                "worker", "--join", address, "--name", shape.name, "--memory", str(memory),
                "--threads", str(threads), "--speed", f"{shape.speed:g}", "--cache", "none"]
            self.processes.start(shape.name, self.workers[shape.name])

    def wait_ready(self) -> None:
        limit_s = START_LIMIT_S + self.info["bytes"] / SLOWEST_LOAD
        deadline = time.monotonic() + limit_s
        seen = "no answer yet"
        while time.monotonic() < deadline:
            self.processes.check()
            try:
                cluster = self.api.get("/helix/cluster")
                ready = [w["name"] for w in cluster["workers"] if w["ready"]]
                if cluster["serving"] and len(ready) == len(WORKERS):
                    return
                seen = f"workers ready: {', '.join(ready) or 'none'}"
            except (OSError, http.client.HTTPException, DemoError) as error:
                seen = str(error)
            time.sleep(0.1)
        raise DemoError(f"the cluster was not ready after {limit_s:.0f} s ({seen})")

    def show_plan(self) -> None:
        self.screen.title("The plan: which worker runs which layers")
        self.screen.line(self.api.get_text("/helix/plan").rstrip())

    def question(self, question: str) -> Answer:
        self.screen.title("> " + question)
        answer = self.api.ask(question, self.limit, Wrapper(self.screen, "  "))
        self.processes.check()
        self.screen.line(self.screen.paint(
            "2", f"  {answer.tokens} tokens, first after {answer.ttft_s * 1000:.0f} ms, "
                 f"then {answer.tokens_per_s:.0f} tokens/s"))
        self.screen.line(self.screen.paint("2", "  pipeline: " + self.pipeline(answer)))
        return answer

    def lose_a_worker(self, question: str, before: Answer) -> None:
        """The question once more; the last worker of its pipeline is killed meanwhile, and comes back."""
        self.screen.title("> " + question + "   (again; a worker will be killed in the middle of the answer)")
        wrapper = Wrapper(self.screen, "  ")
        killed: List[str] = []

        def on_piece(pieces: int, id_: str) -> None:
            if pieces != KILL_AT:
                return
            killed.append(self.stages(id_)[-1][0])
            self.processes.kill(killed[0])
            wrapper.note(f"--- worker {killed[0]} is killed here (SIGKILL) ---")
            self.processes.start(killed[0], self.workers[killed[0]], BACK_AFTER_S)

        answer = self.api.ask(question, self.limit, wrapper, on_piece)
        if not killed:
            raise DemoError(f"the answer to '{question}' was over before a worker could be killed")
        if answer.text != before.text:
            raise DemoError(f"after the death of {killed[0]} the answer differs:\n  {before.text!r}\n  {answer.text!r}")
        self.screen.line(self.screen.paint("2", f"  the same {answer.tokens} tokens as before, none repeated or skipped; "
                                                f"the longest pause was {answer.longest_gap_s:.1f} s"))
        self.screen.line(self.screen.paint("2", "  pipeline at the end: " + self.pipeline(answer)))
        self.wait_back(killed[0])

    def wait_back(self, name: str) -> None:
        """Until the worker has joined again; it gets layers where the plan gains by it."""
        deadline = time.monotonic() + START_LIMIT_S
        joined = 0.0
        while time.monotonic() < deadline:
            self.processes.check()
            workers = self.api.get("/helix/cluster")["workers"]
            here = [w for w in workers if w["name"] == name]
            joined = joined or (time.monotonic() if here else 0.0)
            placed = bool(here) and here[0]["ready"] and here[0]["layers"][0] < here[0]["layers"][1]
            if placed or (joined and time.monotonic() - joined > SPARE_AFTER_S):
                holds = ", ".join(f"{w['name']} [{layers_text(*w['layers'])}]" if w["ready"] else f"{w['name']} [spare]"
                                  for w in workers)
                self.screen.line(self.screen.paint("2", f"  worker {name} is back: {holds}"))
                return
            time.sleep(0.1)
        raise DemoError(f"worker {name} did not come back")

    def stages(self, id_: str) -> List[Any]:
        """(worker's name, layers) of the pipeline that the request runs on, or ran on last."""
        cluster = self.api.get("/helix/cluster")
        names = {w["id"]: w["name"] for w in cluster["workers"]}
        for record in cluster["requests"]:
            if record["id"] == id_:
                return [(names.get(s["worker"], str(s["worker"])), s["layers"]) for s in record["pipeline"]]
        raise DemoError(f"the coordinator does not list request {id_}")

    def pipeline(self, answer: Answer) -> str:
        """As text; also counts the workers that took part."""
        stages = self.stages(answer.id)
        for name, _ in stages:
            self.used[name] = self.used.get(name, 0) + 1
        return " -> ".join(f"{name} [{layers_text(*layers)}]" for name, layers in stages)

    def verify(self, questions: List[str], answers: List[Answer]) -> None:
        self.screen.title("Checks")
        for question, answer in zip(questions, answers):
            words = re.findall(r"[A-Za-z]+", answer.text)
            if answer.finish not in ("stop", "length"):
                raise DemoError(f"the answer to '{question}' ended with '{answer.finish}'")
            if self.ours and (len(words) < 8 or not answer.text.isascii()):
                raise DemoError(f"the answer to '{question}' is no English sentence: {answer.text!r}")
            if not answer.text.strip():
                raise DemoError(f"the answer to '{question}' is empty")
        self.screen.line("  the answers are text")
        rounds = 0
        while rounds == 0 or (rounds < MOST_ROUNDS and len(self.used) < len(WORKERS)):
            rounds += 1
            for question, answer in zip(questions, answers):
                again = self.api.ask(question, self.limit, None)
                if again.text != answer.text:
                    raise DemoError(f"two greedy answers to '{question}' differ:\n  {answer.text!r}\n  {again.text!r}")
                self.pipeline(again)
        self.screen.line("  they come out the same when asked again, whatever pipeline they take")
        idle = [shape.name for shape in WORKERS if shape.name not in self.used]
        if idle:
            raise DemoError(f"no request went through: {', '.join(idle)}")
        self.screen.line("  every worker took part: "
                         + ", ".join(f"{n} in {c} answers" for n, c in sorted(self.used.items())))
        self.processes.check()
        self.screen.line("  all processes are alive")

    def stay(self, question: str, answer: Answer) -> None:
        url = f"http://127.0.0.1:{self.port}"
        body: Dict[str, Any] = {"model": self.api.model(), "stream": True}
        if self.api.chat:
            body["messages"] = [{"role": "user", "content": "What is the KV cache?"}]
        else:
            body["prompt"] = "Once upon a time"
        path = "/v1/chat/completions" if self.api.chat else "/v1/completions"
        self.screen.title(f"The cluster is running - Ctrl-C ends it. Chat with it in a browser: {url}")
        self.screen.line(f"Try:\n  curl -N {url}{path} -H 'Content-Type: application/json' \\\n"
                         f"    -d '{json.dumps(body)}'\n  curl {url}/helix/plan\n  curl {url}/helix/cluster")
        again = sys.stdin.isatty() and answer.tokens > 2 * KILL_AT
        if again:
            self.screen.line(f"Enter kills a worker once more, in the middle of an answer: watch {self.page} meanwhile.")
        while True:
            if not again:
                time.sleep(1)
            elif select.select([sys.stdin], [], [], 1)[0]:
                again = sys.stdin.readline() != ""
                if again:
                    self.lose_a_worker(question, answer)
            self.processes.check()


def layers_text(begin: int, end: int) -> str:
    return f"layer {begin}" if end == begin + 1 else f"layers {begin}-{end - 1}"


def find_helix(given: Optional[str]) -> str:
    choices = [given] if given else [str(ROOT / "build" / kind / "bin" / "helix") for kind in ("release", "dev")]
    for choice in choices:
        if os.access(choice, os.X_OK):
            return choice
    raise DemoError("no helix program at " + " or ".join(choices) + "; build it first: "
                    "cmake --preset release && cmake --build --preset release")


def parse_arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="verify everything and end")
    options.add_argument("--model", default=os.environ.get("MODEL") or str(DEMO_MODEL),
                         help="a GGUF file [$MODEL, else the demo model of the repository]")
    options.add_argument("--binary", help="the helix program [build/release/bin/helix]")
    return options.parse_args()


def interrupted(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    args = parse_arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    demo: Optional[Demo] = None
    try:
        if not os.path.isfile(args.model):
            raise DemoError(f"there is no model file {args.model}")
        demo = Demo(find_helix(args.binary), args.model, args.check)
        demo.run()
        return 0
    except KeyboardInterrupt:
        print("\nStopping the cluster.", flush=True)
        return 130 if args.check else 0
    except (DemoError, OSError, http.client.HTTPException, ValueError, KeyError) as error:
        print(f"\ndemo: {type(error).__name__ + ': ' if not isinstance(error, DemoError) else ''}{error}",
              file=sys.stderr, flush=True)
        if demo is not None and demo.processes.folder is not None:
            print(f"demo: the processes' logs are in {demo.processes.folder}", file=sys.stderr, flush=True)
            demo.processes.keep_logs = True
        return 1
    finally:
        if demo is not None:
            demo.processes.stop()


if __name__ == "__main__":
    sys.exit(main())
