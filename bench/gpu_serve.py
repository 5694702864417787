#!/usr/bin/env python3
"""A device as clients meet it: time to the first token and tokens/s over HTTP, with 1 and with 64 streams.

usage: bench/gpu_serve.py --helix FILE [--device vulkan:0] [--model SHAPE:QUANT]... [--models DIR] [--record FILE]
           [--seconds 120] [--seed N] [--quick]

Makes models of a real shape with random weights in DIR, serves each on a free port of this machine, and first checks what
is promised: answers that were given alone are the same among 64. That load warms up, too. Then `helix bench` measures: so
many clients, each with one request at a time; prompts are ids drawn at random, and no prefix is kept. What there is no
time for is said. --record: appends all as one line of JSON. Exit code 1 when answers differ, a request fails or nothing
is served.
"""
import argparse
import asyncio
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from served import NotReady, Served

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "chaos"))
import streams  # noqa: E402

STREAMS = 64


class Load(NamedTuple):
    models: tuple          # (shape, quant) of each
    prompt_tokens: int
    output_tokens: int
    requests: int          # of one stream
    rounds: int            # requests of each of 64 streams, where there is time
    checked: int           # answers that are given alone, too

    def checked_output_tokens(self):
        return max(self.output_tokens // 4, 2)


FULL = Load((("llama-1b", "q8_0"), ("llama-1b", "q4_k")), 512, 128, 4, 2, 8)
QUICK = Load((("tiny", "q8_0"),), 4, 4, 2, 1, 2)


class Failed(Exception):
    """What went wrong, to be shown."""


class NoTime(Exception):
    """What was not done."""


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self, what):
        """Seconds; NoTime where there are none for this."""
        seconds = self.end - time.monotonic()
        if seconds < 1:
            raise NoTime(f"{what}: no time left")
        return seconds


def run_program(command, what, deadline):
    """What it prints. Failed when it fails, NoTime when it is stopped at the deadline."""
    limit = deadline.left(what)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=limit)
    except subprocess.TimeoutExpired:
        raise NoTime(f"{what}: stopped after {limit:.0f} s") from None
    except OSError as error:
        raise Failed(f"{what}: {error}") from None
    if done.returncode != 0:
        printed = (done.stderr.strip() or done.stdout.strip())[-1000:]
        raise Failed(f"{what}: exit code {done.returncode}\n{printed}".strip())
    return done.stdout


def make_model(helix, model, folder, deadline):
    """The path of its file in the folder, which is made when it is not there."""
    path = pathlib.Path(folder) / f"{'-'.join(model)}.gguf"
    if not path.exists():
        part = path.with_suffix(".part")
        run_program([helix, "model", "synth", "--shape", model[0], "--quant", model[1], "--seed", "1", str(part)],
                    f"helix model synth --shape {model[0]} --quant {model[1]}", deadline)
        part.rename(path)
    return str(path)


def ask(port, bodies, what, deadline):
    """The answers to these requests, all sent at once; Failed when one has none."""
    async def all_of_them():
        asked = [streams.Stream(body) for body in bodies]
        await asyncio.wait_for(asyncio.gather(*(stream.run(port) for stream in asked)), deadline.left(what))
        return asked
    try:
        asked = asyncio.run(all_of_them())
    except asyncio.TimeoutError:
        raise NoTime(f"{what}: no time left") from None
    except (OSError, ValueError) as error:
        raise Failed(f"{what}: {error}") from None
    failed = [stream.error for stream in asked if stream.error]
    if failed:
        raise Failed(f"{what}: {len(failed)} of {len(asked)} requests failed: {failed[0]}")
    return [stream.answer() for stream in asked]


