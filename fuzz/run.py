#!/usr/bin/env python3
"""Runs the fuzzers, each for some minutes, with memory and time as limits, and says what they found.

    fuzz/run.py BUILD [--minutes 10] [--jobs CORES] [--only NAME]... [--markdown]

BUILD is the folder of the preset "fuzz". A fuzzer begins with fuzz/corpus/NAME and keeps what it learns in
BUILD/corpus/NAME, so that the next run goes on from there. What crashes, hangs or takes too much memory lies in
BUILD/found/NAME; `BUILD/bin/NAME FILE` replays it. Ends with 1 if anything was found. Standard library only.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RSS_LIMIT_MB = 2048  # of the whole process, with the sanitizers' shadow
TIMEOUT_S = 20       # of one input


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=10, help="for each [%(default)s]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="fuzzers at a time [%(default)s]")
    parser.add_argument("--only", action="append", metavar="NAME", help="wire_fuzz, ...")
    parser.add_argument("--markdown", action="store_true", help="a table for docs")
    return parser.parse_args()


def run(build, name, minutes):
    """What libFuzzer counted, and the file it ended with, if any."""
    learnt, found = build / "corpus" / name, build / "found" / name
    learnt.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    folders = [learnt] + [folder for folder in [HERE / "corpus" / name] if folder.is_dir()]
    before = set(found.iterdir())
    command = [build / "bin" / name, f"-max_total_time={minutes * 60:.0f}", f"-rss_limit_mb={RSS_LIMIT_MB}",
               f"-timeout={TIMEOUT_S}", "-print_final_stats=1", f"-artifact_prefix={found}/", *folders]
    log = build / f"{name}.log"
    with open(log, "w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, check=False).returncode
    text = log.read_text(encoding="utf-8", errors="replace")
    stats = {key: int(value) for key, value in re.findall(r"stat::(\w+):\s+(\d+)", text)}
    new = sorted(set(found.iterdir()) - before)
    if status != 0 and not new:
        return name, stats, f"ended with {status}: see {log}"
    # Inputs that are merely slow are no findings; libFuzzer keeps them beside those that are.
    new = [path for path in new if not path.name.startswith("slow-unit")]
    return name, stats, ", ".join(str(path) for path in new)


def main():
    args = arguments()
    build = args.build.resolve()
    names = sorted(path.stem for path in HERE.glob("*_fuzz.cc"))
    for name in args.only or []:
        if name not in names:
            sys.exit(f"there is no fuzzer {name}: {', '.join(names)}")
    names = [name for name in names if not args.only or name in args.only]
    line = "| {:24} | {:>12} | {:>9} | {:>7} | {:>9} | {} |" if args.markdown else "{:24} {:>12} {:>9} {:>7} {:>9}  {}"
    print(line.format("fuzzer", "inputs run", "inputs/s", "kept", "peak MB", "found"))
    if args.markdown:
        print("| --- | ---: | ---: | ---: | ---: | --- |")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, stats, found in pool.map(lambda name: run(build, name, args.minutes), names):
            failed |= bool(found)
            print(line.format(name, stats.get("number_of_executed_units", 0), stats.get("average_exec_per_sec", 0),
                              stats.get("new_units_added", 0), stats.get("peak_rss_mb", 0), found or "nothing"), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
