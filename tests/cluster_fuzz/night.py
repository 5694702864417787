#!/usr/bin/env python3
"""The cluster fuzz on all cores for a while; prints one line that adds everything up.

usage: night.py HELIX_CLUSTER_FUZZ HOURS [FIRST_SEED]

Without FIRST_SEED every day begins at seeds of its own. A failure ends its process and is printed with the
command that shows it again; the exit status is then 1.
"""
import os
import re
import subprocess
import sys
import time

NUMBERS = ["simulated", "seeds", "kills", "partitions", "pauses", "false losses", "links broken", "messages lost",
           "duplicated", "moves asked for", "of them refused at once", "migrations committed",
           "given up while reserving", "while copying", "in the last round", "failovers", "coordinators killed",
           "requests cut off", "handed over by gateways", "of them to the same coordinator", "adopted",
           "coordinators replaced", "told so", "orders", "words of those that were back", "gateways killed",
           "requests asked for again", "gateways cut off", "gateways paused", "drains",
           "of them to the end", "tokens computed again", "requests", "completed", "explicit errors", "tokens",
           "determinism re-runs"]
LINE = re.compile(r"simulated ([\d.]+) h, seeds (\d+), kills (\d+), partitions (\d+), pauses (\d+), "
                  r"false losses (\d+), links broken (\d+), messages lost (\d+), duplicated (\d+), "
                  r"moves asked for (\d+) \((\d+) refused at once\), migrations committed (\d+), "
                  r"given up while reserving (\d+), while copying (\d+), in the last round (\d+), "
                  r"failovers (\d+), coordinators killed (\d+) \((\d+) requests cut off, (\d+) handed over by gateways, "
                  r"(\d+) of them to the same coordinator, (\d+) adopted\), coordinators replaced (\d+) "
                  r"\((\d+) told so, (\d+) orders and (\d+) words of those that were back, led by two = 0\), "
                  r"gateways killed (\d+) \((\d+) requests asked for again\), cut off (\d+), paused (\d+), drains (\d+) \((\d+) to the end\), tokens computed again (\d+), "
                  r"requests (\d+) \((\d+) completed, (\d+) explicit errors\), tokens (\d+), "
                  r"lost = 0, wrong = 0, unreached probes: (.*), determinism re-runs (\d+);")


def main():
    program, hours = sys.argv[1], float(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000 * int(time.time() // 86400)
    cores = len(os.sched_getaffinity(0))
    began = time.time()
    print(f"{cores} process(es), {hours} h, seeds from {first}", flush=True)
    # Progress comes from the first process only.
    processes = [subprocess.Popen([program, "--first", str(first + i), "--every", str(cores), "--hours", str(hours)]
                                  + (["--quiet"] if i else []), stdout=subprocess.PIPE, text=True)
                 for i in range(cores)]
    total = [0.0] * len(NUMBERS)
    unreached = None
    failed = 0
    for process in processes:
        said = process.communicate()[0]
        match = LINE.search(said)
        if process.returncode != 0 or match is None:
            print(said.strip() or f"a process ended with {process.returncode} and no word")
            failed += 1
            continue
        groups = list(match.groups())
        unseen = groups.pop(len(NUMBERS) - 1)
        names = set() if unseen == "none" else set(unseen.split(", "))
        unreached = names if unreached is None else unreached & names
        total = [a + float(b) for a, b in zip(total, groups)]
    took = time.time() - began
    verdict = "lost = 0, wrong = 0" if failed == 0 else f"{failed} FAILURE(S), above"
    simulated, rest = total[0], [f"{name} {int(value)}" for name, value in zip(NUMBERS[1:], total[1:])]
    print(f"simulated {simulated:.2f} h, " + ", ".join(rest) + f", {verdict}, unreached probes: "
          f"{', '.join(sorted(unreached or [])) or 'none'}; {took:.0f} s, {simulated * 3600 / took:.0f}x real time")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
