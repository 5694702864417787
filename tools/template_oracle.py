#!/usr/bin/env python3
"""Renders chat templates with python3-jinja2, set up as transformers' apply_chat_template does.

usage: template_oracle.py < JOBS > RESULTS
       template_oracle.py --golden FOLDER
    JOBS      a JSON list of {"template": text, "context": {...}, "now": [year, month, day, hour, minute, second]}
    RESULTS   a JSON list, one per job: {"output": text} or {"error": text}

The tests run it beside our own interpreter and compare; "now" stands for the clock.
--golden renders each NAME.jinja of FOLDER with each context of contexts.json and writes NAME.json: what it printed,
or null where it raised, by the name of the context.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}: prints its body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_say"), [], [], body).set_lineno(line)

    def _say(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Oracle:
    """One environment, and each template compiled once."""

    def __init__(self):
        self.now = datetime.datetime(2024, 7, 26, 14, 5, 9)
        self.templates = {}
        self.environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
        self.environment.filters["tojson"] = tojson
        self.environment.globals["raise_exception"] = raise_exception
        self.environment.globals["strftime_now"] = lambda format: self.now.strftime(format)

    def render(self, job):
        source = job["template"]
        if "now" in job:
            self.now = datetime.datetime(*job["now"])
        try:
            if source not in self.templates:
                self.templates[source] = self.environment.from_string(source)
            return {"output": self.templates[source].render(**job["context"])}
        except Exception as error:  # whatever a template does wrong, the answer is that it is wrong
            return {"error": str(error), "kind": type(error).__name__}


def write_golden(oracle, folder):
    contexts = json.loads((folder / "contexts.json").read_text(encoding="utf-8"))
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        printed = {name: oracle.render({"template": source, "context": context}).get("output")
                   for name, context in contexts.items()}
        text = json.dumps(printed, indent=1, ensure_ascii=False) + "\n"
        path.with_suffix(".json").write_text(text, encoding="utf-8")


def main():
    oracle = Oracle()
    if len(sys.argv) == 3 and sys.argv[1] == "--golden":
        write_golden(oracle, pathlib.Path(sys.argv[2]))
        return
    json.dump([oracle.render(job) for job in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
