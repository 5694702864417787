#!/usr/bin/env python3
"""Unmodified clients against a real cluster: one coordinator, three workers of which none can hold the model.

usage: cluster_test.py HELIX_BINARY MODEL CLIENT_SCRIPT [its options...]

Runs the npm clients' scripts, the last of which kills one of the workers, and curl against it. Exits 77 (skipped) when the client cannot run here.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


def main():
    binary, model, *client_command = sys.argv[1:]
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    memory = int(pathlib.Path(model).stat().st_size * 0.8)
    with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryDirectory() as state:
        processes = []
        try:
            commands = [["serve", "--no-worker", "--min-workers", "3", "--model", model,
                         "--listen", f"127.0.0.1:{port}", "--state-dir", state]]
            commands += [["worker", "--join", f"127.0.0.1:{port}", "--name", f"w{i}", "--threads", "1",
                          "--memory", str(memory), "--cache", "none"] for i in range(3)]
            for command in commands:
                processes.append(subprocess.Popen([binary] + command, stdout=log, stderr=log))
            wait_ready(base, 60)
            check_curl(base)
            client = subprocess.run(client_command + ["--base-url", base], check=False,
                                    env={**os.environ, "HELIX_DRAWS_TOKENS": "1", "HELIX_STATE_DIR": state,
                                         "HELIX_KILL": str(processes[-1].pid)})
            if client.returncode == 0:
                check_pipelines(base)
            if any(process.poll() is not None for process in processes[:-1]):
                raise SystemExit("a process of the cluster ended")
            return client.returncode
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(20)
            log.seek(0)
            sys.stdout.write(log.read()[-4000:])


if __name__ == "__main__":
    sys.exit(main())
