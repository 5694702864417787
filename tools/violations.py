"""How the checks of this repository end: every violation on a line of its own, then their number."""

import pathlib
import sys


def main(name, check):
    """Runs check on the repository that the command line names; the exit status says whether it found anything."""
    violations = check(pathlib.Path(sys.argv[1]).resolve())
    for violation in violations:
        print(violation)
    print(f"{name}: {len(violations)} violation(s)")
    return 1 if violations else 0
