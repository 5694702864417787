#!/usr/bin/env python3
"""Walks through docs/tutorials/first-minutes.md as a new user does: two fresh systems of Debian that boot, with a network between them
and a hub in it; a package, a model that answers, the page in a real browser, a second machine by a pairing code, its death in the
middle of answers, what if, and both systems rid of it all. Every command of the page is typed, and what it shows is looked for.

usage: walk.py PACKAGES MODEL WORK_FOLDER

WORK_FOLDER gets times.json, times.md (the page's table) and pictures of the page. It fails where something is wrong, or takes longer
than MARKS. Three things are not as a reader has them: the hub has MODEL under every name, from when the coordinator serves the network
machines compute at a share of their speed (so a tiny model's answer lasts as long as a large one's), and packages that helix needs
are there already.

It takes minutes, so it runs with whole sweeps only (HELIX_SWEEPS=all, `make test-all`). Exits 77 (skipped) else, and where the rights,
the browser, its packages or the archive of Debian are missing.
"""
import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), *(str(ROOT / "tests" / name) for name in ("page", "tutorials"))]
import clean_system  # noqa: E402
import demo  # noqa: E402
import page_test  # noqa: E402
import small_png  # noqa: E402
import tutorial_test  # noqa: E402
from clean_system import check, skip, wait_until  # noqa: E402

PAGE = ROOT / "docs" / "tutorials" / "first-minutes.md"
MARKS = {"first_token_s": 60, "join_s": 20, "feed_share": 0.01}
HUB = "192.168.1.1"
ADDRESSES = {"hall": "192.168.1.20", "den": "192.168.1.21"}
PORT = 8080
USER = "anna"
SPEED = 0.05
LIMIT_S = 60
ANSWER_TOKENS = 120
KILL_AT = 12        # pieces that each answer has when a machine dies
TRIES = 5           # of asking until the machine that will die takes part
ASKERS = 2          # at once, while the coordinator's work is counted
WINDOW_S = 8
WINDOWS = 5         # with the page, and as many without
MOST_PICTURE_BYTES = 50_000
QUESTION = "What is a pipeline?"
STORY = "Tell me a story about a robot."
HEROES = ("fox", "king", "dog", "girl", "cat", "bird")  # of others
ADDED = "den"       # another machine like it is what what-if is asked for
NEW_NETWORK = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def run(*command):
    done = subprocess.run([str(part) for part in command], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}")


class Story:
    """The page's commands, one after the other, each with what it shows."""

    def __init__(self):
        self.blocks = tutorial_test.blocks_of(PAGE.read_text(encoding="utf-8"))

    def next(self, begin, *machines):
        """The next command, and what it shows; it has to begin so, and to be said of these machines."""
        check(self.blocks, f"{PAGE.name} has no more commands, but {begin} is expected")
        block = self.blocks.pop(0)
        check(block.kind == "sh" and block.text.startswith(begin) and all(f"**{one}**" in block.before for one in machines),
              f"{PAGE.name}:{block.line}: {begin} on {machines} is expected")
        shown = self.blocks.pop(0).text if self.blocks and self.blocks[0].kind == "text" else ""
        return block.text.strip(), shown

    def end(self):
        check(not self.blocks, f"{PAGE.name}: nobody has typed {self.blocks[0].text if self.blocks else ''}")


class Machine(clean_system.System):
    """A system that has booted, with an address of its own."""

    def __init__(self, root, init, environment):
        super().__init__(root, init)
        self.environment = environment  # of what users start
        self.terminals = []

    def terminal(self, command, user=USER):
        self.terminals.append(Terminal(self, command, user))
        return self.terminals[-1]

    def close(self):
        """Ends what still runs in terminals, so that the system can go down."""
        for one in self.terminals:
            if one.process.poll() is None:
                self.run("sh", "-c", "kill -9 $(pidof helix)", expect=None)
                one.process.kill()
                one.process.wait()

    @contextlib.contextmanager
    def network(self):
        """What this thread connects to is found from here."""
        with open("/proc/thread-self/ns/net", encoding="ascii") as own, open(f"/proc/{self.init}/ns/net", encoding="ascii") as there:
            check(LIBC.setns(there.fileno(), NEW_NETWORK) == 0, "the network of the machine cannot be entered")
            try:
                yield
            finally:
                check(LIBC.setns(own.fileno(), NEW_NETWORK) == 0, "there is no way back from the network of the machine")

    def helix_runs(self):
        return self.run("pidof", "helix", expect=None).strip() != ""


