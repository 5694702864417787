#!/usr/bin/env python3
"""Compiles the shaders for matrix cores, whose SPIR-V is kept beside them: Debian 12's glslang cannot compile them.

usage: matrix_shaders.py [--glslang FILE]   compiles src/engine/vulkan/shaders/matrix/*.comp with FILE, or with the glslang
                                            of version 14 or more that is on PATH, and notes in sources.txt what they are of
       matrix_shaders.py --check            prints every shader whose sources are others than those that were noted, and
                                            exits 1 if there is one; needs no compiler
"""
import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHADERS = "src/engine/vulkan/shaders"
NOTES = "sources.txt"
LEAST_VERSION = 14
VERSION = re.compile(r"Glslang Version: (?:\d+:)?(\d+)\.")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
AGAIN = "run tools/matrix_shaders.py with a glslang of version 14 or more"


def files_of(path, folders):
    """The file and all that it includes, in the order in which they begin, each once."""
    found = []

    def visit(file):
        if file in found:
            return
        found.append(file)
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            places = [folder / name for folder in (file.parent, *folders) if (folder / name).is_file()]
            if not places:
                raise ValueError(f"{file.name} includes {name}, which is not there")
            visit(places[0].resolve())

    visit(path.resolve())
    return found


def sources(root):
    """name -> hash of the sources, of every shader for matrix cores."""
    shaders = root / SHADERS
    made = {}
    for path in sorted((shaders / "matrix").glob("*.comp")):
        digest = hashlib.sha256()
        for file in files_of(path, (shaders, shaders / "matrix")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        made[path.stem] = digest.hexdigest()
    return made


def check(root):
    """What is stale, a line each."""
    folder = root / SHADERS / "matrix"
    notes = folder / NOTES
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.is_file() else []
    noted = dict(line.split() for line in lines if line)
    try:
        now = sources(root)
    except ValueError as error:
        return [f"{SHADERS}/matrix: {error}"]
    found = []
    for name in sorted(now.keys() | noted.keys() | {path.stem for path in folder.glob("*.spv")}):
        where = f"{SHADERS}/matrix/{name}.spv"
        if name not in now:
            found.append(f"{where}: there is no {name}.comp any more; remove it: {AGAIN}")
        elif not (folder / f"{name}.spv").is_file():
            found.append(f"{where}: not there: {AGAIN}")
        elif now[name] != noted.get(name):
            found.append(f"{where}: stale, its sources have changed: {AGAIN}")
    return found


def version_of(program):
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = VERSION.search(said.stdout)
    return int(match.group(1)) if match else None


def find_compiler(given):
    """The compiler, or an error that says which there are."""
    seen = []
    for name in [given] if given else ["glslang", "glslangValidator"]:
        program = shutil.which(name)
        version = version_of(program) if program else None
        if version is not None and version >= LEAST_VERSION:
            return program
        seen.append(f"{name} is " + ("not there" if program is None else "no glslang" if version is None
                                     else f"of version {version}"))
    raise ValueError(f"no glslang of version {LEAST_VERSION} or more: {'; '.join(seen)}; name one with --glslang FILE")


def compile_all(root, compiler):
    """All of them or, after an error, none."""
    shaders = root / SHADERS
    folder = shaders / "matrix"
    now = sources(root)
    with tempfile.TemporaryDirectory() as made:
        for name in now:
            result = subprocess.run(
                [compiler, "--target-env", "vulkan1.2", "-g0", "--quiet", f"-I{shaders}", f"-I{folder}", "-o",
                 f"{made}/{name}.spv", str(folder / f"{name}.comp")], capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise ValueError(f"{name}.comp: {result.stdout}{result.stderr}")
        for old in folder.glob("*.spv"):
            old.unlink()
        for name in now:
            shutil.copyfile(f"{made}/{name}.spv", folder / f"{name}.spv")
    (folder / NOTES).write_text("".join(f"{name} {digest}\n" for name, digest in now.items()), encoding="utf-8")
    return len(now)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--glslang", metavar="FILE", help="the compiler")
    asked = parser.parse_args()
    if asked.check:
        stale = check(ROOT)
        for line in stale:
            print(line)
        print(f"matrix_shaders: {len(stale)} stale")
        return 1 if stale else 0
    try:
        print(f"matrix_shaders: {compile_all(ROOT, find_compiler(asked.glslang))} compiled")
    except ValueError as error:
        print(f"matrix_shaders: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
