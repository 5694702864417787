"""A coordinator, its workers and gateways as processes that can be killed, stopped and started again."""
import asyncio
import ctypes
import json
import os
import pathlib
import random
import signal
import socket
import subprocess


def die_with_parent():
    """In the child: it ends with this script, whatever ends that (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port():
    """A port that nobody listens at, below those that the system gives to clients' connections."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def tiny_model(helix, folder, shape="tiny"):
    """A small synthetic model of this shape in the folder; its path."""
    path = str(pathlib.Path(folder) / "tiny.gguf")
    subprocess.run([helix, "model", "synth", "--shape", shape, "--quant", "q8_0", path], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def write_placement(folder, num_layers, pieces):
    """A placement in which w0, w1, ... hold these pieces, [begin, end) of the layers; its path."""
    path = pathlib.Path(folder) / "placement.json"
    path.write_text(json.dumps({"schema": "helix-layout-1", "num_layers": num_layers, "links": [],
                                "layers": {str(i): list(piece) for i, piece in enumerate(pieces)},
                                "node_names": {str(i): f"w{i}" for i in range(len(pieces))}}), encoding="utf-8")
    return str(path)


def vulkan_devices(helix):
    """The Vulkan devices of this machine that compute rightly, as --device takes them. Software ones are among them."""
    said = subprocess.run([helix, "devices", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [device["name"] for device in json.loads(said)["devices"]
            if device["name"].startswith("vulkan:") and "refused" not in device]


class Cluster:
    def __init__(self, helix, model, workers, folder, memory, speed, serve=(), roles=(), devices=(), speeds=(),
                 gateways=0, coordinators=1):
        self.helix, self.model, self.folder = helix, model, pathlib.Path(folder)
        self.names = [f"w{i}" for i in range(workers)]
        self.memory, self.speed, self.serve = memory, speed, list(serve)
        self.roles = dict(zip(self.names, roles))
        self.devices = dict(zip(self.names, devices))  # others compute on CPUs
        self.speeds = dict(zip(self.names, speeds))    # others have the one speed
        self.port = free_port()
        # Their ports: one leads, where there are several, and etcd says which.
        self.coordinators = {f"coordinator{i or ''}": free_port() if i else self.port for i in range(coordinators)}
        self.etcd = free_port() if coordinators > 1 else None
        self.gateways = {f"g{i}": free_port() for i in range(gateways)}  # their ports
        self.processes = {}
        self.log_begins = {}  # where in its log each process began that runs now

    def start(self):
        if self.etcd:
            self.start_etcd()
        for name in self.coordinators:
            self.start_coordinator(name)
        for name in self.names:
            self.start_worker(name)
        for name in self.gateways:
            self.start_gateway(name)

    def ports(self):
        """Where clients ask."""
        return list(self.gateways.values()) or [self.port]

    def start_gateway(self, name):
        self.run(name, ["gateway", "--name", name, "--listen", f"127.0.0.1:{self.gateways[name]}"] + self.join())

    def join(self):
        """Where a coordinator may be."""
        return [word for port in self.coordinators.values() for word in ("--join", f"127.0.0.1:{port}")]

    def start_etcd(self):
        """A real one, of one member, that keeps what it has in the folder."""
        folder = self.folder / "etcd"
        client, peer = f"http://127.0.0.1:{self.etcd}", f"http://127.0.0.1:{free_port()}"
        with open(self.folder / "etcd.log", "a", encoding="utf-8") as log:
            self.processes["etcd"] = subprocess.Popen(
                ["etcd", "--name", "t", "--data-dir", str(folder), "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"t={peer}",
                 "--unsafe-no-fsync"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def start_coordinator(self, name="coordinator"):
        leader = ["--leader", f"etcd://127.0.0.1:{self.etcd}/chaos"] if self.etcd else []
        self.run(name, ["serve", "--model", self.model, "--no-worker", "--listen", f"127.0.0.1:{self.coordinators[name]}",
                        "--min-workers", str(len(self.names))] + leader + self.serve)

    def cache(self, name):
        """The folder in which the worker keeps weights."""
        return self.folder / "cache"

    def start_worker(self, name):
        self.run(name, ["worker", "--name", name, "--host-id", name] + self.join() + [
                        "--threads", "1", "--memory", str(self.memory),
                        "--speed", str(self.speeds.get(name, self.speed)),
                        "--role", self.roles.get(name, "both"),
                        "--device", self.devices.get(name, "cpu"), "--cache", str(self.cache(name))])

    def leads(self, name):
        """Whether this coordinator has led since it was started last."""
        said = (self.folder / f"{name}.log").read_bytes()[self.log_begins[name]:]
        return not self.etcd or b"this coordinator leads" in said

    def run(self, name, arguments):
        environment = dict(os.environ, LP_NUM_THREADS="1")  # a device of software has one thread, too
        log = self.folder / f"{name}.log"
        self.log_begins[name] = log.stat().st_size if log.exists() else 0
        with open(self.folder / f"{name}.log", "a", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen([self.helix] + arguments, stdin=subprocess.DEVNULL, stdout=log,
                                                    stderr=log, env=environment, preexec_fn=die_with_parent)

    def signal(self, name, what):
        self.processes[name].send_signal(what)
        if what == signal.SIGKILL:
            self.processes[name].wait()

    async def ready(self, limit_s=60):
        """Waits until the cluster answers a request, wherever it is asked."""
        for port in self.ports():
            await self.answers(port, limit_s, "coordinator")

    async def answers(self, port, limit_s, needs=None):
        """Waits until somebody answers there; needs: a process without which that will not happen."""
        for _ in range(int(limit_s / 0.2)):
            if needs and self.processes[needs].poll() is not None:
                raise SystemExit("the coordinator ended:\n" + self.log("coordinator")[-3000:])
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                status = await reader.readline()
                writer.close()
                if b" 200 " in status:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.2)
        raise SystemExit("the cluster was not ready:\n" + self.log("coordinator")[-3000:])

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
                process.wait()
