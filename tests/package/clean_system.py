"""A minimal Debian of its own, as this machine's release has it, that boots with systemd in a container."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "chaos"))
from cluster import free_port  # noqa: E402,F401

SERVICES = ("helix-coordinator", "helix-worker@den", "helix-gateway")


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


def check(condition, what):
    if not condition:
        raise SystemExit(what)


def wait_until(condition, seconds):
    """Whether the condition came true within that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def release():
    """The code name of the Debian that this is."""
    said = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    if said.get("ID") != "debian":
        skip("this is no Debian")
    return said["VERSION_CODENAME"].strip('"')


def dependencies(deb):
    said = subprocess.run(["dpkg-deb", "--field", deb, "Depends"], check=True, capture_output=True, text=True).stdout
    return [re.split(r"[ (|:]", one.strip())[0] for one in said.split(",")]


def install_minimal(root, packages, *options):
    """The essential packages and these, from where this machine has its own. options: of mmdebstrap."""
    sources = [path for path in ("/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources") if os.path.exists(path)]
    made = subprocess.run(["mmdebstrap", "--mode=root", "--variant=essential", "--include=" + ",".join(packages), *options,
                           release(), root, *sources], check=False, capture_output=True, text=True)
    if made.returncode == 0:
        return
    print(made.stderr[-3000:])
    if re.search(r"Could not connect|Temporary failure|Unable to connect|Could not resolve", made.stderr):
        skip("the archive of Debian cannot be reached")
    raise SystemExit("mmdebstrap failed")


