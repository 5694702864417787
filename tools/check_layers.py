#!/usr/bin/env python3
"""Rooms and their parts may include only what CMakeLists.txt says; deciding rooms stay pure; no file grows without end.

usage: check_layers.py ROOT      prints every violation as file:line and exits 1 if there is one
"""
import pathlib
import re
import sys

import violations

BANNED_IN_PURE = {"thread", "mutex", "chrono", "random", "atomic", "unordered_map", "unordered_set",
                  "iostream", "condition_variable", "future", "ctime"}
PURE_BY_RULE = {"spec", "core", "wire"}
NO_CIRCLES = {"core"}  # rooms whose units may not include each other in a circle
MAX_LINES = 800
MODULE = re.compile(r"^helix_module\((\w+)\s*(.*?)\)\s*$")
PART = re.compile(r"^helix_part\((\w+)\s+(\w+)\s*(?:DEPS\s+(.*?))?\s*(?:ROOMS\s+(.*?))?\)\s*$")
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


def read_parts(cmake):
    """room -> part -> (parts of the same room that it names, rooms or nothing for all of the room's), from the
    helix_part() lines."""
    parts = {}
    for line in cmake.read_text().splitlines():
        match = PART.match(line)
        if match:
            parts.setdefault(match.group(1), {})[match.group(2)] = (
                (match.group(3) or "").split(), match.group(4) and match.group(4).split())
    return parts


def closure(rooms, name, path=()):
    """All rooms that name may include, or all parts of a room; raises on a cycle or an unknown one."""
    if name in path:
        raise ValueError("cycle: " + " -> ".join(path + (name,)))
    if name not in rooms:
        raise ValueError(f"unknown room or part {name} (named by {path[-1]})")
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


def part_of(path, parts):
    """The folder of a room that a path below it begins with, if the room's folders are parts."""
    words = path.split("/")
    return words[0] if parts and len(words) > 1 else None


def check_parts(room, parts, rooms, root):
    """A part includes those it names (and what they include), and with ROOMS nothing but these of the other rooms;
    files beside the parts may include all of them."""
    folder = root / "src" / room
    found = [f"src/{room}/{path.name}: not a part of {room} in CMakeLists.txt"
             for path in sorted(folder.glob("*/")) if path.is_dir() and path.name not in parts]
    for path in sorted(folder.rglob("*")):
        part = part_of(path.relative_to(folder).as_posix(), parts)
        if path.suffix not in (".h", ".cc") or part not in parts:
            continue
        allowed = closure(parts, part)
        only = parts[part][1]
        below = set().union(*(closure(rooms, name) for name in only)) | {room} if only else set(rooms)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            outside = match.group(2).split("/")[0]
            if outside in rooms and outside not in below:
                found.append(f"{path.relative_to(root)}:{number}: {room}/{part} may not include {outside} "
                             f"({match.group(2)})")
            if not match.group(2).startswith(room + "/"):
                continue
            other = part_of(match.group(2)[len(room) + 1:], parts)
            if other not in allowed:
                what = f"{room}/{other}" if other else f"the top of {room}"
                found.append(f"{path.relative_to(root)}:{number}: {room}/{part} may not include {what} "
                             f"({match.group(2)})")
    return found


def unit_of(path):
    """A header and its source are one unit; so is what a class keeps behind a pointer: worker, worker_state."""
    stem = re.sub(r"\.(h|cc)$", "", path)
    return re.sub(r"_(impl|state)$", "", stem)


def check_cycles(root):
    """Units of a room, folders or not, may not include each other in a circle."""
    source = root / "src"
    units = {}
    for path in sorted(path for room in NO_CIRCLES for path in (source / room).rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        name = unit_of(path.relative_to(source).as_posix())
        includes = (INCLUDE.match(line) for line in path.read_text(encoding="utf-8").splitlines())
        units.setdefault(name, set()).update(
            unit_of(match.group(2)) for match in includes if match and match.group(1) == '"')
    found, done = [], set()

    def visit(unit, path):
        if unit in path:
            circle = path[path.index(unit):] + [unit]
            found.append("circle of includes: " + " -> ".join(circle))
            return
        if unit in done or unit not in units:
            return
        for other in sorted(units[unit] - {unit}):
            visit(other, path + [unit])
        done.add(unit)

    for unit in sorted(units):
        visit(unit, [])
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
    for room, parts in read_parts(root / "CMakeLists.txt").items():
        if room not in rooms:
            found.append(f"CMakeLists.txt: helix_part() of {room}, which is not a room")
            continue
        try:
            found += check_parts(room, parts, rooms, root)
        except ValueError as error:
            return [f"CMakeLists.txt: {room}: {error}"]
    found += check_cycles(root)
    known = set(rooms)
    for path in sorted((root / "src").glob("*/")):
        if path.is_dir() and path.name not in known:
            found.append(f"src/{path.name}: not a room of CMakeLists.txt")
    return found


if __name__ == "__main__":
    sys.exit(violations.main("check_layers", check))
