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
        end = time.time() + seconds
        while time.time() < end:
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.2)
        self.stop()
        with open(self.log.name) as log:
            raise SystemExit(f"{path} did not answer within {seconds} s:\n{log.read()[-3000:]}")

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
