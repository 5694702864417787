#!/usr/bin/env python3
"""Follows a tutorial of docs/tutorials as a reader does: runs every command of it, and looks for every line that it shows.

usage: tutorial_test.py HELIX TUTORIAL.md MODEL [--show]

A tutorial's code blocks are of these kinds, and each of them is gone through in order:

    sh      commands; each has to succeed. Where the paragraph before says "leave it running", the commands go on in their terminal.
    text    what the commands before show. Its lines have to be there in this order; figures, their units and bars may be others,
            and "..." stands for anything. Where the paragraph before the commands says "until", they are repeated until it is so.
    else    a file, whose name is in `backquotes` in the paragraph before.

A paragraph before a block that names a **machine** goes on there (of several the one of "on **NAME**"), one that says "new terminal"
in another terminal of it, "first terminal" in the first again. What was left running has to end well: before the next commands in
that terminal, whose paragraph says "has ended", or at the end of the tutorial; "was ended" says that it was killed. A table whose head
begins with "machine | address" says which machines there are. Of a file that the text says to open ("Open `run.html`"), the *slanted*
words of that paragraph stand in it. Options that the text only mentions, like `helix plan --json`, have to exist.

Machines are namespaces of Linux with a network between them, so each has its own address, ports, processes, name and home. Three
things are not as a reader has them: the hub has MODEL under every name, `scp` copies from home to home, and machines compute at a
share of their speed (HELIX_CONFIG). --show prints what is seen.

Exits 77 (skipped) where the system does not allow namespaces or has no ip, nsenter or unshare.
"""
import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

COMMAND_LIMIT_S = 60  # for commands that end, and for what is repeated until it is so
POLL_S = 0.1
ENDED = {0, 128 + signal.SIGTERM}  # how what was left running may end
FENCE = "```"
GATEWAY = "192.168.1.1"  # where the hub is
INSIDE = "HELIX_TUTORIAL_INSIDE"  # set where namespaces are those of the test


class TutorialError(Exception):
    """What a reader would stumble over; the message says at which line."""


@dataclasses.dataclass
class Block:
    line: int
    kind: str
    text: str
    before: str  # the paragraph before it


def blocks_of(markdown):
    """The code blocks of a text, each with the paragraph before it."""
    blocks, before, paragraph, inside = [], "", [], None
    for number, line in enumerate(markdown.splitlines(), 1):
        if inside is not None:
            if line == FENCE:
                blocks.append(Block(inside[0], inside[1], "\n".join(inside[2]) + "\n", before))
                inside, before = None, ""
            else:
                inside[2].append(line)
        elif line.startswith(FENCE):
            kind = line[len(FENCE):]
            if not re.fullmatch(r"[a-z]+", kind):
                raise TutorialError(f"line {number}: a block without a kind")
            before = " ".join(paragraph) or before
            inside, paragraph = (number, kind, []), []
        elif line.startswith("    ") and not paragraph:
            raise TutorialError(f"line {number}: an indented block, which nothing would run")
        elif line.strip():
            paragraph.append(line.strip())
        elif paragraph:
            before, paragraph = " ".join(paragraph), []
    if inside is not None:
        raise TutorialError(f"line {inside[0]}: a block without an end")
    return blocks


def machines_of(markdown):
    """The table of machines: by their names, addresses and what they are. A tutorial without one is about one machine."""
    table = re.search(r"(?m)^\| machine \| address \|.*\n\|[ |-]+\n((?:\|.*\n)+)", markdown)
    if not table:
        return {}
    return {name: (address, what) for name, address, what in re.findall(r"(?m)^\| \*\*(\w+)\*\* \| ([\d.]+) \| (.*) \|$", table.group(1))}


UNITS = r"(?: ?(?:[kKMGT]?bit/s|[kKMGT]?B/s|[kKMGT]i?B|B|ms|us|s|minutes?|seconds?|hours?|%|h|d)(?!\w))?"
FIGURE = re.compile(r"(?<![A-Za-z])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?" + UNITS)
BAR = re.compile(r"[█▐▏▎▍▌▋▊▉·░▒▓]+")


