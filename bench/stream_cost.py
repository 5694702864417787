#!/usr/bin/env python3
"""CPU time of the whole stack (HTTP, JSON, sampling, detokenising, scheduling) per streamed token.

usage: bench/stream_cost.py --binary build/bench/bin/helix --model stories260K.gguf [--streams 32] [--rounds 3]
           [--peer 'llama-server -m MODEL --port {port} -np 32 -c 16384'] [--json]

With a model so small that its arithmetic hardly counts. --peer: another server with the OpenAI API, started
and measured in turn on the same machine. Medians over the rounds; CPU time, so a busy machine matters little.
"""
import argparse
import http.client
import json
import os
import shlex
import statistics
import sys
import tempfile
import threading

from served import Served

TOKENS = 200


def stream(port, index, counts):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"prompt": f"Once upon a time {index}", "max_tokens": TOKENS, "stream": True,
            "temperature": 0.8, "seed": index, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"request {index}: {response.status} {response.read().decode()}")
    counts[index] = sum(line.startswith(b"data: {") for line in response)


def measure(server, streams):
    """Milliseconds of CPU per event with a token."""
    counts = [0] * streams
    began = server.cpu_seconds()
    threads = [threading.Thread(target=stream, args=(server.port, i, counts)) for i in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if min(counts) < TOKENS // 2:
        raise SystemExit(f"a stream had only {min(counts)} events")
    return 1000 * (server.cpu_seconds() - began) / sum(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-bench-") as logs:
        servers = {}
        try:
            ours = servers["helix"] = Served(os.path.join(logs, "helix.log"))
            ours.start([args.binary, "serve", "--model", args.model, "--listen", f"127.0.0.1:{ours.port}"])
            ours.wait("/health/ready", 60)
            if args.peer:
                peer = servers["peer"] = Served(os.path.join(logs, "peer.log"))
                peer.start(shlex.split(args.peer.replace("{port}", str(peer.port))))
                peer.wait("/health", 60)
            samples = {name: [] for name in servers}
            for number in range(args.rounds + 1):
                print(f"round {number}/{args.rounds}", file=sys.stderr)
                for name, server in servers.items():
                    sample = measure(server, args.streams)
                    if number > 0:  # the first warms up
                        samples[name].append(sample)
        finally:
            for server in servers.values():
                server.stop()
    middle = {name: statistics.median(values) for name, values in samples.items()}
    if args.json:
        print(json.dumps(middle))
        return
    for name, value in middle.items():
        print(f"{name:6} {value:.3f} ms CPU per streamed token, {args.streams} streams")
    if args.peer:
        print(f"ratio  {middle['peer'] / middle['helix']:.1f}")


if __name__ == "__main__":
    main()