def make_bodies(port, load, seed):
    """A request for each stream, with ids of any ordinary tokens; every second answer is drawn, by a seed."""
    try:
        vocabulary = int(asyncio.run(streams.get_json(port, "/v1/models"))["data"][0]["meta"]["n_vocab"])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise Failed(f"GET /v1/models does not say data[0].meta.n_vocab: {error!r}") from None
    rng = random.Random(seed)
    return [{"prompt": [rng.randrange(vocabulary // 2, vocabulary)
                        for _ in range(rng.randint((load.prompt_tokens + 1) // 2, load.prompt_tokens))],
             "max_tokens": load.checked_output_tokens(), "stream": True, "ignore_eos": True, "seed": i,
             "temperature": i % 2} for i in range(STREAMS)]


def together(port, bodies, deadline):
    """The answers to all at once, and the seconds that they took."""
    began = time.monotonic()
    answers = ask(port, bodies, f"{STREAMS} streams at once", deadline)
    return answers, time.monotonic() - began


def check(port, load, seed, deadline):
    """Answers alone are those among all. Returns the seconds of all at once."""
    bodies = make_bodies(port, load, seed)
    alone = [ask(port, [body], "answers alone", deadline)[0] for body in bodies[:load.checked]]
    among, seconds = together(port, bodies, deadline)
    for number, (one, other) in enumerate(zip(alone, among)):
        if one != other:
            raise Failed(f"answer {number} is {one} alone and {other} among {STREAMS}; its request: "
                         f"{json.dumps(bodies[number])}")
    return seconds


def rounds_in_time(load, seconds, deadline):
    """How many requests each of 64 streams may send, when 64 short answers at once took these seconds."""
    what = f"{STREAMS} streams"
    left = deadline.left(what)
    each = seconds * load.output_tokens / load.checked_output_tokens()
    if each > left:
        raise NoTime(f"{what}: up to {each:.0f} s needed, {left:.0f} s left")
    return min(load.rounds, int(left / each))


def measure(helix, port, num_streams, requests, load, seed, deadline):
    """A row of the table, as what `helix bench` says of that load."""
    options = {"--url": f"http://127.0.0.1:{port}", "--concurrency": num_streams, "--requests": requests, "--seed": seed,
               "--prompt-tokens": load.prompt_tokens, "--output-tokens": load.output_tokens}
    said = json.loads(run_program(
        [helix, "bench", "--json"] + [str(part) for option in options.items() for part in option],
        f"{num_streams} stream{'s' if num_streams > 1 else ''}", deadline))
    per_token_s = said["tpot_per_request_s"]["mean"]
    return {"streams": num_streams, "prompt_tokens": load.prompt_tokens, "output_tokens": load.output_tokens,
            "requests": said["requests"]["counted"], "failed": said["requests"]["failed"],
            "wrong_length": said["requests"]["wrong_length"], "errors": said["errors"],
            "ttft_p50_s": said["ttft_s"]["p50"], "ttft_p99_s": said["ttft_s"]["p99"],
            "tokens_per_s": said["output_tokens_per_s"],
            "stream_tokens_per_s": 1 / per_token_s if per_token_s > 0 else None}


def wait(server, path, what, deadline):
    """Until it answers. Failed when it ends or needs more than a minute."""
    most = 60
    limit = min(most, deadline.left(what))
    try:
        server.wait(path, limit)
    except NotReady as error:
        if error.ended or limit == most:
            raise Failed(error.trouble) from None
        raise NoTime(f"{what}: did not answer within the {limit:.0f} s that were left") from None


def measure_all(helix, port, load, together_s, seed, deadline):
    """The rows of 1 and of 64 streams, each when it is there."""
    yield measure(helix, port, 1, load.requests, load, seed, deadline)
    requests = STREAMS * rounds_in_time(load, together_s, deadline)
    yield measure(helix, port, STREAMS, requests, load, seed + 1, deadline)


HEAD = ("| {} | streams | requests | first token, median | first token, p99 | tokens/s | tokens/s a stream, after the first |"
        " failed |\n|---|---|---|---|---|---|---|---|")


def row_text(name, row):
    stream = "-" if row["stream_tokens_per_s"] is None else f"{row['stream_tokens_per_s']:.1f}"
    wrong = f", {row['wrong_length']} of a wrong length" if row["wrong_length"] else ""
    return (f"| {name} | {row['streams']} | {row['requests']} | {1e3 * row['ttft_p50_s']:.1f} ms "
            f"| {1e3 * row['ttft_p99_s']:.1f} ms | {row['tokens_per_s']:.1f} | {stream} | {row['failed']}{wrong} |")


def serve_model(args, model, load, deadline, record):
    """Serves it, checks, measures; fills the record."""
    path = make_model(args.helix, model, args.models, deadline)
    name = " ".join(model)
    with tempfile.TemporaryDirectory(prefix="helix-serve-") as folder:
        server = Served(os.path.join(folder, "serve.log"))
        try:
            server.start([args.helix, "serve", "--model", path, "--device", args.device, "--no-prefix-cache",
                          "--listen", f"127.0.0.1:{server.port}"])
            wait(server, "/health/ready", "helix serve", deadline)
            together_s = check(server.port, load, args.seed, deadline)
            record["same_answers"] = load.checked
            print(f"{name}: {load.checked} answers that were given alone are the same among {STREAMS}\n\n"
                  f"{HEAD.format('model')}", flush=True)
            for row in measure_all(args.helix, server.port, load, together_s, args.seed, deadline):
                record["runs"].append(row)
                print(row_text(name, row), flush=True)
                if row["failed"] or row["wrong_length"]:
                    raise Failed(f"{row['failed']} requests failed, {row['wrong_length']} had a wrong length: "
                                 f"{row['errors']}")
        except Failed as error:
            raise Failed(f"{error}\nhelix serve printed:\n{server.printed()}") from None
        finally:
            server.stop()


def append(path, record):
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def version(helix):
    return subprocess.run([helix, "--version"], check=True, capture_output=True, text=True).stdout.strip()


def common_options(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helix", required=True)
    parser.add_argument("--device", default="vulkan:0")
    parser.add_argument("--model", action="append", type=shape_and_quant, metavar="SHAPE:QUANT",
                        help="as `helix model synth` takes them [llama-1b:q8_0 and llama-1b:q4_k]")
    parser.add_argument("--models", help="folder of the models, which stay there [a temporary one]")
    parser.add_argument("--record")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    return parser


def shape_and_quant(text):
    shape, _, quant = text.partition(":")
    if not shape or not quant:
        raise argparse.ArgumentTypeError(f"{text!r} is no SHAPE:QUANT, like llama-3-8b:q8_0")
    return shape, quant


def load_of(args):
    load = QUICK if args.quick else FULL
    return load._replace(models=tuple(args.model)) if args.model else load


def prepare(args, folder):
    """Whatever ends this script ends what it started, and only what is said here is asked of the server."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    os.environ.pop("HELIX_API_KEY", None)
    os.environ.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
    args.models = args.models or folder


def main():
    args = common_options(__doc__).parse_args()
    load, deadline = load_of(args), Deadline(args.seconds)
    record = {"kind": "served", "device": args.device, "helix": version(args.helix), "seed": args.seed,
              "quick": args.quick, "models": [], "skipped": []}
    with tempfile.TemporaryDirectory(prefix="helix-models-") as folder:
        prepare(args, folder)
        try:
            for model in load.models:
                record["models"].append({"model": " ".join(model), "runs": []})
                try:
                    serve_model(args, model, load, deadline, record["models"][-1])
                except NoTime as missed:
                    record["skipped"].append(f"{' '.join(model)}, {missed}")
                    print(f"skipped: {record['skipped'][-1]}")
                print(flush=True)
        except Failed as error:
            record["error"] = str(error)
            sys.exit(f"{' '.join(model)}: {error}")
        finally:
            append(args.record, record)


if __name__ == "__main__":
    main()
