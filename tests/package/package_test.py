#!/usr/bin/env python3
"""The Debian packages: made of what is built, looked at, and used in a system of their own.

usage: package_test.py needs                           debian/control wants what tools/install-deps.sh installs
       package_test.py build BUILD_FOLDER PACKAGES     makes them
       package_test.py units PACKAGES                  versions, configuration, and what the services are kept from
       package_test.py lint PACKAGES                   lintian finds no error
       package_test.py tarball BUILD_FOLDER MODEL      is made, carries what not every system has, and answers
       package_test.py system PACKAGES MODEL           a clean system boots, gets them, runs them, is rid of them

Exits 77 (skipped) where something is missing, and says what.
"""
import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "chaos")]
import clean_system  # noqa: E402
import tarball as tarball_tool  # noqa: E402
from cluster import free_port  # noqa: E402

# Of ten: what systemd itself calls OK ends at 4.9. A line that is lost from the units raises it.
MOST_EXPOSURE = 2.0
UNITS = ("helix-coordinator.service", "helix-worker@.service", "helix-gateway.service")


# What a machine that builds packages has anyway, and what only makes builds quicker.
NO_BUILD_DEPENDENCY = {"build-essential", "ccache"}
# What only making packages needs.
ONLY_FOR_PACKAGES = {"debhelper-compat"}


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


def check(condition, what):
    if not condition:
        raise SystemExit(what)


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            skip(f"no {tool}")


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)


def package(folder, name):
    found = list(pathlib.Path(folder).glob(f"{name}_*.deb"))
    check(len(found) == 1, f"{folder} has {len(found)} packages {name}, expected one")
    return found[0].resolve()


def field(deb, name):
    return run("dpkg-deb", "--field", deb, name).stdout.strip()


def build(build_folder, folder):
    need("dh", "dpkg-buildpackage")
    made = run(ROOT / "tools" / "package.sh", build_folder, folder)
    print(made.stdout)
    check(made.returncode == 0, "tools/package.sh failed")


def unit_value(unit, section, key):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(unit)
    return parser.get(section, key)


def exposure(unit):
    said = run("systemd-analyze", "security", "--offline=yes", "--no-pager", unit).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    check(found, f"systemd-analyze does not say how exposed {unit.name} is: {said[-300:]}")
    return float(found.group(1))


def units(folder):
    need("dpkg-deb", "systemd-analyze")
    helix, symbols = package(folder, "helix"), package(folder, "helix-dbg")
    with tempfile.TemporaryDirectory() as unpacked:
        for deb in (helix, symbols):
            check(run("dpkg-deb", "-x", deb, unpacked).returncode == 0, f"{deb} cannot be unpacked")
        tree = pathlib.Path(unpacked)
        program = tree / "usr/bin/helix"

        version = run(program, "--version").stdout.split()[1]
        for deb in (helix, symbols):
            check(field(deb, "Version").startswith(version + "-"), f"{deb.name}: another version than the program's, {version}")
        build_id = re.search(r"Build ID: (\w+)", run("readelf", "--notes", program).stdout).group(1)
        check((tree / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug").is_file(),
              "helix-dbg has no symbols of this program")

        for config in ("etc/helix/helix.toml", *(f"usr/share/doc/helix/examples/service/{name}.toml" for name in ("worker", "gateway"))):
            checked = run(program, "config", "check", tree / config)
            check(checked.returncode == 0, f"{config}: {checked.stdout}")

        for name in UNITS:
            unit = tree / "lib/systemd/system" / name
            found = exposure(unit)
            print(f"{name}: exposure {found}")
            check(found <= MOST_EXPOSURE, f"{name} is exposed to {found}, at most {MOST_EXPOSURE} is allowed")
            # The threshold can be missed: without one of its lines the same unit is above it.
            bare = tree / f"bare-{name}"
            bare.write_text(re.sub(r"(?m)^(ProtectSystem|SystemCallFilter|CapabilityBoundingSet)=.*\n", "", unit.read_text()))
            check(exposure(bare) > MOST_EXPOSURE, "the threshold does not notice lines that are lost")


def lint(folder):
    need("lintian")
    found = run("lintian", "--fail-on", "error", "--allow-root", package(folder, "helix"), package(folder, "helix-dbg"))
    print(found.stdout)
    check(found.returncode == 0, "lintian found errors")


def free_of_this_system(tree):
    """The program loads nothing from here but what every system has."""
    said = run("ldd", tree / "bin/helix").stdout
    elsewhere = {name for name, path in re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE) if not path.startswith(str(tree))}
    check(elsewhere and elsewhere <= tarball_tool.SYSTEM, f"loaded from this system: {sorted(elsewhere - tarball_tool.SYSTEM)}")
    check("not found" not in said, said)


