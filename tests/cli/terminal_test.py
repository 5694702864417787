#!/usr/bin/env python3
"""helix run and helix top as people use them: in a terminal, and in pipes.

usage: terminal_test.py HELIX_BINARY MODEL
"""
import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time

WITHIN_S = 60


class StandIn(http.server.BaseHTTPRequestHandler):
    """A server whose answers are hostile, and, when asked to go on, have no end."""

    protocol_version = "HTTP/1.1"
    left = threading.Event()  # somebody did not wait for the end of an answer

    def log_message(self, *_):
        pass

    def piece(self, delta):
        data = json.dumps({"choices": [{"delta": delta, "finish_reason": None}]})
        text = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        question = asked["messages"][-1]["content"]
        if question == "refuse":
            body = b'{"error": {"message": "no \\u001b[2J for you"}}'
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            self.piece({"reasoning_content": "let me \x1b[2J think"})
            self.piece({"content": "red\x1b[31m \u202eand\x9b5m more\n"})
            self.piece({"content": f"{len(asked['messages'])} messages\n"})
            while question == "go on":
                self.piece({"content": "on "})
                time.sleep(0.02)
        except OSError:
            StandIn.left.set()
            return
        usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
        end = f"data: {usage}\n\ndata: [DONE]\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(end), end))


class Terminal:
    """A program at a terminal of the test's own."""

    def __init__(self, command, environment=None):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(environment or {})
            os.execv(command[0], command)

    def wait_for(self, text, after=0):
        """Where the text ends, once it is shown behind a place."""
        until = time.monotonic() + WITHIN_S
        while True:
            found = self.shown.find(text, after)
            if found >= 0:
                return found + len(text)
            assert time.monotonic() < until, f"no {text!r} in {self.shown[after:][-2000:]!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended before {text!r}: {self.shown[after:]!r}") from None

    def type(self, text):
        os.write(self.fd, text.encode())

    def prompt(self, after=0):
        """Where the prompt ends, once keys are read: before that, Ctrl-D is one for the terminal itself."""
        at = self.wait_for(">>> ", after)
        until = time.monotonic() + WITHIN_S
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            assert time.monotonic() < until, "no keys are read"
            time.sleep(0.01)
        return at

    def code(self):
        """How it ended; what it shows until then is kept."""
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it does not end: {self.shown[-2000:]!r}")


MARK = f"TERMINAL_TEST={os.getpid()}"  # in the environment of all that is started here


def servers():
    """The processes that are "serve", of those that were started here."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            environment = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [b"serve"] and MARK.encode() in environment:
            found.append(int(pid))
    return found


def all_gone():
    until = time.monotonic() + WITHIN_S
    while servers():
        assert time.monotonic() < until, "a server is left"
        time.sleep(0.05)


def helix(binary, *words, stdin=""):
    return subprocess.run([binary, *words], input=stdin, capture_output=True, text=True, timeout=WITHIN_S, check=False)


def pipes(binary, model):
    once = ["run", model, "--temperature", "0", "--max-tokens", "24", "--serve=--threads=1"]
    plain = helix(binary, *once, "What is Helix?")
    assert plain.returncode == 0, plain.stderr
    assert len(plain.stdout) > 20 and "\x1b" not in plain.stdout, plain.stdout
    as_json = helix(binary, *once, "--json", stdin="What is Helix?")
    told = json.loads(as_json.stdout)
    assert told["answer"] + "\n" == plain.stdout, (told, plain.stdout)
    assert told["answer_tokens"] > 0 and told["prompt_tokens"] > 0 and told["ttft_s"] > 0, told

    empty = helix(binary, *once)
    assert empty.returncode == 1 and "no question" in empty.stderr, empty
    missing = helix(binary, "run", "/nowhere.gguf", "hi")
    assert missing.returncode == 1 and "/nowhere.gguf" in missing.stderr, missing
    wrong = helix(binary, *once, "--serve=--memry=1GB", "hi")
    assert wrong.returncode == 1 and "--memory" in wrong.stderr, wrong
    all_gone()


def conversation(binary, url):
    chat = Terminal([binary, "run", "--server", url])
    at = chat.prompt()
    chat.type("hello\r")
    at = chat.wait_for("tokens", chat.wait_for("1 messages", at))
    shown = chat.shown
    assert "\\x1b[2J think" in shown and "red\\x1b[31m" in shown, shown
    assert "\u202e" not in shown and "\x1b[31m" not in shown and "\x9b" not in shown, shown
    at = chat.prompt(at)
    chat.type("go on\r")
    at = chat.wait_for("on on on", at)
    chat.type("\x03")
    at = chat.wait_for("(stopped)", at)
    assert StandIn.left.wait(WITHIN_S), "the server still answers"
    at = chat.prompt(at)
    chat.type("/system be brief\r")
    at = chat.prompt(chat.wait_for("is set", at))
    chat.type('"""a\rb"""\r')
    at = chat.wait_for("6 messages", at)  # system, two turns of two, and this one
    at = chat.prompt(at)
    chat.type("refuse\r")
    at = chat.wait_for("no \\x1b[2J for you", at)
    at = chat.prompt(at)
    chat.type("/clear\r")
    at = chat.prompt(at)
    chat.type("again\r")
    at = chat.prompt(chat.wait_for("2 messages", at))
    chat.type("\x04")
    assert chat.code() == 0, chat.shown[-300:]


def question_without_model(binary, url):
    """With --server, words that are no model of it are the question."""
    asked = helix(binary, "run", "--server", url, "what is", "it?")
    assert asked.returncode == 0 and "1 messages" in asked.stdout, asked


def own_server(binary, model):
    chat = Terminal([binary, "run", model, "--max-tokens", "8"])
    at = chat.prompt()
    url = re.search(r"http://127\.0\.0\.1:\d+", chat.shown).group(0)
    top = Terminal([binary, "top", "--server", url], {"TERM": "xterm", "NO_COLOR": "1"})
    top.wait_for("q ends it", top.wait_for("serving"))
    top.type("q")
    assert top.code() == 0, top.shown
    assert top.shown.endswith("\x1b[?25h\x1b[?1049l"), "the terminal is not as it was"
    status = helix(binary, "status", "--server", url)
    assert status.returncode == 0 and "MACHINE" in status.stdout and "\x1b" not in status.stdout, status
    assert json.loads(helix(binary, "status", "--server", url, "--json").stdout)["serving"] is True

    chat.type("hi\r")
    chat.wait_for("the first after", at)
    assert len(servers()) == 1
    os.kill(chat.pid, signal.SIGKILL)  # it cannot tidy up
    chat.code()
    all_gone()
    nobody = helix(binary, "status", "--server", url)
    assert nobody.returncode == 1 and "is \"helix serve\" running there?" in nobody.stderr, nobody


def main():
    binary, model = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    for name in [name for name in os.environ if name.startswith("HELIX_")]:
        del os.environ[name]
    os.environ.update([MARK.split("=")])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipes(binary, model)
    conversation(binary, f"http://127.0.0.1:{server.server_port}")
    question_without_model(binary, f"http://127.0.0.1:{server.server_port}")
    own_server(binary, model)
    print("ok")


if __name__ == "__main__":
    main()
