#!/usr/bin/env python3
"""What a gateway costs while nothing fails, and how many streams four of them hold.

usage: bench/gateway.py --binary build/bench/bin/helix --model FILE.gguf [--concurrency 16] [--requests 64] [--rounds 7] [--json]
       bench/gateway.py --binary build/bench/bin/helix --model FILE.gguf --streams 10000 [--output-tokens 40] [--json]

Without --streams: one process that serves and computes, asked directly and through a gateway, which is a second process, in turns, by
`helix bench` on the same machine: tokens/s, and CPU time per streamed token of both processes. Each round gives a ratio and a
difference; the figures are medians over the rounds, so a busy machine hits both alike.

With --streams: one process that serves and computes, and four gateways, each asked for a quarter of the streams at once by a
`helix bench` of its own. Every stream has to be complete. Tokens/s of all, the seconds to the first token, how many streams ran at
once at most, CPU time per streamed token, and memory.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from served import Served

GATEWAYS = 4
PROMPT_TOKENS = 16


class Gateway(Served):
    def __init__(self, args, coordinator, logs, name):
        super().__init__(os.path.join(logs, f"{name}.log"))
        self.start([args.binary, "gateway", "--join", f"127.0.0.1:{coordinator.port}", "--listen", f"127.0.0.1:{self.port}", "--name", name])
        self.wait("/health/ready", 60)


class Load:
    """A `helix bench` that runs."""

    def __init__(self, args, url, concurrency, requests):
        self.process = subprocess.Popen(
            [args.binary, "bench", "--url", url, "--concurrency", str(concurrency), "--requests", str(requests), "--json",
             "--prompt-tokens", str(PROMPT_TOKENS), "--output-tokens", str(args.output_tokens)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def report(self):
        out, errors = self.process.communicate()
        if self.process.returncode != 0:
            raise SystemExit(f"helix bench: {errors}{out}")
        report = json.loads(out)
        if report["requests"]["failed"] or report["requests"]["wrong_length"]:
            raise SystemExit(f"not every answer is whole: {report['requests']} {report['errors']}")
        return report


def cost(args, logs):
    """Per round: tokens/s and milliseconds of CPU per token, directly and through the gateway."""
    with contextlib.ExitStack() as stack:
        server = Served(os.path.join(logs, "server.log"))
        stack.callback(server.stop)
        server.start([args.binary, "serve", "--model", args.model, "--listen", f"127.0.0.1:{server.port}"])
        server.wait("/health/ready", 60)
        gateway = Gateway(args, server, logs, "gate")
        stack.callback(gateway.stop)

        def measure(url):
            began = server.cpu_seconds(), gateway.cpu_seconds()
            report = Load(args, url, args.concurrency, args.requests).report()
            own = gateway.cpu_seconds() - began[1]
            spent = server.cpu_seconds() - began[0] + own
            tokens = args.requests * args.output_tokens
            return report["output_tokens_per_s"], 1000 * spent / tokens, 1000 * own / tokens

        rounds = []
        for number in range(args.rounds + 1):
            print(f"round {number}/{args.rounds}", file=sys.stderr)
            sides = [("direct", server.url), ("gateway", gateway.url)]
            found = dict((name, measure(url)) for name, url in (sides if number % 2 else reversed(sides)))
            if number > 0:  # the first warms up
                rounds.append(found)
    middle = statistics.median
    return {
        "model": os.path.basename(args.model), "concurrency": args.concurrency, "rounds": args.rounds,
        **{f"{name}_tokens_per_s": middle(one[name][0] for one in rounds) for name in ("direct", "gateway")},
        **{f"{name}_cpu_ms_per_token": middle(one[name][1] for one in rounds) for name in ("direct", "gateway")},
        "gateways_own_cpu_ms_per_token": middle(one["gateway"][2] for one in rounds),
        "tokens_per_s_ratio": middle(one["gateway"][0] / one["direct"][0] for one in rounds),
        "more_cpu_ms_per_token": middle(one["gateway"][1] - one["direct"][1] for one in rounds)}


def rss_mb(served):
    pages = 0
    for process in served.processes:
        with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def many(args, logs):
    with contextlib.ExitStack() as stack:
        server = Served(os.path.join(logs, "server.log"))
        stack.callback(server.stop)
        server.start([args.binary, "serve", "--model", args.model, "--listen", f"127.0.0.1:{server.port}", "--max-waiting", str(2 * args.streams), "--memory", args.memory])
        server.wait("/health/ready", 60)
        gateways = [Gateway(args, server, logs, f"gate{number}") for number in range(GATEWAYS)]
        for gateway in gateways:
            stack.callback(gateway.stop)

        def spent():
            return {"server": server.cpu_seconds(), "gateways": sum(one.cpu_seconds() for one in gateways)}

        before, began = spent(), time.monotonic()
        loads = [Load(args, gateway.url, args.streams // GATEWAYS, args.streams // GATEWAYS) for gateway in gateways]
        most_running = 0
        while any(load.process.poll() is None for load in loads):
            with contextlib.suppress(OSError), urllib.request.urlopen(server.url + "/helix/cluster", timeout=60) as answer:
                most_running = max(most_running, json.load(answer)["running"])
            time.sleep(1)
        reports = [load.report() for load in loads]
        seconds, tokens = time.monotonic() - began, args.streams * args.output_tokens
        return {
            "streams": args.streams, "gateways": GATEWAYS, "output_tokens": args.output_tokens, "seconds": seconds,
            "tokens_per_s": tokens / seconds, "most_running": most_running,
            "first_token_s": {name: max(one["ttft_s"][name] for one in reports) for name in ("p50", "p99", "max")},
            "cpu_ms_per_token": {name: 1000 * (value - before[name]) / tokens for name, value in spent().items()},
            "memory_mb": {"server": rss_mb(server), "gateway": max(rss_mb(one) for one in gateways)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--streams", type=int)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--memory", default="8GB", help="of the server, with --streams")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-bench-") as logs:
        print(json.dumps(cost(args, logs) if args.streams is None else many(args, logs), indent=1))


if __name__ == "__main__":
    main()
