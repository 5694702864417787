#!/usr/bin/env python3
"""Rooms may include only what CMakeLists.txt says; deciding rooms stay pure; no file grows without end.

usage: check_layers.py ROOT      prints every violation as file:line and exits 1 if there is one
"""
import pathlib
import re
import sys

BANNED_IN_PURE = {"thread", "mutex", "chrono", "random", "atomic", "unordered_map", "unordered_set",
                  "iostream", "condition_variable", "future", "ctime"}
PURE_BY_RULE = {"spec", "core", "wire"}
MAX_LINES = 800
MODULE = re.compile(r"^helix_module\((\w+)\s*(.*?)\)\s*$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def read_rooms(cmake):
    """room -> (directly named rooms, is it pure), from the helix_module() lines."""
    rooms = {}
    for line in cmake.read_text().splitlines():
        match = MODULE.match(line)
        if not match:
            continue
        words = match.group(2).split()
        deps, mode = [], ""
        for word in words:
            if word in ("PURE", "DEPS", "LIBS"):
                mode = word
            elif mode == "DEPS":
                deps.append(word)
        rooms[match.group(1)] = (deps, "PURE" in words or match.group(1) in PURE_BY_RULE)
    return rooms


def closure(rooms, name, path=()):
    """All rooms that name may include; raises on a cycle or an unknown room."""
    if name in path:
        raise ValueError("cycle: " + " -> ".join(path + (name,)))
    if name not in rooms:
        raise ValueError(f"unknown room {name} (named by {path[-1]})")
    reach = {name}
    for dep in rooms[name][0]:
        reach |= closure(rooms, dep, path + (name,))
    return reach


def check_file(path, room, rooms, allowed, root):
    found = []
    lines = path.read_text(encoding="utf-8").splitlines()
    where = path.relative_to(root)
    if len(lines) > MAX_LINES:
        found.append(f"{where}:{MAX_LINES}: file has {len(lines)} lines, at most {MAX_LINES} are allowed")
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, target = match.groups()
        if kind == "<":
            if rooms[room][1] and (target in BANNED_IN_PURE or target.startswith("sys/")):
                found.append(f"{where}:{number}: {room} is pure and may not include <{target}>")
            continue
        other = target.split("/")[0]
        if "/" not in target:
            found.append(f'{where}:{number}: include by path from src/, not "{target}"')
        elif other in rooms and other not in allowed:
            found.append(f"{where}:{number}: {room} may not include {other} ({target})")
    return found


def check(root):
    rooms = read_rooms(root / "CMakeLists.txt")
    if not rooms:
        return [f"{root}/CMakeLists.txt: no helix_module() lines"]
    found = []
    for room in rooms:
        try:
            allowed = closure(rooms, room)
        except ValueError as error:
            return [f"CMakeLists.txt: {error}"]
        for path in sorted((root / "src" / room).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu"):
                found += check_file(path, room, rooms, allowed, root)
    known = set(rooms)
    for path in sorted((root / "src").glob("*/")):
        if path.is_dir() and path.name not in known:
            found.append(f"src/{path.name}: not a room of CMakeLists.txt")
    return found


def main():
    violations = check(pathlib.Path(sys.argv[1]).resolve())
    for violation in violations:
        print(violation)
    print(f"check_layers: {len(violations)} violation(s)")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