def masked(line):
    """A line without what may be another from machine to machine."""
    return " ".join(BAR.sub("▒", FIGURE.sub("#", line)).split())


def pattern(line):
    return re.compile(".*".join(re.escape(part) for part in masked(line).split("...")))


def missing_line(expected, shown):
    """The first expected line that is not shown, in order; None when all are."""
    lines = [masked(line) for line in shown.splitlines()]
    at = 0
    for line in expected.splitlines():
        if not line.strip() or line.strip() == "...":
            continue
        wanted = pattern(line)
        while at < len(lines) and not wanted.fullmatch(lines[at]):
            at += 1
        if at == len(lines):
            return line
        at += 1
    return None


class Hub(http.server.BaseHTTPRequestHandler):
    """A hub whose every repository has one model in every quantisation that is asked for."""

    protocol_version = "HTTP/1.1"
    content = b""
    commit = "0" * 39 + "1"

    def log_message(self, *_):
        pass

    def reply(self, body, headers=()):
        whole = len(body)
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if span:
            first, last = int(span.group(1)), min(int(span.group(2) or whole), whole - 1)
            body = body[first:last + 1]
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        digest = hashlib.sha256(self.content).hexdigest()
        path = self.path.split("?")[0]
        listed = re.fullmatch(r"/api/models/([^/]+)/([^/]+)/tree/.*", path)
        if "/revision/" in path:
            self.reply(json.dumps({"sha": self.commit}).encode())
        elif listed:
            name = re.sub("-GGUF$", "", listed.group(2))
            files = [{"type": "file", "path": f"{name}-Q4_K_M.gguf", "oid": "0" * 40, "size": len(self.content),
                      "lfs": {"oid": digest, "size": len(self.content), "pointerSize": 134}}]
            self.reply(json.dumps(files).encode())
        elif "/resolve/" in path:
            self.reply(self.content, [("X-Repo-Commit", self.commit), ("ETag", f'"{digest}"'), ("X-Linked-Etag", f'"{digest}"'),
                                      ("X-Linked-Size", str(len(self.content)))])
        else:
            self.send_error(404)

    do_HEAD = do_GET


def start_hub(model):
    Hub.content = model.read_bytes()
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


# What share of their speed machines compute with, by what they are said to be.
SPEEDS = {"A100": 0.2, "L4": 0.1, "T4": 0.05}
HOME_SPEED = 0.05


def write_speed(path, what):
    """Options of a machine: it computes as slowly as a tiny model must be computed to last like a large one."""
    speed = next((speed for kind, speed in SPEEDS.items() if kind in what), HOME_SPEED)
    path.write_text(f"[serve]\nspeed = {speed}\n[worker]\nspeed = {speed}\n")