class Terminal:
    """A terminal in which a user has typed a command."""

    def __init__(self, machine, command, user):
        self.machine, self.command, self.bytes = machine, command, bytearray()
        home = "/root" if user == "root" else f"/home/{user}"
        environment = {"HOME": home, "USER": user, "TERM": "xterm", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                       **machine.environment}
        self.fd, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(
            ["nsenter", "--target", str(machine.init), "--all", "--", "runuser", "-u", user, "--", "env", "-i",
             *(f"{name}={value}" for name, value in environment.items()), "bash", "-c", f"cd ~; {command}"],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # so that Ctrl-C comes through
        os.close(theirs)
        self.reading = threading.Thread(target=self.read, daemon=True)
        self.reading.start()

    def read(self):
        with contextlib.suppress(OSError):  # nobody has it open any more
            while piece := os.read(self.fd, 65536):
                self.bytes += piece

    def shown(self):
        return tutorial_test.as_seen(bytes(self.bytes).decode(errors="replace"))

    def said(self, pattern, limit_s=LIMIT_S):
        """What stands in the terminal like this, once it does."""
        end = time.monotonic() + limit_s
        while not (found := re.search(pattern, self.shown())):
            check(time.monotonic() < end and (self.process.poll() is None or re.search(pattern, self.shown())),
                  f"no {pattern!r} after {self.command!r}:\n{self.shown()}")
            time.sleep(0.01)
        return found

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self, expect=0):
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"{self.command!r} does not end:\n{self.shown()}") from None
        self.reading.join(LIMIT_S)
        check(expect is None or code == expect, f"{self.command!r} ended with {code}:\n{self.shown()}")
        return self.shown()

    def interrupt(self):
        self.type("\x03")
        check(wait_until(lambda: not self.machine.helix_runs(), LIMIT_S), f"Ctrl-C does not end {self.command!r}:\n{self.shown()}")
        self.end(expect=None)

    def shows(self, expected):
        """Waits until it shows what the page says that it does."""
        if not wait_until(lambda: tutorial_test.missing_line(expected, self.shown()) is None, LIMIT_S):
            raise SystemExit(f"{self.command!r} does not show the line {tutorial_test.missing_line(expected, self.shown())!r}, but\n"
                             + self.shown())


