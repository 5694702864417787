#!/usr/bin/python3
"""Asks the model that calls tools questions that its training never held, and counts right answers.

    tools/demo_model/exam.py models/helix-demo-tools.gguf            with numpy, straight from the file
    tools/demo_model/exam.py --base-url http://127.0.0.1:8080/v1     a server, greedily

A question is done right when the calls are exactly those that it needs, in its order (together or
one after another), and the answer then contains every result. The pairs of numbers that are added are kept
from the training, with --new-cities the cities, too; the sentences around them are not. A question that needs no
tool, or whose tool is not offered, is done right without a call and with the answer that was taught.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import sys
import urllib.request
from typing import Any, Callable, Dict, List, Tuple

import tools_corpus
from reference import ReferenceModel
from tools_corpus import PARAMETERS, Call, Conversation, Message, Source, Task
from vocabulary import render

Ask = Callable[[List[Message], List[str]], Message]
MOST_ROUNDS = 5
CALL = re.compile(r'<tool_call>\n\{"name": "(\w+)", "arguments": (\{.*?\})\}\n</tool_call>')


def schema(name: str, rng: random.Random) -> Dict[str, Any]:
    """A tool as clients describe it, each in its own words."""
    kind = "integer" if rng.random() < 0.5 else "number"
    properties = {p: {"type": "string" if name != tools_corpus.ADD else kind} for p in PARAMETERS[name]}
    if rng.random() < 0.5:
        for each in properties.values():
            each["description"] = "What it is about"
    parameters: Dict[str, Any] = {"type": "object", "properties": properties, "required": list(properties)}
    if rng.random() < 0.5:
        parameters.update({"$schema": "http://json-schema.org/draft-07/schema#", "additionalProperties": False})
    function: Dict[str, Any] = {"name": name, "parameters": parameters}
    if rng.random() < 0.7:
        function["description"] = rng.choice(["A tool.", "Looks it up for you, at once.", "Use this."])
    return {"type": "function", "function": function}


def ask_server(base_url: str) -> Ask:
    with urllib.request.urlopen(base_url + "/models") as response:
        model = json.load(response)["data"][0]["id"]
    rng = random.Random(5)

    def ask(messages: List[Message], tools: List[str]) -> Message:
        body: Dict[str, Any] = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 200}
        if tools:
            body["tools"] = [schema(name, rng) for name in tools]
        request = urllib.request.Request(base_url + "/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return dict(json.load(response)["choices"][0]["message"])
    return ask


def ask_model(model: ReferenceModel) -> Ask:
    def ask(messages: List[Message], tools: List[str]) -> Message:
        prompt = render(tools_corpus.turns(Conversation(tools, messages)), True)
        text = model.vocabulary.decode(model.generate(model.vocabulary.encode(prompt), 200))
        calls = [{"type": "function", "id": str(i), "function": {"name": name, "arguments": arguments}}
                 for i, (name, arguments) in enumerate(CALL.findall(text))]
        return {"role": "assistant", "content": CALL.sub("", text).strip(), **({"tool_calls": calls} if calls else {})}
    return ask


def hold(task: Task, tools: List[str], system: str, ask: Ask) -> Tuple[bool, List[Message]]:
    """The whole loop of an agent for one question."""
    wanted = [each for calls in task.rounds for each in calls]
    messages: List[Message] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": task.question})
    for _ in range(MOST_ROUNDS):
        answer = ask(messages, tools)
        messages.append(answer)
        if not answer.get("tool_calls"):
            said = answer["content"] or ""
            return not wanted and all(part in said for part in task.shows or (task.answer,)), messages
        for call in answer["tool_calls"]:
            made: Call = (call["function"]["name"], json.loads(call["function"]["arguments"]))
            if not wanted or wanted[0][0] != made:
                return False, messages
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": wanted.pop(0)[1]})
    return False, messages


def take(ask: Ask, count: int, seed: int, cities: List[str], show: bool) -> int:
    """How many of `count` questions are done right."""
    rng = random.Random(seed)
    right = 0
    source, by_kind = Source(rng, exam=True, cities=cities), collections.Counter()  # type: ignore[var-annotated]
    for _ in range(count):
        task, missing = tools_corpus.draw_unanswerable(source) if rng.random() < 0.08 else (
            tools_corpus.draw_task(source), "")
        system = rng.choice(tools_corpus.SYSTEMS) if rng.random() < 0.4 else ""
        good, messages = hold(task, tools_corpus.draw_tools(rng, task.needs, missing), system, ask)
        kind = f"{sum(map(len, task.rounds))} calls in {len(task.rounds)} rounds"
        by_kind[kind, good] += 1
        right += good
        if show and not good:
            print(f"?? wanted {task.rounds} {task.answer!r}\n   {json.dumps(messages)}", file=sys.stderr)
    for kind in sorted({kind for kind, _ in by_kind}):
        print(f"  {kind}: {by_kind[kind, True]} of {by_kind[kind, True] + by_kind[kind, False]}")
    print(f"exam: {right} of {count} questions done right")
    return right


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", nargs="?")
    options.add_argument("--base-url", help="of a server, with /v1")
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--new-cities", action="store_true", help="ask for cities that the training never held")
    options.add_argument("--show", action="store_true", help="what went wrong")
    args = options.parse_args()
    if bool(args.file) == bool(args.base_url):
        options.error("one of a file and --base-url is needed")
    ask = ask_server(args.base_url.rstrip("/")) if args.base_url else ask_model(ReferenceModel(args.file))
    cities = tools_corpus.HELD_OUT_CITIES if args.new_cities else tools_corpus.CITIES
    return 0 if take(ask, args.count, args.seed, cities, args.show) >= 0.95 * args.count else 1


if __name__ == "__main__":
    sys.exit(main())
