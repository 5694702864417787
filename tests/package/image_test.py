#!/usr/bin/env python3
"""The image of containers/Dockerfile: built by buildah on a Debian of its own, it refuses to serve without a key, answers with one,
and its check of health says so. The Compose file is one that docker-compose takes.

usage: image_test.py PACKAGES MODEL

It takes a minute, so it runs with whole sweeps only (HELIX_SWEEPS=all, `make test-all`). Exits 77 (skipped) else, and where buildah, the
rights or the archive of Debian are missing.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import clean_system
from clean_system import check, free_port, skip, wait_until

CONTAINERS = pathlib.Path(__file__).resolve().parent.parent.parent / "containers"
KEY = "a-key-for-the-image"


class Buildah:
    """Images in a folder of their own; chroots do for what runs in them."""

    def __init__(self, folder):
        self.command = ["buildah", "--root", str(folder / "images"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]
        self.environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}

    def __call__(self, *words, expect=0):
        done = subprocess.run([*self.command, *map(str, words)], check=False, env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        check(expect is None or done.returncode == expect, f"buildah {words} ended with {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout.strip()

    def start(self, *words, log):
        return subprocess.Popen([*self.command, *map(str, words)], env=self.environment, stdout=log, stderr=log)


def debian(buildah, folder):
    """An image of the essential packages and apt."""
    root = folder / "debian"
    # As slim as Debian's own slim images.
    clean_system.install_minimal(str(root), ["apt"], *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")))
    made = buildah("from", "scratch")
    buildah("add", "--quiet", made, root, "/")
    buildah("commit", "--quiet", made, "localhost/debian")
    buildah("rm", made)
    return "localhost/debian"


def status(url, key=None):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + key} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def check_compose():
    if not shutil.which("docker-compose"):
        print("no docker-compose: the Compose file is not looked at")
        return
    for key, expected in (("x", True), (None, False)):
        environment = {name: value for name, value in os.environ.items() if name != "HELIX_API_KEY"}
        done = subprocess.run(["docker-compose", "-f", CONTAINERS / "compose.yaml", "config", "--quiet"], check=False, text=True,
                              env=environment | ({"HELIX_API_KEY": key} if key else {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        check((done.returncode == 0) == expected, f"docker-compose says with the key {key}: {done.stdout}")


def use(buildah, folder, model):
    made = buildah("from", "localhost/helix")
    config = json.loads(buildah("inspect", "--type", "image", "localhost/helix"))["Docker"]["config"]
    check(config["User"] == "helix", f"the image runs as {config['User']!r}")
    shown = folder / "models"
    shown.mkdir()
    shutil.copy(model, shown / "model.gguf")
    shown.chmod(0o755)
    port = free_port()
    serve = ["--", *config["Entrypoint"], "serve", "--model", "/models/model.gguf", "--listen", f"0.0.0.0:{port}", "--memory", "300MB",
             "--state-dir", "/var/lib/helix/state"]
    refused = buildah("run", "--volume", f"{shown}:/models:ro", made, *serve, expect=None)
    check("key" in refused and "0.0.0.0" in refused, f"it serves the network without a key: {refused}")

    base = f"http://127.0.0.1:{port}"
    with open(folder / "log", "w+", encoding="utf-8") as log:
        server = buildah.start("run", "--env", f"HELIX_API_KEY={KEY}", "--volume", f"{shown}:/models:ro", made, *serve, log=log)
        try:
            if not wait_until(lambda: clean_system.is_ready(base), 60):
                log.seek(0)
                raise SystemExit("the image does not serve: " + log.read()[-2000:])
            check(status(base + "/v1/models") == 401 and status(base + "/v1/models", KEY) == 200, "the key is not asked for")
            print("answer:", repr(clean_system.ask(base, KEY)))
            health = config["Healthcheck"]["Test"]
            check(health[0] == "CMD-SHELL", f"a check of health that is no command: {health}")
            command = health[1].replace(":8080", f":{port}")
            buildah("run", made, "--", "sh", "-c", command)
        finally:
            server.terminate()
            server.wait(30)
    buildah("run", made, "--", "sh", "-c", command, expect=1)
    check(buildah("run", made, "--", "id", "-un") == "helix", "commands do not run as the user helix")
    buildah("rm", made)


def main():
    packages, model = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if os.environ.get("HELIX_SWEEPS") != "all":
        skip("an image is built with whole sweeps only (HELIX_SWEEPS=all)")
    for tool in ("buildah", "mmdebstrap"):
        if not shutil.which(tool):
            skip(f"no {tool}")
    if os.geteuid() != 0:
        skip("not root")
    check_compose()
    with tempfile.TemporaryDirectory(prefix="helix-image-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        buildah = Buildah(folder)
        base = debian(buildah, folder)
        buildah("bud", "--quiet", "--format", "docker", "--layers=false", "--build-arg", f"BASE={base}", "--file", CONTAINERS / "Dockerfile",
                "--tag", "localhost/helix", packages)
        print(buildah("images"))
        use(buildah, folder, model)


if __name__ == "__main__":
    main()
