#!/usr/bin/env python3
"""Unmodified clients against real clusters of one coordinator and three workers: with a taught model that none of them
can hold, with one that was taught to call tools, and with two that know nothing, where documents are ranked, calls of
tools are demanded and a worker is killed.

usage: cluster_test.py HELIX_BINARY MODEL TOOLS_MODEL CLIENT_SCRIPT [its options...]

Runs the npm clients' scripts and curl. Exits 77 (skipped) when the client cannot run here.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "chaos"))
import cluster as processes  # noqa: E402


def get(url):
    with urllib.request.urlopen(url, timeout=5) as response:
        return response.read().decode()


def wait_ready(base, seconds):
    end = time.time() + seconds
    while time.time() < end:
        try:
            get(base + "/health/ready")
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit("the cluster was not ready in time")


def check_curl(base):
    body = json.dumps({"messages": [{"role": "user", "content": "What is a pipeline?"}],
                       "temperature": 0, "max_tokens": 40, "stream": True})
    answer = subprocess.run(["curl", "-sN", base + "/v1/chat/completions", "-d", body,
                             "-H", "Content-Type: application/json"],
                            check=True, capture_output=True, text=True, timeout=60).stdout
    events = [line[6:] for line in answer.split("\n\n") if line.startswith("data: ")]
    if events[-1] != "[DONE]":
        raise SystemExit(f"curl: the stream did not end with [DONE]: {answer[-200:]}")
    text = "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1])
    if "machines" not in text:
        raise SystemExit(f"curl: not the model's answer: {text!r}")
    print("curl: streamed", repr(text))


def check_pipelines(base):
    cluster = json.loads(get(base + "/helix/cluster"))
    used = {stage["worker"] for request in cluster["requests"] for stage in request["pipeline"]}
    if len(used) < 2:
        raise SystemExit(f"requests used only workers {used}")
    for worker in cluster["workers"]:
        if worker["layers"][1] - worker["layers"][0] >= 8:
            raise SystemExit("a worker holds the whole model: the test shows nothing")
    print("workers used:", sorted(used))


class Cluster:
    """A coordinator, and three workers with so many bytes each and these further options."""

    def __init__(self, binary, model, worker_bytes, folder, worker_options=()):
        port = processes.free_port()
        self.folder = folder
        self.base = f"http://127.0.0.1:{port}"
        self.log = open(pathlib.Path(folder) / "log", "w+", encoding="utf-8")
        commands = [["serve", "--no-worker", "--min-workers", "3", "--model", str(model),
                     "--listen", f"127.0.0.1:{port}", "--state-dir", folder]]
        commands += [["worker", "--join", f"127.0.0.1:{port}", "--name", f"w{i}", "--threads", "1",
                      "--memory", str(worker_bytes), "--cache", "none", *worker_options] for i in range(3)]
        self.processes = [subprocess.Popen([binary] + command, stdout=self.log, stderr=self.log)
                          for command in commands]

    def check_alive(self, expected):
        alive = sum(process.poll() is None for process in self.processes)
        if alive != expected:
            raise SystemExit(f"{alive} processes of the cluster are alive, expected {expected}")

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(20)
        self.log.seek(0)
        sys.stdout.write(self.log.read()[-4000:])
        self.log.close()


@contextlib.contextmanager
def serving(binary, model, worker_bytes, worker_options=()):
    """A cluster that is ready, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(binary, model, worker_bytes, folder, worker_options)
        try:
            wait_ready(cluster.base, 60)
            yield cluster
        finally:
            cluster.stop()


@contextlib.contextmanager
def serving_untrained(binary, shape):
    """The same with a synthetic model of this shape, which every worker can hold."""
    with tempfile.TemporaryDirectory() as folder:
        with serving(binary, processes.tiny_model(binary, folder, shape), 64 << 20) as cluster:
            yield cluster


def run_clients(client_command, cluster, more):
    return subprocess.run(client_command + ["--base-url", cluster.base], check=False,
                          env={**os.environ, "HELIX_STATE_DIR": cluster.folder, **more}).returncode


def model_in_parts(binary, model, client_command, more, first=lambda base: None):
    """Over workers none of which holds the whole model; first: what is checked before the clients come."""
    with serving(binary, model, int(pathlib.Path(model).stat().st_size * 0.8)) as cluster:
        first(cluster.base)
        code = run_clients(client_command, cluster, more)
        if code == 0:
            check_pipelines(cluster.base)
        cluster.check_alive(4)
        return code


def taught_model(binary, model, client_command):
    return model_in_parts(binary, model, client_command, {"HELIX_DRAWS_TOKENS": "1"}, check_curl)


def calling_model(binary, model, client_command):
    """Agents' loops."""
    return model_in_parts(binary, model, client_command + ["--tests", "agents_test.mjs"], {"HELIX_CALLS_TOOLS": "1"})


def untrained_model(binary, client_command):
    """The clients kill a worker while calls of tools are drawn."""
    with serving_untrained(binary, "tiny-32k") as cluster:
        code = run_clients(client_command + ["--tests", "tools_test.mjs"], cluster,
                           {"HELIX_KILL": str(cluster.processes[-1].pid)})
        cluster.check_alive(3)
        return code


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def check(condition, what):
    if not condition:
        raise SystemExit(f"ranking: {what}")


def ranking_model(binary):
    """Documents get the same scores alone, together, and after a worker's death."""
    with serving_untrained(binary, "tiny-reranker") as cluster:
        documents = [f"Machine {i} has {i * i} cores and a name." for i in range(40)]
        query = "Which machine?"
        ranked = post(cluster.base + "/v1/rerank", {"query": query, "documents": documents})
        scores = [None] * len(documents)
        for one in ranked["results"]:
            check(one["document"]["text"] == documents[one["index"]], f"not the document: {one}")
            scores[one["index"]] = one["relevance_score"]
        shown = [one["relevance_score"] for one in ranked["results"]]
        check(shown == sorted(shown, reverse=True) and 0 < shown[-1] < shown[0] < 1, f"not in order: {shown}")
        alone = post(cluster.base + "/v1/score", {"text_1": query, "text_2": documents[7]})
        check(alone["data"] == [{"index": 0, "object": "score", "score": scores[7]}], f"another score alone: {alone}")
        cluster.processes[-1].kill()
        again = post(cluster.base + "/v1/score", {"text_1": query, "text_2": documents})
        check([one["score"] for one in again["data"]] == scores, "other scores after a worker's death")
        check(again["usage"]["prompt_tokens"] == ranked["usage"]["total_tokens"], "other tokens counted")
        print(f"{len(documents)} documents ranked, scores {shown[-1]} to {shown[0]}")
        cluster.check_alive(3)
        return 0


def main():
    binary, model, tools_model, *client_command = sys.argv[1:]
    return (ranking_model(binary) or taught_model(binary, model, client_command) or calling_model(binary, tools_model, client_command)
            or untrained_model(binary, client_command))


if __name__ == "__main__":
    sys.exit(main())