class System:
    """A system that has booted."""

    def __init__(self, root, init):
        self.root, self.init = pathlib.Path(root), init

    def run(self, *command, expect=0):
        """What a command says that runs in it."""
        done = subprocess.run(["nsenter", "--target", str(self.init), "--all", "--", *command], check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"})
        check(expect is None or done.returncode == expect, f"{command} ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def property(self, service, name):
        return self.run("systemctl", "show", "--value", "--property", name, service).strip()

    def log(self, service):
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit", service)


def init_of(nspawn):
    """The process that is number 1 in the container, once it is there."""
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            said = status.read_text()
            numbers = re.search(r"NSpid:\s*(.*)", said).group(1).split()
            if len(numbers) > 1 and numbers[-1] == "1" and descends(status.parent.name, nspawn):
                return int(status.parent.name)
    return None


def descends(pid, ancestor):
    while pid not in ("0", "1"):
        if int(pid) == ancestor:
            return True
        pid = re.search(r"PPid:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)
    return False


@contextlib.contextmanager
def booted(root, *options):
    """The system of that folder, until the block ends. It shares this machine's network, unless options of systemd-nspawn say otherwise."""
    with tempfile.TemporaryFile("w+") as log:
        nspawn = subprocess.Popen(["systemd-nspawn", "--quiet", "--keep-unit", "--register=no", "--directory", root, *options, "--boot"],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            found = []

            def ready():
                if nspawn.poll() is None and not found and (init := init_of(nspawn.pid)):
                    found.append(System(root, init))
                return nspawn.poll() is not None or (found and found[0].run(
                    "systemctl", "is-system-running", expect=None).strip() in ("running", "degraded"))

            if not wait_until(ready, 60) or nspawn.poll() is not None:
                log.seek(0)
                print(log.read()[-3000:])
                skip("no system boots in a container here")
            yield found[0]
        finally:
            if nspawn.poll() is None:
                nspawn.terminate()
            nspawn.wait(60)


def refuses_without_model(system):
    """The service says what is missing, and gives up after a few tries."""
    system.run("mkdir", "-p", "/run/systemd/system/helix-coordinator.service.d")
    system.run("sh", "-c", "printf '[Service]\\nRestartSec=100ms\\n' >/run/systemd/system/helix-coordinator.service.d/quick.conf")
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "start", "helix-coordinator")
    check(wait_until(lambda: system.property("helix-coordinator", "ActiveState") == "failed"
                     and system.property("helix-coordinator", "NRestarts") != "0", 30),
          f"without a model the service does not give up: {system.log('helix-coordinator')}")
    check("/var/lib/helix/model.gguf: cannot open" in system.log("helix-coordinator"),
          f"the log does not say that there is no model: {system.log('helix-coordinator')}")
    print("without a model: given up after", system.property("helix-coordinator", "NRestarts"), "restarts")
    system.run("rm", "-r", "/run/systemd/system/helix-coordinator.service.d")
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "reset-failed", "helix-coordinator")


def refuses_mistakes(system):
    """A configuration that is wrong is named, and not tried again."""
    config = system.root / "etc/helix/helix.toml"
    shipped = config.read_text()
    config.write_text(shipped + "\nmodell = 1\n")
    system.run("systemctl", "start", "helix-coordinator", expect=None)
    check(wait_until(lambda: system.property("helix-coordinator", "ActiveState") == "failed", 30), "a wrong configuration is not refused")
    check(system.property("helix-coordinator", "NRestarts") == "0", "a wrong configuration is tried again")
    log = system.log("helix-coordinator")
    check(re.search(r'helix\.toml:\d+: .*modell', log), f"the log does not name the mistake: {log}")
    system.run("systemctl", "reset-failed", "helix-coordinator")
    config.write_text(shipped)


def configure(system, model, port, gateway_port):
    """The shipped files, with ports that are free, and with the worker as the only one that computes."""
    shutil.copy(model, system.root / "var/lib/helix/model.gguf")
    config = system.root / "etc/helix/helix.toml"
    config.write_text(config.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}") + "\nno-worker = true\nmin-workers = 1\n")
    for example, file, more in (("worker", "worker-den", '\nmemory = "500MB"\n'), ("gateway", "gateway", "")):
        shipped = (system.root / f"usr/share/doc/helix/examples/service/{example}.toml").read_text()
        (system.root / f"etc/helix/{file}.toml").write_text(
            shipped.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("127.0.0.1:8090", f"127.0.0.1:{gateway_port}") + more)


def ask(base, key=None):
    body = {"messages": [{"role": "user", "content": "What is a pipeline?"}], "temperature": 0, "max_tokens": 20}
    request = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    if key:
        request.add_header("Authorization", "Bearer " + key)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())["choices"][0]["message"]["content"]


def is_ready(base):
    try:
        with urllib.request.urlopen(base + "/health/ready", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def answers(system, base):
    check(wait_until(lambda: is_ready(base), 60),
          "the services do not serve:\n" + "\n".join(system.log(service) for service in SERVICES))
    said = ask(base)
    check("machines" in said, f"not the model's answer: {said!r}")
    return said


def processes(system):
    return [system.property(service, "MainPID") for service in SERVICES]


def nothing_is_left(system):
    named = system.run("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", ")", "-prune", "-o", "-name", "*helix*", "-print")
    check(not named, f"left after the purge: {named}")
    owned = system.run("find", "/", "-xdev", "-nouser", "-print")
    check(not owned, f"left without an owner: {owned}")
    for table in ("passwd", "group"):
        check("helix" not in system.run("getent", table), f"the purge leaves helix in {table}")


def quick_folder():
    """Where a system is made soonest: in memory, where there is enough of it."""
    memory = "/dev/shm"
    return memory if os.path.isdir(memory) and shutil.disk_usage(memory).free > 2 << 30 else None


def try_packages(helix, symbols, model):
    with tempfile.TemporaryDirectory(prefix="helix-system-", dir=quick_folder()) as folder:
        root = pathlib.Path(folder) / "root"
        install_minimal(root, ["systemd", "systemd-sysv", "udev", *dependencies(helix)])
        with booted(root) as system:
            use(system, helix, symbols, model)


def use(system, helix, symbols, model):
    for deb in (helix, symbols):
        shutil.copy(deb, system.root / "root")
    debs = [f"/root/{helix.name}", f"/root/{symbols.name}"]
    print(system.run("dpkg", "--install", *debs))
    for service in SERVICES:
        check(system.run("systemctl", "is-enabled", service, expect=None).strip() == "disabled", f"{service} is enabled")
        check(system.property(service, "ActiveState") == "inactive", f"{service} was started")
        print(system.run("systemd-analyze", "verify", service + ".service"))
    groups = system.run("id", "--name", "--groups", "helix").split()
    check({"render", "video"} <= set(groups), f"the user helix is only in {groups}")
    refuses_mistakes(system)
    refuses_without_model(system)

    port, gateway_port = free_port(), free_port()
    base, gateway = (f"http://127.0.0.1:{one}" for one in (port, gateway_port))
    configure(system, model, port, gateway_port)
    system.run("systemctl", "enable", "--now", *SERVICES)
    said = answers(system, base)
    print("answer:", repr(said))
    check(answers(system, gateway) == said, "the gateway gives another answer")

    before = processes(system)
    print(system.run("dpkg", "--install", *debs))
    after = processes(system)
    check("0" not in after and not set(before) & set(after), f"an upgrade does not restart what runs: {before}, {after}")
    check(f"127.0.0.1:{port}" in (system.root / "etc/helix/helix.toml").read_text(), "an upgrade replaces the configuration")
    print("after an upgrade:", repr(answers(system, base)), repr(answers(system, gateway)))

    system.run("rm", *debs)
    print(system.run("dpkg", "--remove", "helix-dbg", "helix"))
    check(not is_ready(base) and not is_ready(gateway), "what is removed still serves")
    check((system.root / "var/lib/helix/model.gguf").exists(), "removing takes the state, which only purging may")
    print(system.run("dpkg", "--purge", "helix-dbg", "helix"))
    nothing_is_left(system)
    print("purged, nothing is left")
