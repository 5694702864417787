#!/usr/bin/env python3
"""Attacks a real coordinator with two workers as a stranger would, while innocent clients go on.

    tests/hostile/hostile.py HELIX [--case NAME]... [--list] [--health-limit 2] [--budget-mb 768] [--json]

For every attack it prints how long /health took at most, the longest pause of an innocent stream (its first token
included), how much memory each process took more than before, and what the attacker was told. An attack fails when a
process dies, an innocent stream fails or changes, memory grows beyond the budget, /health takes longer than its limit,
or the attacker was not refused as it should be. Ends with 1 if any failed. Standard library only.
"""
import argparse
import asyncio
import json
import sys
import tempfile

import attacks
import bed as beds


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("--case", action="append", choices=sorted(attacks.ATTACKS), help="only these")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    parser.add_argument("--health-limit", type=float, default=2, help="seconds that /health may take [%(default)s]")
    parser.add_argument("--budget-mb", type=float, default=768, help="that a process may take more [%(default)s]")
    parser.add_argument("--json", action="store_true", help="one object an attack")
    return parser.parse_args()


async def run(args, name, folder):
    """On a cluster of its own, so that no attack profits from another."""
    bed = beds.Bed(args.helix, folder)
    try:
        await bed.ready()
        return await beds.attacked(bed, name, attacks.ATTACKS[name], args.budget_mb, args.health_limit)
    finally:
        bed.stop()


def show(args, outcome):
    if args.json:
        print(json.dumps(vars(outcome)), flush=True)
        return
    grown = max(outcome.grown_mb.values(), default=0)
    print(f"{outcome.name:32} {'FAILED' if outcome.wrong else 'held':6} /health {outcome.health_s:6.2f} s   "
          f"pause {outcome.gap_s:6.2f} s   {grown:6.0f} MB   {outcome.said[:150]}", flush=True)
    for line in outcome.wrong:
        print(f"    {line}", flush=True)


def main():
    args = arguments()
    if args.list:
        print("\n".join(sorted(attacks.ATTACKS)))
        return
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.case or attacks.ATTACKS:
            outcome = asyncio.run(run(args, name, folder))
            show(args, outcome)
            failed += [name] if outcome.wrong else []
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
