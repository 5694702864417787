#!/usr/bin/env python3
"""The page in a real browser, in front of a real cluster of one coordinator and three workers.

usage: page_test.py HELIX_BINARY MODEL WORK_FOLDER

The packages go to WORK_FOLDER, pictures of the page to WORK_FOLDER/pictures. Exits 77 (skipped) without node, npm, the
packages or Chromium.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
import cluster_test as clusters  # noqa: E402

processes = clusters.processes
# Keys of the server that asks for them: one that may chat, one that may only look, one of an admin.
KEYS = {"HELIX_KEY": "a-key-for-the-page", "HELIX_VIEW_KEY": "a-key-that-looks", "HELIX_ADMIN_KEY_OF_PAGE": "an-admins-key"}


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    return skip("no chromium")


def install(work):
    """Copies the scripts to the folder, where the packages are that they import."""
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            skip("no " + tool)
    work.mkdir(parents=True, exist_ok=True)
    for file in [*HERE.glob("*.mjs"), *HERE.glob("*.json"), HERE.parent / "clients" / "check.mjs"]:
        shutil.copy(file, work)
    lock, installed = work / "package-lock.json", work / "installed.lock"
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        return
    npm = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=work, check=False)
    if npm.returncode != 0:
        skip("npm ci could not get the packages")
    shutil.copy(lock, installed)


def run(work, environment, *scripts):
    """Runs these at the same time, and says whether one has failed."""
    started = [subprocess.Popen(["node", script], cwd=work, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE)
               for script in scripts]
    for script, process in zip(scripts, started):
        print("==", script, flush=True)
        for line in process.stdout:
            print(line, end="", flush=True)
    return any([process.wait() for process in started])


def keyed_server(binary, model, folder):
    """A coordinator without workers that wants keys, of clients and of machines: its process and its address."""
    port = processes.free_port()
    keys, admins = pathlib.Path(folder) / "keys", pathlib.Path(folder) / "admins"
    keys.write_text(f"alice {KEYS['HELIX_KEY']}\nwall {KEYS['HELIX_VIEW_KEY']} role=view\n", encoding="utf-8")
    admins.write_text(f"ops {KEYS['HELIX_ADMIN_KEY_OF_PAGE']}\n", encoding="utf-8")
    for file in (keys, admins):
        file.chmod(0o600)
    command = [binary, "serve", "--no-worker", "--min-workers", "1", "--model", str(model), "--listen", f"127.0.0.1:{port}",
               "--api-key-file", str(keys), "--admin-key-file", str(admins), "--key", str(pathlib.Path(folder) / "coordinator.key")]
    subprocess.run([binary, "key", "new", "--file", command[-1]], check=True, stdout=subprocess.DEVNULL)
    with open(pathlib.Path(folder) / "keyed.log", "w", encoding="utf-8") as log:
        return subprocess.Popen(command, stdout=log, stderr=log), f"http://127.0.0.1:{port}"


def main():
    binary, model, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    environment = {"HELIX_CHROMIUM": find_chromium(), "HELIX_PICTURES": str(work / "pictures"), **KEYS,
                   "HELIX_BINARY": str(pathlib.Path(binary).resolve())}
    install(work)
    worker_bytes = int(pathlib.Path(model).stat().st_size * 0.8)
    with tempfile.TemporaryDirectory() as folder:
        keyed, environment["HELIX_KEYED_URL"] = keyed_server(binary, model, folder)
        try:
            # Slow enough that an answer is seen while it comes.
            with clusters.serving(binary, model, worker_bytes, ["--speed", "0.02"]) as cluster:
                environment["HELIX_BASE_URL"] = cluster.base
                environment["HELIX_KILL"] = str(cluster.processes[-1].pid)
                environment["HELIX_WORKER"] = json.dumps(
                    [binary, "worker", "--join", cluster.base.removeprefix("http://"), "--name", "w3", "--threads", "1",
                     "--memory", str(worker_bytes), "--cache", "none", "--speed", "0.02"])
                failed = (run(work, environment, "page_test.mjs") or
                          run(work, environment, "requests_page_test.mjs", "history_page_test.mjs") or
                          run(work, environment, "what_if_page_test.mjs") or
                          run(work, environment, "cluster_page_test.mjs"))
                if not failed:
                    cluster.check_alive(3)
                return 1 if failed else 0
        finally:
            keyed.terminate()
            keyed.wait(20)


if __name__ == "__main__":
    sys.exit(main())
