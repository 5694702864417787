#!/usr/bin/python3
"""Checks a demo model file: numbers, tokenizer and, above all, whether its answers make sense.

    tools/demo_model/check.py models/helix-demo.gguf [--samples] [--vectors FILE]
    tools/demo_model/check.py models/helix-demo-tools.gguf [--vectors FILE]

Needs numpy only. --vectors writes tokenizer cases and greedy continuations as JSON for tests. The model
that calls tools takes the exam of exam.py.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

import corpus
import exam
import tools_corpus
from reference import ReferenceModel
from vocabulary import BOS, EOS, UNIT, Vocabulary, render

# Pairs of a question and a word or pattern that a right answer has. None of these texts is in the
# corpus as it is: they are paraphrases, so they show whether the model has understood the
# question's form.
QUESTIONS = [
    ("What is a pipeline?", "chain of machines|row of machines"),
    ("Could you please explain what a pipeline is?", "chain of machines|row of machines"),
    ("So, what are pipelines?", "chain of machines|row of machines"),
    ("Why does a large model need several machines?", "memory"),
    ("Why do big models need several machines?", "memory"),
    ("What is the KV cache?", "keys and values|words so far"),
    ("Can you explain the KV cache to me?", "keys and values|words so far"),
    ("What happens if a machine fails?", "new plan"),
    ("What happens when a machine breaks?", "new plan"),
    ("What is a GPU?", "chip|processor"),
    ("why do we need gpus", "sums"),
    ("How does a language model work?", "next word|next|score"),
    ("How is Helix used?", "coordinator|machines"),
    ("What does Helix do?", "machines"),
    ("What is the capital of France?", "Paris"),
    ("Can you tell me the capital of Japan?", "Tokyo"),
    ("What sound does a cow make?", "moo"),
    ("What is the opposite of hot?", "cold"),
    ("Which day comes after Monday?", "Tuesday"),
    ("Hello!", "Hello|help|nice"),
    ("Who are you?", "demo model|language model"),
    ("Thank you!", "welcome|glad"),
    ("Tell me a story about a robot.", "robot"),
    ("Tell me a story about a fox and a bear.", "fox.*bear"),
    ("Write a story about a robot named Ada.", "robot.*Ada|Ada.*robot"),
    ("What is max flow?", "most work|most water"),
    ("What is the difference between latency and bandwidth?", "how much can travel"),
    ("What is a coordinator?", "plan|requests"),
    ("Who invented the guitar?", "do not know"),
]
EXAM_SEED, EXAM_QUESTIONS = 1, 100
LEAST, LEAST_OF_CALLS = 0.9, 0.95  # of the questions, right
STARTS = ["Once upon a time", "One day, a little fox", "Long ago, there was a", "Lily and Tom",
          "Once upon a time, a brave robot named Ada"]


def tokenizer_cases() -> List[str]:
    return ["", " ", "Hello", " Hello", "Once upon a time, there was a little fox.", "a  b   c",
            "line one\nline two\n\nline four", "\ttab", "Ünïcödé – 日本語 🙂", "pipeline pipelines PIPELINE",
            "1234567890", "don't \"stop\"!?", "{json: [1, 2]}", "  leading", "trailing  ", "x" * 40,
            "the KV cache of a worker", "supercalifragilistic", "a\u2581b", "http://127.0.0.1:8080/v1"]


def calls_tools(model: ReferenceModel) -> bool:
    return bool(model.metadata["general.name"] == "helix-demo-tools")


def check_tokenizer(model: ReferenceModel) -> List[str]:
    """Unit by unit equals the whole text, and decoding gives the text back."""
    draw, unit = (tools_corpus.draw_document, tools_corpus.UNIT) if calls_tools(model) else (corpus.draw_document, UNIT)
    problems, vocab = [], model.vocabulary
    vocab = Vocabulary(vocab.pieces, vocab.scores, vocab.types, unit)
    rng = random.Random(7)
    texts = [t for turns in (draw(rng) for _ in range(200)) for _, t in turns]
    for text in tokenizer_cases()[1:] + texts:
        ids = vocab.encode(text)
        if ids != vocab.encode_plain(text):
            problems.append(f"tokenizer: unit-wise encoding differs for {text!r}")
        if "\u2581" not in text and vocab.decode(ids) != " " + text:
            problems.append(f"tokenizer: {text!r} comes back as {vocab.decode(ids)!r}")
    return problems


def answer(model: ReferenceModel, turns: corpus.Document, temperature: float = 0.0,
           rng: Optional[np.random.Generator] = None) -> str:
    ids = model.vocabulary.encode(render(turns, True))
    return model.vocabulary.decode(model.generate(ids, 300, temperature, rng))


def check_answers(model: ReferenceModel, show: bool) -> Tuple[int, List[str]]:
    missed = []
    for question, wanted in QUESTIONS:
        text = answer(model, [("user", question)])
        good = re.search(wanted, text, re.DOTALL) is not None
        if not good:
            missed.append(f"answer to {question!r} lacks {wanted!r}: {text}")
        if show:
            print(f"{'   ' if good else '?? '}> {question}\n     {text}")
    return len(QUESTIONS) - len(missed), missed


def show_samples(model: ReferenceModel) -> None:
    rng = np.random.default_rng(3)
    for start in STARTS:
        ids = model.vocabulary.encode(start, add_bos=True)
        for temperature in (0.0, 0.7):
            out = model.generate(ids, 250, temperature, rng)
            print(f"[{temperature}] {start}{model.vocabulary.decode(out)}\n")
    turns: corpus.Document = [("system", "You are a helpful assistant.")]
    for question in ("Hello!", "What is a cluster?", "Tell me more.", "What about a GPU?",
                     "Tell me a story about a baker.", "Thank you!"):
        turns.append(("user", question))
        turns.append(("assistant", answer(model, turns, 0.7, rng)))
        print(f"> {question}\n  {turns[-1][1]}")


def greedy_case(model: ReferenceModel, ids: List[int]) -> Dict[str, Any]:
    """A greedy continuation with each token's log-probability and its lead over the second best."""
    out = model.generate(ids, 64)
    model.reset()
    logits = model.forward(ids + out)[len(ids) - 1:-1].astype(np.float64)
    peak = np.sort(logits, axis=-1)[:, -2:]
    normaliser = np.log(np.exp(logits - peak[:, 1:]).sum(-1)) + peak[:, 1]
    return {"ids": ids, "greedy_ids": out, "greedy_text": model.vocabulary.decode(out),
            "logprobs": [round(float(x), 4) for x in peak[:, 1] - normaliser],
            "leads": [round(float(x), 4) for x in peak[:, 1] - peak[:, 0]]}


