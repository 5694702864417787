"""Tables of Markdown, and their places on the pages of docs."""

import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"


def table_of(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def place_of(page, name):
    """The table between <!-- name --> and <!-- end -->: a match whose first and last groups are these."""
    found = re.search(rf"(<!-- {re.escape(name)} -->\n)(.*?)(<!-- end -->)", page.read_text(), re.DOTALL)
    return found or sys.exit(f"{page}: has no place for '{name}'")


def put(table, name, page):
    """Writes a table into its place on the page."""
    place = place_of(page, name)
    text = page.read_text()
    page.write_text(text[:place.end(1)] + table + "\n" + text[place.start(3):])
