#!/usr/bin/env python3
"""Tokens/s and TTFT of one process against three workers on the same cores, side by side.

usage: bench/serve.py --binary build/release/bin/helix --model FILE.gguf [--rounds 3] [--json]

Both clusters are up at the same time and measured in turn, so that a busy machine hits both alike; the
figures are medians over the rounds. Three workers: same cores, same number of threads each, memory limits
under which no one of them can hold the model.
"""
import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time

from served import Served

PROMPT_TOKENS = 32
OUTPUT_TOKENS = 48


class Cluster(Served):
    """`helix serve`, with workers of its own or three others."""

    def __init__(self, binary, model, logs, name, workers, memory, threads):
        super().__init__(os.path.join(logs, name + ".log"))
        serve = [binary, "serve", "--model", model, "--listen", f"127.0.0.1:{self.port}"]
        if workers:
            serve += ["--no-worker", "--min-workers", str(workers)]
        else:
            serve += ["--threads", str(threads)]
        self.start(serve)
        self.wait("/health/live", 30)
        for index in range(workers):
            self.start([binary, "worker", "--join", f"127.0.0.1:{self.port}", "--name", f"w{index}",
                        "--model", model, "--threads", str(threads), "--memory", str(memory)])
        self.wait("/health/ready", 180)


def one_request(port, index, results):
    body = json.dumps({"prompt": [3 + (index * 7919 + i * 31) % 500 for i in range(PROMPT_TOKENS)],
                       "max_tokens": OUTPUT_TOKENS, "temperature": 0, "ignore_eos": True,
                       "stream": True, "stream_options": {"include_usage": True}})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    began = time.time()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        results.append(RuntimeError(response.read().decode()))
        return
    first, tokens = None, 0
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            results.append(RuntimeError(event["error"]["message"]))
            return
        first = first or time.time() - began
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
    results.append((first, tokens))


def measure(cluster, concurrency):
    results = []
    cpu, began = cluster.cpu_seconds(), time.time()
    threads = [threading.Thread(target=one_request, args=(cluster.port, i, results))
               for i in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.time() - began
    for result in results:
        if isinstance(result, Exception):
            raise SystemExit(f"a request failed: {result}")
    tokens = sum(tokens for _, tokens in results)
    return {"tokens_per_s": tokens / seconds, "ttft_s": statistics.mean(t for t, _ in results),
            "cpu_ms_per_token": 1000 * (cluster.cpu_seconds() - cpu) / tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", default="1,8,16")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    threads = os.cpu_count()
    memory = int(os.path.getsize(args.model) * 0.55 + (64 << 20))
    loads = [int(n) for n in args.concurrency.split(",")]
    rows = []
    with tempfile.TemporaryDirectory(prefix="helix-bench-") as logs:
        clusters = []
        try:
            clusters.append(Cluster(args.binary, args.model, logs, "one", 0, 0, threads))
            clusters.append(Cluster(args.binary, args.model, logs, "three", 3, memory, threads))
            for load in loads:
                samples = [[], []]
                for number in range(args.rounds + 1):
                    print(f"{load} requests, round {number}/{args.rounds}", file=sys.stderr)
                    for which in (0, 1):
                        sample = measure(clusters[which], load)
                        if number > 0:  # the first warms up
                            samples[which].append(sample)
                middle = [{key: statistics.median(s[key] for s in side) for key in side[0]}
                          for side in samples]
                rows.append({"concurrency": load, "one": middle[0], "three": middle[1],
                             "ratio": middle[1]["tokens_per_s"] / middle[0]["tokens_per_s"]})
        finally:
            for cluster in clusters:
                cluster.stop()
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{os.path.basename(args.model)}, {threads} cores, prompts of {PROMPT_TOKENS} tokens, "
          f"answers of {OUTPUT_TOKENS}, median of {args.rounds}")
    print("| in flight | one process tok/s | TTFT s | CPU ms/tok | three workers tok/s | TTFT s | "
          "CPU ms/tok | three/one |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        cells = []
        for side in (row["one"], row["three"]):
            cells += [f"{side['tokens_per_s']:.1f}", f"{side['ttft_s']:.2f}",
                      f"{side['cpu_ms_per_token']:.0f}"]
        print(f"| {row['concurrency']} | " + " | ".join(cells) + f" | {row['ratio']:.2f} |")


if __name__ == "__main__":
    main()
