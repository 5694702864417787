"""Servers as processes for the other scripts: started, awaited, their CPU time read, stopped."""
import contextlib
import http.client
import os
import socket
import subprocess
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NotReady(SystemExit):
    """The trouble, and the end of what was printed. ended: a process had ended by itself."""

    def __init__(self, trouble, printed, ended):
        super().__init__(f"{trouble}:\n{printed}")
        self.trouble, self.ended = trouble, ended


class Served:
    """Processes that together answer HTTP on one port of this machine; what they print goes to a file."""

    def __init__(self, log):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = open(log, "w")
        self.processes = []

    def start(self, command):
        self.processes.append(subprocess.Popen(command, stdout=self.log, stderr=self.log))

    def wait(self, path, seconds):
        """Until a GET of the path is answered with 200; else everything is stopped and NotReady raised."""
        end = time.time() + seconds
        ended = []
        while time.time() < end and not ended:
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.2)
            ended = [process for process in self.processes if process.poll() is not None]
        self.stop()
        trouble = f"{path} did not answer within {seconds:.0f} s"
        if ended:
            trouble = f"{ended[0].args[0]} ended with exit code {ended[0].returncode}"
        raise NotReady(trouble, self.printed(), bool(ended))

    def printed(self):
        """The end of what the processes printed."""
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            return log.read()[-3000:]

    def cpu_seconds(self):
        ticks = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
