#!/usr/bin/env python3
"""What processes that serve a model keep in memory: peak and steady state, beside what they need.

usage: bench/memory.py --helix build/bench/bin/helix [--tokens N] [--ways serve,file,cache,wire] MODEL...

serve: one process that coordinates and computes. The others are a coordinator and a worker, which has a file of its
own, gets the weights over the wire into its cache on disk, or keeps none there. After a prompt of about N words and
an answer of 16 tokens, /proc/PID/status: VmHWM is the peak, RssAnon memory of its own (packed weights, KV pages that
were used), RssFile mapped files (of the model, and the program itself). All in MB.
"""
import argparse
import http.client
import json
import os
import tempfile

from served import Served

COLUMNS = ("VmHWM", "VmRSS", "RssAnon", "RssFile")


def memory_mb(pid):
    found = {}
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            name, _, rest = line.partition(":")
            if name in COLUMNS:
                found[name] = int(rest.split()[0]) * 1024 / 1e6
    return found


def complete(server, words):
    body = json.dumps({"prompt": "one two " * (words // 2), "max_tokens": 16, "temperature": 0})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{answer.status}: {text.decode()}")
    return json.loads(text)["usage"]["total_tokens"]


def run(args, model, way, folder):
    server = Served(os.path.join(folder, f"{way}.log"))
    command = [args.helix, "serve", "--model", model, "--listen", f"127.0.0.1:{server.port}", "--context", "2048",
               "--memory", args.memory]
    server.start(command + (["--no-worker"] if way != "serve" else []))
    names = ["coordinator and worker"]
    if way != "serve":
        names = ["coordinator", f"worker, {way}"]
        server.wait("/health/live", 120)
        worker = [args.helix, "worker", "--join", f"127.0.0.1:{server.port}", "--memory", args.memory]
        worker += {"file": ["--model", model], "cache": ["--cache", os.path.join(folder, "cache")],
                   "wire": ["--cache", "none"]}[way]
        server.start(worker)
    try:
        server.wait("/health/ready", 300)
        tokens = complete(server, args.tokens)
        for name, process in zip(names, server.processes):
            found = memory_mb(process.pid)
            cells = [os.path.basename(model.rstrip("/")), name, str(tokens)]
            cells += [f"{found[column]:.0f}" for column in COLUMNS]
            size = os.path.getsize(model) if os.path.isfile(model) else 0
            cells.append(f"{found['VmRSS'] * 1e6 / size:.2f}" if size > 0 else "")
            print("| " + " | ".join(cells) + " |", flush=True)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helix", required=True)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--ways", default="serve,file,cache,wire")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    print("| model | process | tokens | " + " | ".join(COLUMNS) + " | VmRSS / file |")
    print("| --- " * (4 + len(COLUMNS)) + "|")
    for model in args.models:
        for way in args.ways.split(","):
            with tempfile.TemporaryDirectory(prefix="helix-memory-") as folder:
                run(args, model, way, folder)


if __name__ == "__main__":
    main()