def tarball(build_folder, model):
    need("patchelf")
    if clean_system.release() != "bookworm":
        skip("the licences of libraries have been looked at for Debian 12 only")
    with tempfile.TemporaryDirectory() as folder:
        made = run(ROOT / "tools" / "tarball.py", build_folder, folder, env={**os.environ, "XZ_OPT": "-0 -T0"})
        check(made.returncode == 0, made.stdout)
        packed = pathlib.Path(made.stdout.splitlines()[-1])
        # Another place than where it was made.
        check(run("tar", "-xf", packed, "-C", folder).returncode == 0, f"{packed} cannot be unpacked")
        tree = pathlib.Path(folder).resolve() / packed.name.removesuffix(".tar.xz")
        free_of_this_system(tree)
        carried = {path.name for path in (tree / "lib/helix").iterdir()}
        listed = (tree / "share/doc/helix/libraries/README.md").read_text(encoding="utf-8")
        check(carried and all(f"| {name} |" in listed for name in carried), "libraries are carried that the list does not have")
        port = free_port()
        server = subprocess.Popen([tree / "bin/helix", "serve", "--model", model, "--listen", f"127.0.0.1:{port}", "--memory", "300MB",
                                   "--threads", "1"], env={"HOME": folder, "PATH": "/usr/bin:/bin"})
        try:
            base = f"http://127.0.0.1:{port}"
            check(clean_system.wait_until(lambda: clean_system.is_ready(base), 60), "the tarball's program does not serve")
            print("answer:", repr(clean_system.ask(base)))
        finally:
            server.terminate()
            server.wait(30)


def system(folder, model):
    need("mmdebstrap", "systemd-nspawn", "nsenter")
    if os.geteuid() != 0:
        if run("sudo", "-n", "true").returncode != 0:
            skip("neither root nor sudo without a password")
        os.execvp("sudo", ["sudo", "-n", sys.executable, *sys.argv])
    if run("unshare", "--mount", "--pid", "--fork", "true").returncode != 0:
        skip("no rights to make namespaces, as in a container without privileges")
    clean_system.try_packages(package(folder, "helix"), package(folder, "helix-dbg"), pathlib.Path(model))


def needs():
    installs = (ROOT / "tools" / "install-deps.sh").read_text(encoding="utf-8")
    installed = set(re.search(r'^packages="([^"$]+)"', installs, re.MULTILINE)[1].split())
    control = (ROOT / "debian" / "control").read_text(encoding="utf-8")
    wanted = re.search(r"^Build-Depends:((?:.*\n)(?: .*\n)*)", control, re.MULTILINE)[1]
    depends = {re.sub(r"\(.*?\)", "", word).strip() for word in wanted.split(",")}
    check(len(installed) > 20 and len(depends) > 20, "one of the lists was not found")
    missing = installed - NO_BUILD_DEPENDENCY - depends
    check(not missing, f"debian/control: Build-Depends lacks {sorted(missing)}, which tools/install-deps.sh installs")
    more = depends - ONLY_FOR_PACKAGES - installed
    check(not more, f"tools/install-deps.sh does not install {sorted(more)}, on which debian/control depends")
    print(f"{len(depends)} build dependencies, the same in both lists")


if __name__ == "__main__":
    {"needs": needs, "build": build, "units": units, "lint": lint, "tarball": tarball, "system": system}[sys.argv[1]](*sys.argv[2:])
