#!/usr/bin/env python3
"""Writes the tables of docs/api.md from the server's own OpenAPI document.

    tools/api_tables.py --server build/release/bin/helix_fake_api_server            writes them
    tools/api_tables.py --server build/release/bin/helix_fake_api_server --check    says whether they are as they should be

A table stands between <!-- table: NAME --> and <!-- end of NAME -->. Standard library only.
"""
import argparse
import difflib
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "api.md"


def openapi_of(server):
    """What the program, which prints its address and serves until its input ends, says of itself."""
    with subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            base = process.stdout.readline().strip()
            with urllib.request.urlopen(base + "/openapi.json", timeout=30) as answer:
                return json.load(answer)
        finally:
            process.stdin.close()


def key_of(operation):
    names = [name for entry in operation["security"] for name in entry]
    return {"anyKey": "any key", "apiKey": "API key", "adminKey": "admin key"}[names[0]] if names else "none"


def routes_table(document):
    yield "| path | | key, where keys are asked for |"
    yield "| --- | --- | --- |"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"| `{method.upper()} {path}` | {operation['summary']} | {key_of(operation)} |"


def type_text(schema):
    if "anyOf" in schema:
        return " or ".join(type_text(one) for one in schema["anyOf"])
    if schema.get("type") == "array" and "items" in schema:
        return f"array of {type_text(schema['items'])}"
    text = schema.get("type", "any")
    if "minimum" in schema and "maximum" in schema:
        return f"{text}, {schema['minimum']} to {schema['maximum']}"
    return f"{text} from {schema['minimum']}" if "minimum" in schema else text


def fields_of(schema, prefix=""):
    for name, field in schema.get("properties", {}).items():
        yield prefix + name, field
        yield from fields_of(field, prefix + name + ".")


def short_name(path):
    """What the table of fields calls an endpoint."""
    name = path.removeprefix("/v1").strip("/")
    return {"chat/completions": "chat", "messages/count_tokens": "messages"}.get(name, name)


def fields_table(document):
    rows = {}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if "requestBody" not in operation:
                continue
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            for name, field in fields_of(schema):
                row = (name, type_text(field), field["description"])
                rows.setdefault(row, {})[short_name(path)] = True
    yield "| field | takes | in | |"
    yield "| --- | --- | --- | --- |"
    for (name, kind, about), paths in rows.items():
        yield f"| `{name}` | {kind} | {', '.join(paths)} | {about} |"


def with_tables(text, document):
    for name, rows in (("routes", routes_table(document)), ("fields", fields_table(document))):
        pattern = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{DOCUMENT}: has no place for the table {name}")
        table = "\n".join(rows) + "\n"
        text = pattern.sub(lambda found, table=table: found[1] + table + found[2], text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    before = DOCUMENT.read_text(encoding="utf-8")
    after = with_tables(before, openapi_of(args.server))
    if not args.check:
        DOCUMENT.write_text(after, encoding="utf-8")
        return
    changes = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "docs/api.md", "as it should be",
                                        lineterm="", n=0))
    if changes:
        print("\n".join(changes))
        sys.exit("docs/api.md is stale: tools/api_tables.py --server PROGRAM writes its tables")


if __name__ == "__main__":
    main()
