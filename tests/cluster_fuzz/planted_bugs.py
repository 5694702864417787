#!/usr/bin/env python3
"""Is the cluster fuzz able to find bugs? Thirty-four are planted, one at a time.

usage: planted_bugs.py HELIX_CLUSTER_FUZZ_PLANTED [MOST_SEEDS]

Prints how many seeds each bug took. Fails when one is not found, and when the same seeds fail without any.
"""
import re
import subprocess
import sys


def seeds_to_find(program, bug, most):
    command = [program, "--seeds", str(most), "--quiet"] + (["--planted", bug] if bug else [])
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    failed = re.search(r"^FAIL seed (\d+): .*$", ran.stdout, re.M)
    if failed is None:
        if ran.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return None, ""
    return int(failed.group(1)), failed.group(0)


def bug_names(program):
    ran = subprocess.run([program, "--planted", "?"], capture_output=True, text=True, check=False)
    return ran.stderr.split("there are:")[1].split()


def main():
    program = sys.argv[1]
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 600
    missed = []
    deepest = 0
    bugs = bug_names(program)
    for bug in bugs:
        seed, line = seeds_to_find(program, bug, most)
        if seed is None:
            missed.append(bug)
            print(f"{bug:26} not found in {most} seeds", flush=True)
        else:
            deepest = max(deepest, seed)
            print(f"{bug:26} {seed:4} seeds  {line}", flush=True)
    seed, line = seeds_to_find(program, None, deepest)
    if seed is not None:
        print(f"without any planted bug: {line}")
    if len(bugs) < 33:
        sys.exit(f"only {len(bugs)} bugs can be planted")
    sys.exit(1 if missed or seed is not None else 0)


if __name__ == "__main__":
    main()