def talker_chats() -> List[Dict[str, Any]]:
    chats = [[("user", "What is a pipeline?")], [("user", "Tell me a story about a robot.")],
             [("system", "You are a helpful assistant."), ("user", "What is the KV cache?")],
             [("user", "What is a GPU?"), ("assistant", "A GPU is a chip."), ("user", "Thank you!")]]
    return [{"messages": [{"role": r, "content": t} for r, t in turns], "prompt": render(turns, True)}
            for turns in chats]


def caller_chats(model: ReferenceModel) -> List[Dict[str, Any]]:
    """Every answer of three loops of agents, and one without tools."""
    rng, cases = random.Random(4), []
    talks = [(["get_weather", "add"], ["What is the weather in Lisbon and what is 12 plus 30?", "sunny", "42"]),
             (["add"], ["What is 345 + 67?", '{"sum":412}']),
             (["add", "get_weather"], ["What is the temperature in Kyoto plus 5?", "19 degrees and windy", "24"]),
             ([], ["What is a pipeline?"])]
    for tools, (question, *results) in talks:
        messages: List[tools_corpus.Message] = [{"role": "user", "content": question}]
        while True:
            prompt = render(tools_corpus.turns(tools_corpus.Conversation(tools, messages)), True)
            cases.append({"messages": messages[:], "tools": [exam.schema(name, rng) for name in tools],
                          "prompt": prompt})
            message = exam.ask_model(model)(messages, tools)
            if not message.get("tool_calls"):
                break
            messages.append(message)
            for call in message["tool_calls"]:
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": results.pop(0)})
    return cases


def write_vectors(model: ReferenceModel, path: str) -> None:
    """Cases for tests: text -> ids, conversation -> rendered prompt -> ids -> greedy answer."""
    vocab = model.vocabulary
    data: Dict[str, Any] = {"tokenizer": [{"text": t, "ids": vocab.encode(t)} for t in tokenizer_cases()],
            "chat": [], "completion": []}
    for chat in caller_chats(model) if calls_tools(model) else talker_chats():
        data["chat"].append({**chat, **greedy_case(model, vocab.encode(chat["prompt"]))})
    for start in [] if calls_tools(model) else STARTS[:3]:
        data["completion"].append({"prompt": start,
                                   **greedy_case(model, vocab.encode(start, add_bos=True))})
    with open(path, "w", encoding="utf-8") as file:
        text = json.dumps(data, indent=1)
        # Lists of numbers on one line each.
        file.write(re.sub(r"\[[\s\d,.eE+-]*\]", lambda m: " ".join(m.group().split()), text) + "\n")


def check_file(path: str, expected_logits: Optional[np.ndarray] = None,
               ids: Optional[List[int]] = None, show: bool = True, least: Optional[float] = None) -> int:
    """0 when the file is good: logits agree, the tokenizer is consistent, and of the questions at least the
    share `least` has a right answer; None = LEAST or LEAST_OF_CALLS."""
    model = ReferenceModel(path)
    assert model.vocabulary.pieces[BOS] == "<s>" and model.vocabulary.pieces[EOS] == "</s>"
    problems = check_tokenizer(model)
    if expected_logits is not None and ids is not None:
        difference = float(np.abs(model.forward(ids) - expected_logits).max())
        print(f"check: largest difference of logits, numpy against torch: {difference:.2e}")
        if difference > 2e-3:
            problems.append("check: the logits differ")
    missed: List[str] = []
    if calls_tools(model):
        asked = EXAM_QUESTIONS
        good = exam.take(exam.ask_model(model), asked, EXAM_SEED, tools_corpus.CITIES, show)
        wanted = math.ceil((LEAST_OF_CALLS if least is None else least) * asked)
    else:
        asked = len(QUESTIONS)
        good, missed = check_answers(model, show)
        wanted = math.ceil((LEAST if least is None else least) * asked)
    print(f"check: {good} of {asked} right, at least {wanted}")
    if good < wanted:
        problems += missed + ["check: too few answers are right"]
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file")
    options.add_argument("--samples", action="store_true", help="print stories and a conversation")
    options.add_argument("--vectors", help="write test vectors to this JSON file")
    options.add_argument("--least", type=float, help=f"share of right answers [{LEAST}, with tools {LEAST_OF_CALLS}]")
    args = options.parse_args()
    result = check_file(args.file, least=args.least)
    if args.samples:
        show_samples(ReferenceModel(args.file))
    if args.vectors:
        write_vectors(ReferenceModel(args.file), args.vectors)
    return result


if __name__ == "__main__":
    sys.exit(main())
