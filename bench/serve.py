#!/usr/bin/env python3
"""Tokens/s and TTFT of one process against a pipeline of workers on the same cores, side by side.

usage: bench/serve.py --binary build/release/bin/helix --model FILE.gguf [--workers 3] [--worker-threads N]
                      [--prompt-tokens 32] [--rounds 3] [--lone] [--json]
       bench/serve.py --binary build/release/bin/helix --model FILE.gguf --halves [--rounds 3] [--json]

Both clusters are up at the same time and measured in turn, so that a busy machine hits both alike; the
figures are medians over the rounds. The process has a thread for each core, and so has each worker unless
--worker-threads says otherwise: with --workers 2 --worker-threads 1 on two cores both sides have two threads
in all. Memory limits see to it that no worker can hold the model.

--lone measures one process with the threads of one worker besides: with one request in flight one stage of a
pipeline computes at a time, so that no pipeline is quicker than that. --halves is the case of two cores: two
workers of one thread each, prompts of 64 tokens, and --lone.
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

OUTPUT_TOKENS = 48
WORKERS = {1: "one worker", 2: "two workers", 3: "three workers", 4: "four workers"}


class Cluster(Served):
    """`helix serve`, with a worker of its own or so many others."""

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


def one_request(port, index, prompt_tokens, results):
    body = json.dumps({"prompt": [3 + (index * 7919 + i * 31) % 500 for i in range(prompt_tokens)],
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


def measure(cluster, concurrency, prompt_tokens):
    results = []
    cpu, began = cluster.cpu_seconds(), time.time()
    threads = [threading.Thread(target=one_request, args=(cluster.port, i, prompt_tokens, results))
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
    parser.add_argument("--workers", type=int, default=3, choices=sorted(WORKERS))
    parser.add_argument("--worker-threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", default="1,8,16")
    parser.add_argument("--lone", action="store_true")
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.halves:
        if os.cpu_count() != 2:
            raise SystemExit(f"--halves is the case of two cores, and this machine has {os.cpu_count()}")
        args.workers, args.worker_threads, args.prompt_tokens, args.lone = 2, 1, 64, True
    threads = os.cpu_count()
    memory = int(os.path.getsize(args.model) * 0.55 + (64 << 20))
    loads = [int(n) for n in args.concurrency.split(",")]
    rows = []
    with tempfile.TemporaryDirectory(prefix="helix-bench-") as logs:
        clusters = []
        try:
            clusters.append(Cluster(args.binary, args.model, logs, "one", 0, 0, threads))
            clusters.append(Cluster(args.binary, args.model, logs, "pipeline", args.workers, memory,
                                    args.worker_threads))
            if args.lone:
                clusters.append(Cluster(args.binary, args.model, logs, "lone", 0, 0, args.worker_threads))
            for load in loads:
                samples = [[] for _ in clusters]
                for number in range(args.rounds + 1):
                    print(f"{load} requests, round {number}/{args.rounds}", file=sys.stderr)
                    for which in range(len(clusters)):
                        sample = measure(clusters[which], load, args.prompt_tokens)
                        if number > 0:  # the first warms up
                            samples[which].append(sample)
                middle = [{key: statistics.median(s[key] for s in side) for key in side[0]}
                          for side in samples]
                rows.append({"concurrency": load, "one": middle[0], "pipeline": middle[1],
                             "ratio": middle[1]["tokens_per_s"] / middle[0]["tokens_per_s"],
                             "ttft_ratio": middle[1]["ttft_s"] / middle[0]["ttft_s"]})
                if args.lone:
                    rows[-1]["lone"] = middle[2]
        finally:
            for cluster in clusters:
                cluster.stop()
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    workers = WORKERS[args.workers]
    print(f"{os.path.basename(args.model)}, {threads} cores, {workers} of {args.worker_threads} threads, prompts of "
          f"{args.prompt_tokens} tokens, answers of {OUTPUT_TOKENS}, median of {args.rounds}")
    print(f"| in flight | one process tok/s | TTFT s | CPU ms/tok | {workers} tok/s | TTFT s | "
          "CPU ms/tok | ratio | of TTFT |" + (f" one process of {args.worker_threads} thr. tok/s | TTFT s |" if args.lone else "")
          + "\n" + "|---" * (11 if args.lone else 9) + "|")
    for row in rows:
        cells = []
        for side in (row["one"], row["pipeline"]):
            cells += [f"{side['tokens_per_s']:.1f}", f"{side['ttft_s']:.2f}",
                      f"{side['cpu_ms_per_token']:.0f}"]
        lone = f" {row['lone']['tokens_per_s']:.1f} | {row['lone']['ttft_s']:.2f} |" if args.lone else ""
        print(f"| {row['concurrency']} | " + " | ".join(cells) +
              f" | {row['ratio']:.2f} | {row['ttft_ratio']:.2f} |" + lone)


if __name__ == "__main__":
    main()
