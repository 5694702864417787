#!/usr/bin/env python3
"""clang-tidy over src/, on all cores.

Up to 100 files of a room that are compiled alike are looked at as one source: most of the time goes into the
headers, which are then read once. Those that are compiled alone are kept from those that are not.
A bunch that is refused is halved until it is clean or a single file, and only single files are
reported: two files may well use one name for different things of their own, which is no fault. A file
is skipped when neither it, nor any header of ours, nor the configuration changed since it last passed
(stamps in the build folder, or in HELIX_TIDY_STAMPS).
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile

BUNCH = 100


def files_of(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], check=True, capture_output=True, text=True)
    return sorted(set(listed.stdout.split()))


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def sources_of(path):
    """The file or, where several are compiled as one, those that it includes."""
    if "/Unity/unity_" not in path:
        return [os.path.relpath(path)]
    with open(path, encoding="utf-8") as file:
        return [os.path.relpath(line.split('"')[1]) for line in file if line.startswith('#include "')]


def flags_of(entry):
    """The compiler's arguments without the compiler, what it reads and what it writes."""
    words = shlex.split(entry["command"])
    compiler = next(i for i, word in enumerate(words) if os.path.basename(word) in ("c++", "g++", "clang++"))
    kept = []
    words = iter(words[compiler + 1:])
    for word in words:
        if word in ("-o", "-c"):
            next(words)
        else:
            kept.append(word)
    return kept


def tidy(paths, flags):
    """(is it clean, what it says)"""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.abspath(paths[0])
        if len(paths) > 1:
            source = os.path.join(folder, "bunch.cc")
            with open(source, "w", encoding="utf-8") as file:
                file.writelines(f'#include "{os.path.abspath(path)}"\n' for path in paths)
        run = subprocess.run(
            ["clang-tidy", "--quiet", "--config-file=.clang-tidy", "--extra-arg=-Wno-unknown-warning-option",
             source, "--", *flags], capture_output=True, text=True, check=False)
    said = [line for line in (run.stdout + run.stderr).splitlines() if "warnings generated" not in line]
    return run.returncode == 0, "\n".join(said)


def check(bunch, flags, passed):
    """What is wrong in these files; passed(file) for each that is clean."""
    clean, said = tidy(bunch, flags)
    if clean:
        for path in bunch:
            passed(path)
        return []
    if len(bunch) == 1:
        return [said]
    half = len(bunch) // 2
    return check(bunch[:half], flags, passed) + check(bunch[half:], flags, passed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR", help="a configured build, with compile_commands.json")
    build = parser.parse_args().build
    if not os.path.isfile(os.path.join(build, "compile_commands.json")):
        parser.error(f"{build} has no compile_commands.json; configure it")
    stamps = os.environ.get("HELIX_TIDY_STAMPS", os.path.join(build, "tidy"))
    os.makedirs(stamps, exist_ok=True)
    shared = hashlib.sha256()
    for path in files_of("src/**/*.h", "src/*.h", ".clang-tidy", "cmake", "CMakeLists.txt"):
        shared.update(contents(path))

    def stamp(path):
        key = hashlib.sha256(contents(path) + shared.digest() + path.encode()).hexdigest()[:32]
        return os.path.join(stamps, key)

    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = {path: entry for entry in json.load(file) for path in sources_of(entry["file"])}
    alike = collections.defaultdict(list)
    for path in files_of("src/*.cc", "src/**/*.cc"):
        if path not in commands:
            sys.exit(f"{path}: not in {build}/compile_commands.json; configure again")
        if not os.path.exists(stamp(path)):
            apart = "/Unity/" not in commands[path]["file"]
            alike[path.split(os.sep)[1], apart, tuple(flags_of(commands[path]))].append(path)
    bunches = []
    for (_, _, flags), paths in alike.items():
        size = -(-len(paths) // -(-len(paths) // BUNCH))
        bunches += [(paths[i:i + size], flags) for i in range(0, len(paths), size)]
    bunches.sort(key=lambda bunch: -len(bunch[0]))  # none of the long ones at the end

    def passed(path):
        open(stamp(path), "w", encoding="utf-8").close()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = sum(pool.map(lambda bunch: check(*bunch, passed), bunches), [])
    if wrong:
        sys.exit("\n".join(wrong))
    print("clang-tidy: clean")


if __name__ == "__main__":
    main()