class Machine:
    """A machine with its own network, processes, name and home."""

    # The first of the files by which workers know that they are on one machine is another one on each.
    SETUP = """
        hostname {name}
        for file in /etc/machine-id /proc/sys/kernel/random/boot_id; do [ -s $file ] && mount --bind {identity} $file && break; done
        ip link set lo up
        [ "$(cat $file)" = "$(cat {identity})" ] && touch {ready}
        exec sleep 600
    """

    def __init__(self, name, address, what, folder, number):
        self.name, self.address = name, address
        self.home = folder / name / "home"
        self.home.mkdir(parents=True)
        write_speed(folder / name / "helix.toml", what)
        self.environment = {"HOME": str(self.home), "HELIX_CONFIG": str(folder / name / "helix.toml")}
        identity = folder / name / "machine-id"
        identity.write_text(hashlib.md5(name.encode()).hexdigest() + "\n")
        self.holder = subprocess.Popen(["unshare", "-n", "-u", "-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                                        self.SETUP.format(name=name, identity=identity, ready=folder / name / "ready")])
        run(["ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", f"lan{number}"])
        run(["ip", "link", "set", f"port{number}", "master", "lan", "up"])
        # The holder's child is the first process of the machine.
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.enter = ["nsenter", "-t", wait_for(lambda: children.read_text().strip(), f"{name} to start"), "-n", "-u", "-m", "-p"]
        wait_for((folder / name / "ready").exists, f"{name} to be ready")
        run(["ip", "link", "set", f"lan{number}", "netns", self.enter[2]])
        run(self.enter + ["ip", "addr", "add", f"{address}/24", "dev", f"lan{number}"])
        run(self.enter + ["ip", "link", "set", f"lan{number}", "up"])


class OneMachine:
    """The only machine of a tutorial: this one, with another home."""

    name, address, enter = "this", "127.0.0.1", []

    def __init__(self, folder):
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.environment = {"HOME": str(self.home)}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TutorialError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def wait_for(condition, what):
    until = time.monotonic() + COMMAND_LIMIT_S
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > until:
            raise TutorialError(f"waited for {what}")
        time.sleep(0.01)


def as_seen(text):
    """What is left of a terminal's bytes for who looks at it: no escape sequences, of lines that were written anew the last state."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\].*?(?:\x07|\x1b\\)", "", text).replace("\r\n", "\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


class Terminal:
    """A terminal of a reader: what is exported and where it stands hold from block to block."""

    def __init__(self, machine, environment, folder):
        self.machine, self.folder = machine, folder
        folder.mkdir(parents=True)
        self.environment = {**environment, **machine.environment, "TERM": "xterm"}
        self.state = folder / "state"
        self.state.write_text(f"cd {machine.home}\n")
        self.running = None
        self.count = 0

    def begin(self, commands):
        """Begins to run commands; the first that fails ends them."""
        if self.running:
            raise TutorialError("something runs in this terminal")
        self.count += 1
        self.bytes = bytearray()
        script = self.folder / f"script-{self.count}"
        script.write_text(f". {self.state}\ntrap 'declare -px > {self.state}; echo \"cd $(printf %q \"$PWD\")\" >> {self.state}' EXIT\n"
                          + commands)
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.running = subprocess.Popen(self.machine.enter + ["bash", "-e", "-o", "pipefail", str(script)], stdin=theirs,
                                        stdout=theirs, stderr=theirs, env=self.environment, start_new_session=True)
        os.close(theirs)
        self.reading = threading.Thread(target=self.read, args=(ours, self.bytes), daemon=True)
        self.reading.start()

    @staticmethod
    def read(fd, into):
        with contextlib.suppress(OSError):  # nobody has it open any more
            while piece := os.read(fd, 65536):
                into += piece
        os.close(fd)

    def shown(self):
        return as_seen(bytes(self.bytes).decode(errors="replace"))

    def end(self):
        """How the commands ended."""
        try:
            code = self.running.wait(COMMAND_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise TutorialError(f"the commands do not end; they show:\n{self.shown()}") from None
        self.running = None
        self.reading.join(COMMAND_LIMIT_S)
        return code


class Reader:
    """Somebody who follows a tutorial."""

    def __init__(self, helix, tutorial, model, folder, show):
        self.tutorial, self.show = tutorial, show
        self.text = tutorial.read_text(encoding="utf-8")
        programs = folder / "bin"
        programs.mkdir()
        (programs / "helix").symlink_to(helix)
        self.environment = {name: value for name, value in os.environ.items()
                            if not re.match("HELIX|HF_|HUGGING|XDG|SSL_|OTEL|.*_proxy$|BASH_ENV", name)}
        self.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
        self.environment["HF_ENDPOINT"] = f"http://{GATEWAY}:{start_hub(model)}"
        addresses = machines_of(self.text)
        if addresses:
            run(["ip", "link", "set", "lo", "up"])
            run(["ip", "link", "add", "lan", "type", "bridge"])
            run(["ip", "addr", "add", f"{GATEWAY}/24", "dev", "lan"])
            run(["ip", "link", "set", "lan", "up"])
        self.machines = {name: Machine(name, *said, folder, number) for number, (name, said) in enumerate(addresses.items())}
        if not addresses:
            self.environment["HF_ENDPOINT"] = self.environment["HF_ENDPOINT"].replace(GATEWAY, "127.0.0.1")
            self.machines = {"this": OneMachine(folder)}
        self.write_scp(programs / "scp")
        self.folder = folder
        self.terminals = {name: [] for name in self.machines}
        self.terminal = None
        self.block = None  # the commands that were run last

    def write_scp(self, path):
        homes = "".join(f"{machine.address}:*) home={machine.home} ;;\n" for machine in self.machines.values())
        path.write_text(f"""#!/bin/bash
# Copies from home to home.
target=${{@: -1}}
case "$target" in
{homes}*) exit 1 ;;
esac
cp -p "${{@:1:$#-1}}" "$home/${{target#*:}}"
""")
        path.chmod(0o755)

    def new_terminal(self, name):
        terminal = Terminal(self.machines[name], self.environment, self.folder / f"terminal-{name}-{len(self.terminals[name])}")
        self.terminals[name].append(terminal)
        return terminal

    def go_to(self, before):
        """Sits down where the paragraph says."""
        named = set(re.findall(r"\*\*(\w+)\*\*", before))
        if len(named) > 1:
            named = set(re.findall(r"\b[Oo]n \*\*(\w+)\*\*", before))
        if len(named) > 1 or not named <= set(self.machines):
            raise TutorialError(f"it is not clear on which machine: {before}")
        name = next(iter(named), self.terminal.machine.name if self.terminal else next(iter(self.machines)))
        if not self.terminals[name] or "new terminal" in before:
            self.terminal = self.new_terminal(name)
        elif "first terminal" in before:
            self.terminal = self.terminals[name][0]
        elif self.terminal not in self.terminals[name]:
            self.terminal = self.terminals[name][-1]

    def run_commands(self, block, expected):
        self.go_to(block.before)
        if self.terminal.running and "has ended" in block.before:
            self.succeed()
        if self.terminal.running and "was ended" in block.before:
            self.terminal.end()
        repeat = re.search(r"\buntil\b", block.before)
        until = time.monotonic() + COMMAND_LIMIT_S
        while True:
            self.terminal.begin(block.text)
            if "leave it running" in block.before.lower():
                return self.watch(expected)
            missing = self.succeed(allowed=bool(repeat), expected=expected)
            if missing is None:
                return None
            if not repeat or time.monotonic() > until:
                raise TutorialError(f"does not show the line {missing!r}, but\n{self.terminal.shown()}")
            time.sleep(POLL_S)

    def succeed(self, allowed=False, expected=""):
        """Waits for the end of the commands, and gives the line that they do not show."""
        code = self.terminal.end()
        if code != 0 and not allowed:
            raise TutorialError(f"ends with {code} and shows\n{self.terminal.shown()}")
        return missing_line(expected, self.terminal.shown()) if code == 0 else "(an end with 0)"

    def watch(self, expected):
        """Waits until commands that go on show what they should: something, where nothing is said."""
        until = time.monotonic() + COMMAND_LIMIT_S
        while missing_line(expected, self.terminal.shown()) is not None or not self.terminal.shown():
            if self.terminal.running.poll() is not None:
                raise TutorialError(f"ended with {self.terminal.running.returncode} and shows\n{self.terminal.shown()}")
            if time.monotonic() > until:
                raise TutorialError(f"does not show the line {missing_line(expected, self.terminal.shown())!r}, but\n{self.terminal.shown()}")
            time.sleep(0.01)

    def write_file(self, block):
        self.go_to(block.before)
        names = re.findall(r"`([\w.-]+\.%s)`" % re.escape(block.kind), block.before)
        if len(names) != 1:
            raise TutorialError(f"the paragraph before names no file of the kind {block.kind}, or several")
        (self.terminal.machine.home / names[0]).write_text(block.text, encoding="utf-8")

    def follow(self):
        blocks = blocks_of(self.text)
        done = 0
        while done < len(blocks):
            block = blocks[done]
            expected = blocks[done + 1].text if done + 1 < len(blocks) and blocks[done + 1].kind == "text" else ""
            began = time.monotonic()
            try:
                if block.kind == "sh":
                    self.run_commands(block, expected)
                elif block.kind == "text":
                    raise TutorialError("what is shown stands behind no commands")
                else:
                    self.write_file(block)
                    expected = ""
            except TutorialError as error:
                raise TutorialError(f"{self.tutorial.name}:{block.line}: {block.text.strip()}\n{error}") from None
            if self.show and block.kind == "sh":
                print(f"{time.monotonic() - began:.1f} s, line {block.line}: {block.text}{self.terminal.shown()}", flush=True)
            done += 2 if expected else 1
        for terminal in sum(self.terminals.values(), []):
            if terminal.running and (code := terminal.end()) not in ENDED:
                raise TutorialError(f"{self.tutorial.name}: what was left on {terminal.machine.name} "
                                    f"ended with {code} and shows\n{terminal.shown()}")
        fences = sum(line.startswith(FENCE) for line in self.text.splitlines())
        if fences != 2 * len(blocks):
            raise TutorialError(f"{self.tutorial.name}: {fences} fences for {len(blocks)} blocks")
        self.look_into_files()
        return len(blocks)

    def stop(self):
        """Ends what still runs."""
        for terminal in sum(self.terminals.values(), []):
            if terminal.running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(terminal.running.pid, signal.SIGKILL)
                terminal.running.wait()

    def look_into_files(self):
        """What the text says of files to be opened, in *slanted* letters, stands in them."""
        for paragraph in re.split(r"\n\n+", self.text):
            for name in re.findall(r"Open `([\w.-]+)`", paragraph)[:1]:
                found = [machine.home / name for machine in self.machines.values() if (machine.home / name).exists()]
                said = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", " ".join(paragraph.split()))
                if not found or not said:
                    raise TutorialError(f"{self.tutorial.name}: there is no {name}, or nothing is said of it")
                for phrase in said:
                    if phrase not in found[0].read_text(encoding="utf-8"):
                        raise TutorialError(f"{self.tutorial.name}: {name} does not have {phrase!r}")


def check_mentioned(helix, text):
    """The options of helix that the text mentions between backquotes exist."""
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    for span in re.findall(r"`(helix [^`]+)`", prose):
        words = span.split()
        command = [word for word in words[1:3] if re.fullmatch(r"[a-z]+", word)]
        for length in (2, 1):
            told = subprocess.run([helix, *command[:length], "--help"], capture_output=True, text=True, check=False)
            if told.returncode == 0:
                break
        else:
            raise TutorialError(f"`{span}`: there is no such command")
        for option in re.findall(r"--[a-z][a-z-]*", span):
            if not re.search(re.escape(option) + r"(?![a-z-])", told.stdout):
                raise TutorialError(f"`{span}`: {option} is no option of it")


def enter_namespaces():
    """Runs this program again where it may make machines and networks, and ends with its status; exits 77 where that is not allowed."""
    for program in ("ip", "unshare", "nsenter"):
        if not shutil.which(program):
            print("SKIPPED: there is no", program)
            sys.exit(77)
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run(unshare + ["ip", "link", "add", "lan", "type", "bridge"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: this system does not let a program make networks of its own")
        sys.exit(77)
    os.execvpe(unshare[0], unshare + [sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("helix", type=pathlib.Path)
    parser.add_argument("tutorial", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--show", action="store_true", help="print what is seen")
    asked = parser.parse_args()
    if INSIDE not in os.environ and machines_of(asked.tutorial.read_text(encoding="utf-8")):
        enter_namespaces()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="helix-tutorial-") as folder:
        try:
            check_mentioned(asked.helix.resolve(), asked.tutorial.read_text(encoding="utf-8"))
            reader = Reader(asked.helix.resolve(), asked.tutorial, asked.model.resolve(), pathlib.Path(folder), asked.show)
            try:
                blocks = reader.follow()
            finally:
                reader.stop()
        except TutorialError as error:
            sys.exit(str(error))
    print(f"{asked.tutorial.name}: {blocks} blocks in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
