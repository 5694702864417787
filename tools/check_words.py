#!/usr/bin/env python3
"""Text stands by itself: it cites no document that is not in the repository, and README.md stays short.

usage: check_words.py ROOT      prints every violation as file:line and exits 1 if there is one
"""
import pathlib
import re
import subprocess
import sys

import violations

# Notes that lie beside the checkout of some. Readers have only the repository, so the sentence itself belongs in it.
DOCUMENTS = ("AGENT_API", "DEPENDENCIES", "DESIGN", "DOOR", "FEATURES", "GPU", "MODELS", "OPTIMISER", "PAPER", "PEERS",
             "RELIABILITY", "STYLE", "THROUGHPUT")
# These are words of their own in capitals too ("GPU 0"), so only the name of the file counts.
ALSO_WORDS = {"GPU"}
CITATION = re.compile(r"(?<![\w-])(?:(?:%s)(?:-\d+)?\.md|(?:%s)(?![\w-])|DESIGN-\d+)(?!\w)" % (
    "|".join(DOCUMENTS), "|".join(name for name in DOCUMENTS if name not in ALSO_WORDS)))
# What names the documents because it forbids them.
EXEMPT = {"tools/check_words.py", "tests/tools/check_words_test.py"}
MAX_README_WORDS = 650


def citations(name, text):
    """file:line and the name, for each citation in a text."""
    return [f"{name}:{number}: cites {match.group(0)}, which is not in the repository"
            for number, line in enumerate(text.splitlines(), 1) for match in CITATION.finditer(line)]


def too_long(text):
    count = len(text.split())
    if count <= MAX_README_WORDS:
        return []
    return [f"README.md:1: {count} words, at most {MAX_README_WORDS} are allowed; the rest belongs in docs/"]


def tracked_texts(root):
    """Every tracked file that is text: its path and what is in it."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        path = root / name
        if not name or name in EXEMPT or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            yield name, data.decode("utf-8", errors="replace")


def check(root):
    found = []
    for name, text in tracked_texts(root):
        found += citations(name, text)
        if name == "README.md":
            found += too_long(text)
    return found


if __name__ == "__main__":
    sys.exit(violations.main("check_words", check))
