#!/usr/bin/env python3
"""The manifests of containers/kubernetes are what Kubernetes' schemas say; and what they would start serves, as processes: the same
configuration, arguments and keys, with the command that makes keys of a secret into files of their user.

usage: kubernetes_test.py HELIX MODEL WORK_FOLDER

No cluster of Kubernetes is started. Exits 77 (skipped) without node, npm or the packages.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MANIFEST = HERE.parent.parent / "containers" / "kubernetes" / "helix.yaml"
sys.path[:0] = [str(HERE.parent / "chaos"), str(HERE.parent / "package")]
import clean_system  # noqa: E402
from clean_system import check, free_port, skip, wait_until  # noqa: E402

KEY = "a-key-for-a-pod"


def install(work):
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            skip("no " + tool)
    work.mkdir(parents=True, exist_ok=True)
    for name in ("kubernetes_test.mjs", "package.json", "package-lock.json"):
        shutil.copy(HERE / name, work)
    lock, installed = work / "package-lock.json", work / "installed.lock"
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        return
    if subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=work, check=False).returncode != 0:
        skip("npm ci could not get the packages")
    shutil.copy(lock, installed)


def checked_manifests(work):
    done = subprocess.run(["node", "kubernetes_test.mjs", MANIFEST], cwd=work, check=False, text=True, capture_output=True)
    check(done.returncode == 0, done.stderr)
    said = json.loads(done.stdout)
    print("what the schemas say:", ", ".join(said["kinds"]))
    return said


def keys(helix, folder):
    """The files of the secrets as pods see them, made as the manifest's head says, and what its command makes of them."""
    made = folder / "made"
    made.mkdir(mode=0o700)
    for more in ([], *(["--worker", f"helix-{pod}-*", "--out", made / f"{pod}.key"] for pod in ("worker", "gateway"))):
        subprocess.run([helix, "key", "new", "--file", made / "coordinator.key", *more], check=True, stdout=subprocess.DEVNULL)
    command = re.search(r'command: \["sh", "-c", "(.*?)"\]', MANIFEST.read_text(encoding="utf-8")).group(1)
    for pod, names in (("coordinator", ("coordinator.key", "coordinator.key.allow")), ("worker", ("worker.key",)), ("gateway", ("gateway.key",))):
        secret, own = folder / pod / "secret", folder / pod / "keys"
        secret.mkdir(parents=True)
        own.mkdir()
        own.chmod(0o2777)
        for name in names:
            shutil.copy(made / name, secret)
            (secret / name).chmod(0o440)
        subprocess.run(["sh", "-c", command.replace("/secret/", f"{secret}/").replace("/keys/", f"{own}/")], check=True)


def serve(helix, model, manifests, folder):
    keys(helix, folder)
    port, gateway_port = free_port(), free_port()
    own, gateways = manifests["config"].split("[gateway]")
    for there, here in ((re.search(r'^model = "(.*)"', own, re.MULTILINE).group(1), model), ('"0.0.0.0:8080"', f'"0.0.0.0:{port}"'),
                        ('"0.0.0.0:9090"', f'"0.0.0.0:{free_port()}"'), ('"helix:8080"', f'"127.0.0.1:{port}"'),
                        ("/var/lib/helix", str(folder / "state")), ("/keys/own/coordinator", str(folder / "coordinator/keys/own/coordinator")),
                        ("/keys/own/worker", str(folder / "worker/keys/own/worker"))):
        check(there in own, f"the configuration has no {there}")
        own = own.replace(there, here)
    for there, here in (('"helix:8080"', f'"127.0.0.1:{port}"'), ('"0.0.0.0:8080"', f'"0.0.0.0:{gateway_port}"'),
                        ("/keys/own/gateway", str(folder / "gateway/keys/own/gateway"))):
        check(there in gateways, f"the configuration of gateways has no {there}")
        gateways = gateways.replace(there, here)
    config = f"{own}[gateway]{gateways}"
    file = folder / "helix.toml"
    file.write_text(config, encoding="utf-8")
    arguments = {container["name"]: [str(file) if word == "/etc/helix/helix.toml" else word for word in container["args"]]
                 for container in manifests["containers"]}
    started = []
    base, gateway = (f"http://127.0.0.1:{one}" for one in (port, gateway_port))
    with open(folder / "log", "w+", encoding="utf-8") as log, contextlib.ExitStack() as stack:
        def start(words, **more):
            process = subprocess.Popen([helix, *words], stdout=log, stderr=log, env={**os.environ, "HOME": str(folder), **more})
            started.append(process)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)

        start(arguments["coordinator"], HELIX_API_KEY=KEY, HELIX_ADMIN_KEY=KEY + "-of-an-admin")
        for number in range(3):
            start([word.replace("$(POD_NAME)", f"helix-worker-{number}") for word in arguments["worker"]] + ["--memory", "200MB", "--threads", "1"],
                  XDG_CACHE_HOME=str(folder / f"cache{number}"))
        start([word.replace("$(POD_NAME)", "helix-gateway-5d9f-x7k2p") for word in arguments["gateway"]], HELIX_API_KEY=KEY)
        if not wait_until(lambda: clean_system.is_ready(base) and clean_system.is_ready(gateway), 60):
            log.seek(0)
            raise SystemExit("what the manifests start does not serve: " + log.read()[-4000:])
        said = clean_system.ask(base, KEY)
        print("answer:", repr(said))
        check(clean_system.ask(gateway, KEY) == said, "the gateway gives another answer")
        check(all(process.poll() is None for process in started), "a process has ended")


def main():
    helix, model, work = sys.argv[1], os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
    install(work)
    manifests = checked_manifests(work)
    with tempfile.TemporaryDirectory() as folder:
        serve(os.path.abspath(helix), model, manifests, pathlib.Path(folder))


if __name__ == "__main__":
    main()
