#!/usr/bin/env python3
"""Two machines of a network of their own: one serves, the other finds it, is let in by a code, and serves with it.

usage: discovery_test.py HELIX_BINARY MODEL

Machines are namespaces of Linux with a network between them. Exits 77 (skipped) where the system does not allow that or has no ip,
nsenter or unshare.
"""
import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time

INSIDE = "HELIX_DISCOVERY_INSIDE"  # set where namespaces are those of the test
LIMIT_S = 30
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def enter_namespaces():
    """Runs this program again where it may make machines and networks, and ends with its status."""
    for program in ("ip", "unshare", "nsenter"):
        if not shutil.which(program):
            print("SKIPPED: there is no", program)
            sys.exit(77)
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run(unshare + ["ip", "link", "add", "lan", "type", "bridge"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: this system does not let a program make networks of its own")
        sys.exit(77)
    os.execvpe(unshare[0], unshare + [sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def run(*command):
    subprocess.run(command, check=True)


def wait_for(condition, what):
    until = time.monotonic() + LIMIT_S
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"waited for {what}")
        time.sleep(0.02)


class Machine:
    """A namespace with an address on the bridge, and a home."""

    def __init__(self, number, folder):
        self.home = folder / f"home{number}"
        self.home.mkdir()
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "600"])
        own = os.readlink("/proc/self/ns/net")
        link = f"/proc/{self.holder.pid}/ns/net"
        wait_for(lambda: os.readlink(link) != own, "a namespace")
        self.enter = ["nsenter", "-t", str(self.holder.pid), "-n"]
        run("ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", f"lan{number}")
        run("ip", "link", "set", f"port{number}", "master", "lan", "up")
        run("ip", "link", "set", f"lan{number}", "netns", str(self.holder.pid))
        run(*self.enter, "ip", "addr", "add", f"{ADDRESSES[number]}/24", "dev", f"lan{number}")
        run(*self.enter, "ip", "link", "set", f"lan{number}", "up")
        run(*self.enter, "ip", "link", "set", "lo", "up")

    @contextlib.contextmanager
    def start(self, *command, stdin=subprocess.DEVNULL):
        """The program, and what it has written so far."""
        log = self.home / f"{command[1]}.log"
        with open(log, "ab") as out:
            process = subprocess.Popen([*self.enter, *map(str, command)], stdin=stdin, stdout=out, stderr=out,
                                       env={**os.environ, "HOME": str(self.home)})
        process.log = lambda: log.read_text(encoding="utf-8", errors="replace")
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def ask(self, path, body=None):
        """The answer of the server on this machine; nothing while there is none."""
        script = ("import sys, urllib.request as u; r = u.Request('http://127.0.0.1:8080' + sys.argv[1], "
                  "sys.argv[2].encode() or None, {'Content-Type': 'application/json'}); print(u.urlopen(r, timeout=5).read().decode())")
        done = subprocess.run([*self.enter, sys.executable, "-c", script, path, json.dumps(body) if body else ""],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None


def said(process, pattern):
    """What the process has written that is like this, once it has."""
    def find():
        found = re.search(pattern, process.log())
        if not found and process.poll() is not None:
            raise AssertionError(f"no {pattern!r}, and it ended with {process.returncode}:\n{process.log()}")
        return found
    return wait_for(find, f"{pattern!r} in:\n{process.log()}")


def look_around(helix, attic):
    """What `helix worker` says where nobody can be asked."""
    done = subprocess.run([*attic.enter, str(helix), "worker"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "HOME": str(attic.home)}, timeout=LIMIT_S, check=False)
    assert done.returncode == 1, done
    return done.stderr


def test_key_that_is_not_there(serve, hall, key):
    """The error says what makes it, and that says what comes next."""
    done = subprocess.run([*hall.enter, *map(str, serve)], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    mends = re.search(rf"there is no {key}; '(helix key new --file \S+)' makes it", done.stderr)
    assert done.returncode == 1 and mends, done
    words = mends[1].split()
    made = subprocess.run([serve[0], *words[1:]], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert key.exists() and f"--key {key}" in made.stdout and "helix pair\n" in made.stdout, made


def test_without_announcement(helix, serve, hall, attic):
    with hall.start(*serve, "--no-announce"):
        wait_for(lambda: hall.ask("/health/live"), "the server")
        text = look_around(helix, attic)
        assert "no coordinator was found" in text and "--join HOST:PORT" in text, text


def test_pairing(helix, serve, hall, attic):
    place = f"{ADDRESSES[0]}:8080"
    with hall.start(*serve) as server:
        said(server, "announced on the local network")
        said(server, f"open http://{place}/")
        text = look_around(helix, attic)
        assert place in text and f"helix worker --join {place} --pair" in text and "helix-demo" in text, text
        ours, theirs = pty.openpty()
        with hall.start(helix, "pair") as pair, \
                attic.start(helix, "worker", "--name", "attic", "--memory", "64MB", "--threads", "1", "--cache", "none", stdin=theirs) as worker:
            code = said(pair, r"code is  (\d{4} \d{4})")[1]
            said(worker, "Join it")
            os.write(ours, b"y\n")
            said(worker, "Pairing code")
            os.write(ours, code.encode() + b"\n")
            said(worker, "paired: the key is kept in")
            said(pair, "attic knows the code")
            assert pair.wait(LIMIT_S) == 0
            answer = wait_for(lambda: hall.ask("/v1/completions", {"prompt": "a", "max_tokens": 1}), "a token:\n" + worker.log())
            assert answer["usage"]["completion_tokens"] == 1, answer
        os.close(ours)
        os.close(theirs)


def main():
    if INSIDE not in os.environ:
        enter_namespaces()
    helix, model = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    began = time.monotonic()
    run("ip", "link", "add", "lan", "type", "bridge", "mcast_snooping", "0")
    run("ip", "link", "set", "lan", "up")
    with tempfile.TemporaryDirectory(prefix="helix-discovery-") as name:
        folder = pathlib.Path(name)
        hall, attic = Machine(0, folder), Machine(1, folder)
        key = folder / "coordinator.key"
        serve = [helix, "serve", "--model", model, "--no-worker", "--listen", "0.0.0.0:8080", "--open", "--key", key]
        test_key_that_is_not_there(serve, hall, key)
        test_without_announcement(helix, serve, hall, attic)
        test_pairing(helix, serve, hall, attic)
    print(f"found, paired and served in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
