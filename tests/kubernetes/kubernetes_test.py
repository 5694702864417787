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
    """The files of both secrets as pods see them, made as the manifest's head says, and what its command makes of them."""
    made = folder / "made"
    made.mkdir(mode=0o700)
    for more in ([], ["--worker", "helix-worker-*", "--out", made / "worker.key"]):
        subprocess.run([helix, "key", "new", "--file", made / "coordinator.key", *more], check=True, stdout=subprocess.DEVNULL)
    command = re.search(r'command: \["sh", "-c", "(.*?)"\]', MANIFEST.read_text(encoding="utf-8")).group(1)
    for pod, names in (("coordinator", ("coordinator.key", "coordinator.key.allow")), ("worker", ("worker.key",))):
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
    port = free_port()
    config = manifests["config"]
    for there, here in ((re.search(r'^model = "(.*)"', config, re.MULTILINE).group(1), model), ('"0.0.0.0:8080"', f'"0.0.0.0:{port}"'),
                        ('"0.0.0.0:9090"', f'"0.0.0.0:{free_port()}"'), ('"helix:8080"', f'"127.0.0.1:{port}"'),
                        ("/var/lib/helix", str(folder / "state")), ("/keys/own/coordinator", str(folder / "coordinator/keys/own/coordinator")),
                        ("/keys/own/worker", str(folder / "worker/keys/own/worker"))):
        check(there in config, f"the configuration has no {there}")
        config = config.replace(there, here)
    file = folder / "helix.toml"
    file.write_text(config, encoding="utf-8")
    arguments = {container["name"]: [str(file) if word == "/etc/helix/helix.toml" else word for word in container["args"]]
                 for container in manifests["containers"]}
    started = []
    base = f"http://127.0.0.1:{port}"
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
        if not wait_until(lambda: clean_system.is_ready(base), 60):
            log.seek(0)
            raise SystemExit("what the manifests start does not serve: " + log.read()[-4000:])
        print("answer:", repr(clean_system.ask(base, KEY)))
        check(all(process.poll() is None for process in started), "a process has ended")


def main():
    helix, model, work = sys.argv[1], os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
    install(work)
    manifests = checked_manifests(work)
    with tempfile.TemporaryDirectory() as folder:
        serve(os.path.abspath(helix), model, manifests, pathlib.Path(folder))


if __name__ == "__main__":
    main()