class Browser:
    """A browser on a machine; the programs are those of this one."""

    def __init__(self, machine, folder, pictures):
        self.process = subprocess.Popen(
            ["nsenter", "--target", str(machine.init), "--net", "--", "node", "walk_page.mjs"], cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "HELIX_CHROMIUM": page_test.find_chromium(), "HELIX_PICTURES": str(pictures)})

    def __call__(self, *deed):
        self.process.stdin.write(json.dumps(deed) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the browser is gone"}')
        check("error" not in answer, f"on the page: {answer.get('error')}")
        return answer["result"]

    def end(self):
        self.process.stdin.close()
        self.process.wait(LIMIT_S)


# ---- two machines --------------------------------------------------------------------------------
def make_roots(deb, folder):
    """Two systems of the essential packages, apt and what the package asks for, with a user."""
    first = folder / "hall"
    clean_system.install_minimal(str(first), ["apt", "systemd", "systemd-sysv", "udev", *clean_system.dependencies(deb)])
    run("chroot", first, "useradd", "--create-home", "--shell", "/bin/bash", USER)
    shutil.copy(deb, first / "root")
    run("cp", "--archive", first, folder / "den")
    for name in ADDRESSES:
        # The test gives the addresses; nobody else is to.
        (folder / name / "etc/systemd/system/systemd-networkd.service").symlink_to("/dev/null")
        (folder / name / "etc/machine-id").unlink(missing_ok=True)
        (folder / name / "etc/hostname").write_text(name + "\n")
        (folder / name / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    return {name: folder / name for name in ADDRESSES}


@contextlib.contextmanager
def machines_of(roots, model):
    """Both have booted, on a network that nothing else of this machine is on but a hub with this model."""
    check(LIBC.unshare(NEW_NETWORK) == 0, "no network of one's own can be made")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "lan", "type", "bridge", "mcast_snooping", "0")
    run("ip", "addr", "add", f"{HUB}/24", "dev", "lan")
    run("ip", "link", "set", "lan", "up")
    environment = {"HF_ENDPOINT": f"http://{HUB}:{tutorial_test.start_hub(model)}"}
    with contextlib.ExitStack() as stack:
        machines = []
        for name, root in roots.items():
            system = stack.enter_context(clean_system.booted(root, "--network-bridge=lan", f"--machine={name}"))
            enter = ["nsenter", "--target", system.init, "--net", "ip"]
            run(*enter, "addr", "add", f"{ADDRESSES[name]}/24", "dev", "host0")
            run(*enter, "link", "set", "host0", "up")
            machines.append(stack.enter_context(contextlib.closing(Machine(root, system.init, environment))))
        yield machines


def slow_down(machine):
    """From now on what users start computes at a share of its speed."""
    (machine.root / "etc/slow.toml").write_text(f"[serve]\nspeed = {SPEED}\n[worker]\nspeed = {SPEED}\n")
    machine.environment = {**machine.environment, "HELIX_CONFIG": "/etc/slow.toml"}


# ---- the walk ------------------------------------------------------------------------------------
class Walk:
    def __init__(self, hall, den, browser, times):
        self.hall, self.den, self.browser, self.times, self.story = hall, den, browser, times, Story()
        self.api = demo.Api(PORT, True)

    def installed(self, machine, name):
        command, shown = self.story.next("apt install", name)
        began = time.monotonic()
        terminal = machine.terminal(command, "root")
        print(terminal.end())
        terminal.shows(shown)
        return began

    def first_token(self):
        """From the package to an answer, in the terminal and on the page."""
        began = self.installed(self.hall, "hall")
        self.times["install_s"] = time.monotonic() - began
        command, shown = self.story.next("helix run", "hall")
        terminal = self.hall.terminal(command)
        place = terminal.said(r"(http://127\.0\.0\.1:\d+)/")[1]
        terminal.said(">>> ")
        terminal.type(QUESTION + "\r")
        terminal.said(re.escape(QUESTION) + r"\s+\w")
        self.times["first_token_s"] = time.monotonic() - began
        terminal.shows(shown)
        self.browser("open", place)
        said = self.browser("ask", QUESTION)
        # It is drawn, so it is another one each time, but about what was asked.
        check(re.search(r"(?i)pipeline|machine|layer", said), f"on the page it is not the model's answer: {said!r}")
        self.browser("picture", "first-minutes-chat")
        # Only this machine reaches that server, and the page says so, and how it is begun again.
        self.browser("go", "Add a machine")
        self.browser("shown", "Other machines cannot reach this server yet")
        self.browser("close")
        terminal.type("\x04")
        terminal.end()
        print(terminal.shown())

    def serve(self):
        """The coordinator serves the network."""
        command, shown = self.story.next("helix key new", "hall")
        terminal = self.hall.terminal(command)
        terminal.end()
        terminal.shows(shown)
        slow_down(self.hall)
        slow_down(self.den)
        self.serve_command, shown = self.story.next("helix serve", "hall")
        self.server = self.hall.terminal(self.serve_command)
        self.server.shows(shown)
        self.times["serve_s"] = self.until(lambda cluster: cluster["serving"])
        self.alone = self.ask(STORY)
        check(self.alone.tokens > 4 * KILL_AT, f"the story is too short to be broken off: {self.alone}")

    def ask(self, question, on_piece=None):
        with self.hall.network():
            return self.api.ask(question, ANSWER_TOKENS, None, on_piece)

    def get(self, path):
        with self.hall.network():
            return self.api.get(path)

    def until(self, condition):
        """Waits until it is so of the cluster; the seconds that it took."""
        began, seen = time.monotonic(), None
        while time.monotonic() - began < LIMIT_S:
            with contextlib.suppress(OSError, demo.DemoError):
                seen = self.get("/helix/cluster")
                if condition(seen):
                    return time.monotonic() - began
            time.sleep(0.02)
        raise SystemExit(f"it does not come to pass after {LIMIT_S} s: {seen}")

    @staticmethod
    def den_serves(cluster):
        return any(one["name"] == "den" and one["ready"] and one["layers"][0] < one["layers"][1] for one in cluster["workers"])

    def second_machine(self):
        """den finds the coordinator, is let in by the code that the page shows, and computes."""
        self.browser("open", f"http://127.0.0.1:{PORT}")
        self.browser("go", "Add a machine")
        code, line = self.browser("code")
        check(line.startswith(f"helix worker --join {ADDRESSES['hall']}:{PORT}") and line.endswith(" --pair"), f"the page says {line!r}")
        self.browser("scrollTo", "On the other machine")
        self.browser("picture", "first-minutes-pairing")
        self.installed(self.den, "den")
        self.worker_command, shown = self.story.next("helix worker", "den")
        began = time.monotonic()
        self.worker = self.den.terminal(self.worker_command)
        self.worker.said(r"Join it\? \[Y/n\]")
        self.times["find_s"] = time.monotonic() - began
        self.worker.type("y\r")
        self.worker.said("Pairing code")
        self.worker.type(code + "\r")
        self.times["join_s"] = self.until(self.den_serves)
        self.worker.shows(shown)
        self.browser("shown", "den serves layers")
        self.browser("close")

    def stories(self, die):
        """Four stories at once, of which some are told on den; it dies in their middle where `die` can make it."""
        pieces, deaths = {}, {}

        def tell(number):
            def on_piece(count, id_):
                pieces[number] = (count, id_)
            return self.ask(STORY, on_piece)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            told = [pool.submit(tell, number) for number in range(4)]
            check(wait_until(lambda: len(pieces) == 4 and min(count for count, _ in pieces.values()) >= KILL_AT, LIMIT_S),
                  f"the stories do not begin: {pieces}")
            cluster = self.get("/helix/cluster")
            names = {one["id"]: one["name"] for one in cluster["workers"]}
            on_den = {one["id"] for one in cluster["requests"] if one["state"] == "running"
                      and "den" in (names.get(stage["worker"]) for stage in one["pipeline"])}
            if on_den:
                deaths = dict(pieces)
                die()
            answers = [one.result(LIMIT_S) for one in told]
        for answer in answers:
            check((answer.text, answer.tokens) == (self.alone.text, self.alone.tokens),
                  f"a story is another one than hall alone told: {answer}, {self.alone}")
        return [one for one in answers if one.id in on_den], deaths

    def death(self):
        """den is killed in the middle of stories, and comes back without a code."""
        command, _ = self.story.next("kill -9", "den")
        self.browser("open", f"http://127.0.0.1:{PORT}")
        self.browser("go", "Cluster")
        self.browser("live")
        for _ in range(TRIES):
            lost, pieces = self.stories(lambda: self.den.terminal(command).end())
            if lost:
                break
        check(lost, "no story was told on den")
        check(all(count < self.alone.tokens for count, _ in pieces.values()), f"the stories were over: {pieces}")
        self.worker.end(expect=None)
        self.times["longest_pause_s"] = max(one.longest_gap_s for one in lost)
        self.times["stories_lost_den"] = len(lost)
        self.browser("shown", "den was lost")
        command, shown = self.story.next("helix worker", "den")
        self.worker = self.den.terminal(command)
        self.worker.said(r"Join it\? \[Y/n\]")
        self.worker.type("y\r")
        self.times["rejoin_s"] = self.until(self.den_serves)
        self.worker.shows(shown)
        self.both_at_work()

    def both_at_work(self):
        """Other stories, so that none is where its beginning is known; the page shows that both machines tell them."""
        def tell(who):
            return [self.ask(STORY.replace("robot", who)).text for _ in range(3)]
        with concurrent.futures.ThreadPoolExecutor(len(HEROES)) as pool:
            told = [pool.submit(tell, who) for who in HEROES]
            self.until(lambda cluster: len({stage["worker"] for one in cluster["requests"] if one["state"] == "running"
                                            for stage in one["pipeline"]}) == 2)
            time.sleep(2)  # the picture has rates of the last seconds
            self.browser("picture", "first-minutes-cluster")
            check(all(len(set(one.result(LIMIT_S))) == 1 for one in told), "with den back, a story is told in two ways")

    def what_if(self):
        self.browser("go", "What if")
        before, after = self.browser("whatIf", ADDED)
        check(before > 0 and after > before, f"another {ADDED} would change {before} tokens/s to {after}")
        self.times["what_if_gain"] = after / before
        self.browser("picture", "first-minutes-what-if")
        self.browser("close")

    # ---- the page's feed
    def work_s(self):
        """The processor's time that the coordinator has taken so far."""
        said = self.hall.run("sh", "-c", "cat /proc/$(pidof helix)/task/*/schedstat")
        return sum(int(line.split()[0]) for line in said.splitlines()) / 1e9

    def window(self, tokens):
        """Seconds, work in them, and tokens that came meanwhile; tokens: how many came so far, by each who asks."""
        work, came, began = self.work_s(), sum(tokens), time.monotonic()
        time.sleep(WINDOW_S)
        return time.monotonic() - began, self.work_s() - work, sum(tokens) - came

    def feed(self):
        """What the page costs a coordinator that computes nothing itself, while stories are told: with it and without, in turns. On a
        machine that has other work, too, tokens come now faster and now slower, so the work is that for a token, times their rate."""
        self.server.interrupt()
        self.server = self.hall.terminal(self.serve_command + " --no-worker")
        self.until(lambda cluster: cluster["serving"] and self.den_serves(cluster))
        over, tokens = threading.Event(), [0] * ASKERS

        def keep_asking(number):
            def on_piece(_count, _id):
                tokens[number] += 1
            while not over.is_set():
                self.ask(STORY, on_piece)
        without, with_page = [], []
        with concurrent.futures.ThreadPoolExecutor(ASKERS) as pool:
            asking = [pool.submit(keep_asking, number) for number in range(ASKERS)]
            try:
                for _ in range(WINDOWS):
                    without.append(self.window(tokens))
                    self.browser("open", f"http://127.0.0.1:{PORT}")
                    self.browser("go", "Cluster")
                    self.browser("live")
                    with_page.append(self.window(tokens))
                    self.browser("close")
            finally:
                over.set()
            for one in asking:
                one.result(LIMIT_S)
        print("seconds, work and tokens without the page", without, "and with it", with_page)
        shares = [[work / came for _, work, came in windows] for windows in (without, with_page)]  # of seconds, for a token
        before, after = map(statistics.median, shares)
        rate = statistics.median(came / seconds for seconds, _, came in without + with_page)
        # The standard error of a median is a quarter more than that of a mean.
        error = 1.25 * math.sqrt(sum(statistics.variance(one) for one in shares) / WINDOWS)
        self.times.update(tokens_per_s=rate, coordinator_share=before * rate, feed_share=(after - before) * rate, feed_error=error * rate)

    def purge(self):
        self.worker.interrupt()
        self.server.interrupt()
        command, shown = self.story.next("apt purge", "hall", "den")
        swept, _ = self.story.next("rm -rf", "hall", "den")
        self.story.end()
        for machine in (self.hall, self.den):
            terminal = machine.terminal(command, "root")
            terminal.said(r"Do you want to continue\? \[Y/n\]")
            terminal.type("y\r")
            print(terminal.end())
            terminal.shows(shown)
            machine.terminal(swept).end()
            machine.run("sh", "-c", "rm /root/helix_*.deb")
            clean_system.nothing_is_left(machine)
            check(not machine.helix_runs(), "what is purged still runs")


# What the page tells of a walk: words, what was measured, and what is promised.
ROWS = (("`apt install`", "{install_s:.1f} s", ""),
        ("from `apt install` to the first token of `helix run`", "{first_token_s:.1f} s", "60 s"),
        ("`helix serve` until it serves", "{serve_s:.1f} s", ""),
        ("`helix worker` until it has found **hall**", "{find_s:.1f} s", ""),
        ("from the code to a **den** that has its layers and computes", "{join_s:.1f} s", "20 s"),
        ("the longest pause of an answer whose machine was killed", "{longest_pause_s:.1f} s", ""),
        ("`helix worker` until **den** computes again", "{rejoin_s:.1f} s", ""),
        ("of one core, while somebody watches the cluster on the page", "{feed_share:.2%} ± {feed_error:.2%}", "1 %"))


def write_times(times, model, folder):
    cores = os.cpu_count()
    (folder / "times.json").write_text(json.dumps({"cores": cores, "model_bytes": model.stat().st_size, "marks": MARKS, **times}, indent=2) + "\n")
    lines = ["| what | took | at most |", "| --- | --- | --- |"]
    lines += [f"| {what} | {form.format(**times).replace('%', ' %')} | {mark} |" for what, form, mark in ROWS]
    table = "\n".join(lines)
    (folder / "times.md").write_text(table + "\n")
    print(f"{cores} cores, a model of {model.stat().st_size / 1e6:.1f} MB\n{table}")


def missed(times):
    return [f"{key}: {times[key]:.4g}, at most {mark} is promised" for key, mark in MARKS.items() if times[key] > mark]


def walk(deb, model, work):
    pictures = work / "pictures"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    page_test.install(work / "browser")
    shutil.copy(pathlib.Path(__file__).with_name("walk_page.mjs"), work / "browser")
    times = {}
    with tempfile.TemporaryDirectory(prefix="helix-walk-", dir=clean_system.quick_folder()) as folder:
        roots = make_roots(deb, pathlib.Path(folder))
        with machines_of(roots, model) as (hall, den):
            browser = Browser(hall, work / "browser", pictures)
            try:
                steps = Walk(hall, den, browser, times)
                for step in (steps.first_token, steps.serve, steps.second_machine, steps.death, steps.what_if, steps.feed, steps.purge):
                    began = time.monotonic()
                    step()
                    print(f"== {step.__name__}: {time.monotonic() - began:.1f} s", flush=True)
            finally:
                browser.end()
    for picture in sorted(pictures.glob("*.png")):
        print(picture.name, small_png.shrink(picture, MOST_PICTURE_BYTES), "bytes")
    write_times(times, model, work)
    check(not missed(times), "; ".join(missed(times)))


def main():
    packages, model, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    if os.environ.get("HELIX_SWEEPS") != "all":
        skip("the walk is taken with whole sweeps only (HELIX_SWEEPS=all)")
    for tool in ("mmdebstrap", "systemd-nspawn", "nsenter", "ip"):
        if not shutil.which(tool):
            skip(f"no {tool}")
    if os.geteuid() != 0:
        skip("not root")
    if subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], check=False).returncode != 0:
        skip("no rights to make namespaces, as in a container without privileges")
    found = list(packages.glob("helix_*.deb"))
    check(len(found) == 1, f"{packages} has {len(found)} packages helix, expected one")
    walk(found[0], model, work)


if __name__ == "__main__":
    main()
