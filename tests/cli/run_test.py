#!/usr/bin/env python3
"""helix run beside a server of this machine that already serves the model: it is asked, and no second one is started.

usage: run_test.py HELIX_BINARY MODEL

The server listens at 127.0.0.1:8080, in a network of the test's own. Exits 77 (skipped) where the system does not allow
that or has no ip or unshare.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

INSIDE = "HELIX_RUN_INSIDE"  # set where the network is the test's
LIMIT_S = 120
SERVER = "http://127.0.0.1:8080"


def enter_network():
    """Runs this program again in a network of its own, and ends with its status."""
    for program in ("ip", "unshare"):
        if not shutil.which(program):
            print("SKIPPED: there is no", program)
            sys.exit(77)
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run(unshare + ["ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: this system does not let a program make a network of its own")
        sys.exit(77)
    os.execvpe(unshare[0], unshare + [sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def get(path):
    with urllib.request.urlopen(SERVER + path, timeout=10) as answer:
        return json.load(answer)


def wait_until_it_serves(server):
    until = time.monotonic() + LIMIT_S
    while True:
        assert server.poll() is None, "helix serve ended"
        try:
            urllib.request.urlopen(SERVER + "/health", timeout=10).close()
            return
        except OSError:
            assert time.monotonic() < until, "helix serve does not serve"
            time.sleep(0.1)


def answered():
    """How many requests the server has had."""
    return len(get("/helix/cluster")["requests"])


class Runs:
    def __init__(self, helix, folder):
        self.helix = helix
        self.environment = {**os.environ, "HELIX_CACHE": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "TMPDIR": str(folder)}

    def ask(self, *words):
        """What helix run answers; it has to answer."""
        done = subprocess.run([self.helix, "run", *words, "hello", "--max-tokens", "4", "--temperature", "0", "--json"],
                              stdin=subprocess.DEVNULL, capture_output=True, env=self.environment, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)["answer"]


def check(helix, model, folder):
    # As it lies there when it was pulled.
    repository = folder / "hub" / "models--den--Demo-GGUF"
    pulled = repository / "snapshots" / ("a" * 40) / "Demo-Q8_0.gguf"
    pulled.parent.mkdir(parents=True)
    shutil.copy(model, pulled)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40, encoding="utf-8")
    # As long, and another model.
    other = folder / "other.gguf"
    content = bytearray(pulled.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    runs = Runs(helix, folder)
    with open(folder / "serve.log", "wb") as log:
        server = subprocess.Popen([helix, "serve", "--model", str(model), "--name", "hall", "--threads", "1"],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until_it_serves(server)
        expected = runs.ask("hall")
        for count, words in enumerate((["den/Demo-GGUF:Q8_0"], ["den/Demo-GGUF"], [str(pulled)]), 2):
            assert runs.ask(*words) == expected, words
            assert answered() == count, f"{words}: the server that runs has answered {answered()} requests, not {count}"
        runs.ask(str(other))
        assert answered() == 4, "another model of the same length is none of the server's"
        assert runs.ask(str(pulled), "--serve=--threads=1") == expected
        assert answered() == 4, "with options for a server one of its own is started"
    finally:
        server.kill()
        server.wait()


def main():
    if INSIDE not in os.environ:
        enter_network()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="helix-run-test-") as folder:
        check(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(folder))
    print("one server answered for a name, a pulled model and a file")


if __name__ == "__main__":
    main()
