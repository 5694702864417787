#!/usr/bin/python3
"""Text for the demo model that calls tools: conversations with get_weather(city) and add(a, b).

All text comes from the grammar here and from small parts of corpus.py. A conversation is kept as
the messages that a client would send, so that the same grammar gives the documents of the training
and the questions of the exam (exam.py). `./tools_corpus.py` prints samples.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import corpus

Message = Dict[str, Any]
Call = Tuple[str, Dict[str, Any]]

WEATHER, ADD = "get_weather", "add"
PARAMETERS: Dict[str, Tuple[str, ...]] = {WEATHER: ("city",), ADD: ("a", "b")}
# Tools that a client may offer besides; the model never calls them.
OTHERS = {"search": ("query",), "send_mail": ("to", "text"), "get_time": ("zone",), "open_file": ("path",),
          "translate": ("text", "language"), "play_music": ("title",), "set_alarm": ("hour", "minute"),
          "list_files": ("folder",), "roll_dice": (), "book_table": ("place", "people")}
PARAMETERS.update(OTHERS)

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% set first = 1 if messages and messages[0]['role'] == 'system' else 0 %}"
    "{% if first or tools %}{{ '<|system|>\\n' }}"
    "{% if first %}{{ (messages[0]['content'] or '') | trim }}{% if tools %}{{ '\\n' }}{% endif %}{% endif %}"
    "{% if tools %}{{ '<tools>' }}{% for tool in tools %}"
    "{{ '\\n' + tool.function.name + '(' }}"
    "{% for name in (tool.function.parameters or {}).get('properties') or {} %}"
    "{{ name }}{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ')' }}"
    "{% endfor %}{{ '\\n</tools>' }}{% endif %}{{ eos_token }}{% endif %}"
    "{% for message in messages[first:] %}"
    "{% if message.role == 'tool' %}"
    "{% if loop.first or loop.previtem.role != 'tool' %}{{ '<|user|>' }}{% endif %}"
    "{{ '\\n<tool_response>\\n' + (message.content or '') | trim + '\\n</tool_response>' }}"
    "{% if loop.last or loop.nextitem.role != 'tool' %}{{ eos_token }}{% endif %}"
    "{% elif message.role in ['system', 'user', 'assistant'] %}"
    "{{ '<|' + message.role + '|>' }}"
    "{% if message.content or not message.tool_calls %}{{ '\\n' + (message.content or '') | trim }}{% endif %}"
    "{% for call in message.tool_calls or [] %}"
    "{{ '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}"
    "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}"
    "{{ '}\\n</tool_call>' }}{% endfor %}{{ eos_token }}"
    "{% else %}"
    "{{ raise_exception('This model knows the roles system, user, assistant and tool only.') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}")

# A capital begins a piece, digits and signs stand alone, and only small letters and punctuation take the
# space before them into their piece. So a city and a number are the same tokens wherever they stand, and
# what is copied from a question into a call, or from a result into the answer, is copied token by token.
UNIT = re.compile("\u2581?[a-z_]+|[A-Z][a-z_]*|[0-9]|-|\u2581?[^A-Za-z0-9_\u2581\\n-]+|\\n|\u2581")

CITIES = ("Paris Berlin Rome Madrid London Dublin Oslo Stockholm Helsinki Copenhagen Warsaw Vienna Athens Brussels "
          "Budapest Moscow Ankara Cairo Nairobi Tokyo Beijing Delhi Ottawa Lima Santiago Havana Canberra Hamburg Munich "
          "Cologne Lyon Milan Naples Porto Geneva Zurich Prague Riga Sofia Boston Chicago Denver Seattle Austin Dallas "
          "Miami Toronto Sydney Perth Osaka Seoul Mumbai Lagos Tunis Quito Bogota Utrecht Bergen Turin Leeds").split() + [
              "New York", "San Francisco", "Mexico City", "Cape Town", "Hong Kong", "Los Angeles", "Buenos Aires"]
# Never asked for in the training.
HELD_OUT_CITIES = ("Lisbon Bern Malmo Dresden Graz Tampere Ghent Bristol Nice Verona Kyoto Melbourne Houston "
                   "Montreal Casablanca").split()

SKIES = ["sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "stormy", "clear", "warm", "cold", "hot", "dry", "wet",
         "mild", "icy", "partly cloudy", "light rain", "heavy rain", "thunder", "clear sky", "Sunny", "Cloudy", "Rain",
         "Snow", "Fog"]
WORDS = ("wind from the north south east west strong weak light heavy some much little rain snow sun clouds later today "
         "tonight in the morning evening soon again with and but not very quite still nice bad good high low sea hills "
         "storm ahead no data unknown place error not found try again rising falling calm breeze").split()

ASK_WEATHER = ["What is the weather in {c}?"] * 4 + ["What's the weather in {c}?"] * 3 + [
    "What is the weather like in {c}?"] * 2 + [
    "How is the weather in {c}?", "What is the weather in {c} today?", "Tell me the weather in {c}.",
    "What's the weather like in {c}?", "What's the weather like in {c} today?", "Weather in {c}?", "Weather in {c}",
    "Get the weather in {c}.", "Get the weather for {c}.", "How warm is it in {c}?", "How cold is it in {c}?",
    "Is it raining in {c}?", "Is it sunny in {c}?", "What is the temperature in {c}?", "Check the weather in {c}.",
    "Can you tell me the weather in {c}?", "Could you check the weather in {c}?", "I am in {c}. How is the weather?",
    "What is the weather in {c} right now?", "How is the weather in {c} today?", "Do I need an umbrella in {c}?",
    "Please tell me what the weather is in {c}.", "I want to know the weather in {c}.", "Look up the weather in {c}.",
    "Give me the weather for {c}.", "Will I need a coat in {c}?", "I travel to {c}. What is the weather there?",
    "What is the current weather in {c}?", "Use your tool to find the weather in {c}.", "Show me the weather in {c}."]
ASK_SUM = ["What is {a} plus {b}?"] * 4 + ["What is {a} + {b}?"] * 3 + ["Add {a} and {b}."] * 3 + [
    "What is the sum of {a} and {b}?"] * 2 + [
    "What's {a} plus {b}?", "What's {a} + {b}?", "{a} + {b}", "{a} + {b}?", "{a}+{b}", "{a} plus {b}?",
    "How much is {a} plus {b}?", "How much is {a} + {b}?", "How much are {a} and {b} together?",
    "Can you add {a} and {b}?", "Please add {a} and {b}.", "Calculate {a} plus {b}.", "Calculate {a} + {b}.",
    "Compute {a} + {b}.", "Add {b} to {a}.", "Sum {a} and {b}.", "What do {a} and {b} make?",
    "I have {a} apples and get {b} more. How many do I have?", "Tell me the sum of {a} and {b}.",
    "What do you get when you add {a} and {b}?", "Use your tool to add {a} and {b}.", "Compute the sum of {a} and {b}.",
    "Could you tell me what {a} plus {b} is?", "What is {a} and {b} added together?", "Work out {a} plus {b}."]
WEATHER_PART = ["what is the weather in {c}", "what's the weather in {c}", "how is the weather in {c}",
                "what is the weather like in {c}", "tell me the weather in {c}", "get the weather in {c}"]
SUM_PART = ["what is {a} plus {b}", "what is {a} + {b}", "how much is {a} plus {b}", "add {a} and {b}",
            "what is the sum of {a} and {b}", "what's {a} + {b}"]
JOIN = ["{x} and {y}?", "{x}, and {y}?", "{x}? And {y}?", "{x} and {y}", "{x}? {Y}?", "Two questions: {x}, and {y}?",
        "First {x}, then {y}.", "{x}, and also {y}?"]
ASK_TWO = ["What is the weather in {c} and in {d}?", "What is the weather in {c} and {d}?", "How is the weather in {c} and {d}?",
           "What's the weather in {c} and {d}?", "Tell me the weather in {c} and in {d}.", "Get the weather for {c} and {d}.",
           "Compare the weather in {c} and {d}.", "Is it warmer in {c} or in {d}?", "What is the weather like in {c} and in {d}?"]
ASK_PLUS = ["What is the temperature in {c} plus {b}?", "Add {b} to the temperature in {c}.",
            "Get the temperature in {c} and add {b} to it.", "How much is the temperature in {c} plus {b}?",
            "Look up the temperature in {c}, then add {b}.", "What is the temperature in {c} + {b}?"]
ASK_BOTH_ADDED = ["Add the temperatures in {c} and {d}.", "What is the sum of the temperatures in {c} and {d}?",
                  "Add up the temperatures of {c} and {d}.", "How many degrees do {c} and {d} have together?"]
ASK_THREE = ["What is {a} plus {b} plus {e}?", "What is {a} + {b} + {e}?", "Add {a}, {b} and {e}.", "{a} + {b} + {e}",
             "What is the sum of {a}, {b} and {e}?", "Calculate {a} + {b} + {e}."]
NO_WEATHER, NO_SUM = "I have no tool for the weather.", "I have no tool for sums."

SYSTEMS = corpus.SYSTEMS + corpus.BRIEF + [
    "You are a helpful assistant with tools.", "You are an agent.", "Use the tools when they help.",
    "You can call tools. Use their results in your answer.", "You are a weather assistant.", "You are a calculator.",
    "Answer with the help of your tools.", "You are a helpful agent. Call tools when you need them.",
    "Be polite. Do not guess: call a tool.", "You help people who travel.", "Never guess."]

WHO = (corpus.WHO[0], ["I am a small demo model of Helix, and I can call tools."])
CAN = (corpus.CAN[0], ["I can get the weather and add numbers, if I am given the tools for it."])
TALK = [WHO, CAN] + [(questions, answers[:1]) for questions, answers in
                     (corpus.GREET, corpus.FEEL, corpus.THANKS, corpus.BYE, corpus.WELL)]
KNOWN = [topic for topic in corpus.TOPICS if topic.names[0] in (
    "a pipeline", "a layer", "a cluster", "a coordinator", "a worker", "a GPU", "a token", "Helix")]


class Conversation(NamedTuple):
    tools: List[str]
    messages: List[Message]


class Task(NamedTuple):
    """A question, and what an agent does about it: rounds of calls with their results, then an answer."""
    needs: Tuple[str, ...]
    question: str
    rounds: List[List[Tuple[Call, str]]]
    answer: str
    shows: Tuple[str, ...] = ()  # what of the results the answer must contain


# ---- small things --------------------------------------------------------------------------------
def held_out_pair(a: int, b: int) -> bool:
    """Sums that the training never asks for."""
    return (31 * a + 17 * b) % 10 == 7


def made_up_name(rng: random.Random) -> str:
    """So that the model copies names letter by letter, and not only those that it knows."""
    if rng.random() < 0.5:
        name = rng.choice(CITIES).split()[0]
        other = rng.choice(CITIES).split()[-1].lower()
        return name[:rng.randint(1, 4)] + other[-rng.randint(2, 5):]
    starts = ["b", "br", "c", "ch", "d", "f", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "r", "s", "sh", "st", "t", "tr",
              "v", "w", "y", "z", ""]
    ends = ["", "", "n", "r", "s", "l", "t", "m", "ck", "nd", "rg", "st"]
    name = "".join(rng.choice(starts) + rng.choice("aeiou") + rng.choice(ends) for _ in range(rng.choice([1, 2, 2, 3])))
    return name.capitalize()


class Source:
    """Draws cities, numbers and results; for the exam numbers that the training never asks for, and `cities`.
    `known`: how many of the training's cities are known ones; the others' names are made up."""

    def __init__(self, rng: random.Random, known: float = 0.4, exam: bool = False,
                 cities: Optional[List[str]] = None) -> None:
        self.rng, self.known, self.exam, self.exam_cities = rng, known, exam, cities or CITIES

    def city(self) -> str:
        rng = self.rng
        if self.exam:
            return rng.choice(self.exam_cities)
        if rng.random() < self.known:
            return rng.choice(CITIES)
        name = made_up_name(rng)
        return self.city() if name in HELD_OUT_CITIES else name

    def cities(self) -> Tuple[str, str]:
        first, second = self.city(), self.city()
        return (first, second) if first != second else self.cities()

    def number(self) -> int:
        draw = self.rng.random()
        if draw < 0.04:
            return -self.rng.randint(1, 20)
        return self.rng.randint(0, 9 if draw < 0.3 else 99 if draw < 0.75 else 999 if draw < 0.96 else 9999)

    def pair(self) -> Tuple[int, int]:
        while True:
            a, b = self.number(), self.number()
            if held_out_pair(a, b) == self.exam:
                return a, b

    def total(self, value: int) -> int:
        """What the tool says: mostly the sum, sometimes not, for the model shall not add by itself."""
        return value if self.exam or self.rng.random() < 0.7 else self.number() + self.number()

    def total_text(self, value: int) -> str:
        draw = self.rng.random()
        if draw < 0.6:
            return str(value)
        key = self.rng.choice(["sum", "result", "value", "total", "answer"])
        text = json.dumps({key: value})
        return text.replace(" ", "") if draw < 0.9 else text

    def weather(self, city: str) -> Tuple[str, str, Optional[int]]:
        """The tool's text, how the answer says it, and the temperature if it is told."""
        rng = self.rng
        degrees = rng.randint(-9, -1) if rng.random() < 0.06 else rng.randint(0, 39)
        sky, draw = rng.choice(SKIES), rng.random()
        if rng.random() < 0.2:
            sky = " ".join(rng.choice(WORDS) for _ in range(rng.choice([1, 2, 3])))
        if draw < 0.32:
            text = rng.choice(["{s}, {t} degrees", "{t} degrees and {s}", "{t} degrees, {s}", "{s} and {t} degrees", "{s} with {t} degrees",
                               "{t} degrees", "{s} {t}", "{t} C, {s}"]).format(s=sky, t=degrees)
            return text, text, degrees
        if draw < 0.45:
            text = rng.choice(["{s}", "It is {s}", "It is {s} in {c}", "{s} in {c}"]).format(s=sky, c=city)
            return text, text, None
        if draw < 0.58:
            text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 7)))
            return text, text, None
        members: List[Tuple[str, Any]] = [
            (rng.choice(["temperature", "temp", "degrees", "celsius", "temperature_c"]), degrees),
            (rng.choice(["sky", "condition", "conditions", "weather", "summary"]), sky)]
        if rng.random() < 0.5:
            members.reverse()
        if rng.random() < 0.4:
            members.insert(0, (rng.choice(["city", "location"]), city))
        if rng.random() < 0.15:
            members.append(("unit", rng.choice(["C", "celsius"])))
        compact = rng.random() < 0.8
        text = json.dumps(dict(members), separators=(",", ":") if compact else None)
        return text, f"{sky}, {degrees} degrees", degrees

    def measured(self, city: str) -> Tuple[str, str, int]:
        while True:
            text, said, degrees = self.weather(city)
            if degrees is not None:
                return text, said, degrees


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def blur(rng: random.Random, question: str) -> str:
    """The same question as people type it; names keep their capital."""
    draw = rng.random()
    if draw < 0.08:
        return question[:1].lower() + question[1:]
    if draw < 0.14:
        return question.rstrip("?.")
    if draw < 0.20:
        return rng.choice(["Hello! ", "Hi! ", "Please help me. ", "One question: ", "Hi, ", "OK. "]) + question
    if draw < 0.24:
        return question + rng.choice([" Thank you!", " Please.", " Thanks!"])
    return question


def call_weather(city: str) -> Call:
    return WEATHER, {"city": city}


def call_add(a: int, b: int) -> Call:
    return ADD, {"a": a, "b": b}


def say_weather(city: str, said: str) -> str:
    return f"The weather in {city}: {said}."


def say_sum(a: int, b: int, total: int) -> str:
    return f"The sum of {a} and {b} is {total}."


# ---- tasks ---------------------------------------------------------------------------------------
def weather_task(source: Source) -> Task:
    city = source.city()
    text, said, _ = source.weather(city)
    return Task((WEATHER,), source.rng.choice(ASK_WEATHER).format(c=city), [[(call_weather(city), text)]],
                say_weather(city, said), (said,))


def sum_task(source: Source) -> Task:
    a, b = source.pair()
    total = source.total(a + b)
    return Task((ADD,), source.rng.choice(ASK_SUM).format(a=a, b=b), [[(call_add(a, b), source.total_text(total))]],
                say_sum(a, b, total), (f" {total}.",))


def joined_task(source: Source) -> Task:
    """Both tools at once: their calls and what is said come in the question's order."""
    rng, city, (a, b) = source.rng, source.city(), source.pair()
    text, said, _ = source.weather(city)
    total = source.total(a + b)
    parts = [(rng.choice(WEATHER_PART).format(c=city), (call_weather(city), text), say_weather(city, said)),
             (rng.choice(SUM_PART).format(a=a, b=b), (call_add(a, b), source.total_text(total)), say_sum(a, b, total))]
    rng.shuffle(parts)
    first, second = parts
    question = upper(rng.choice(JOIN).format(x=first[0], y=second[0], Y=upper(second[0])))
    return Task((WEATHER, ADD), question, [[first[1], second[1]]], f"{first[2]} {second[2]}",
                (said, f" {total}."))


def two_cities_task(source: Source) -> Task:
    cities = source.cities()
    results = [source.weather(city) for city in cities]
    return Task((WEATHER,), source.rng.choice(ASK_TWO).format(c=cities[0], d=cities[1]),
                [[(call_weather(city), text) for city, (text, _, _) in zip(cities, results)]],
                " ".join(say_weather(city, said) for city, (_, said, _) in zip(cities, results)),
                tuple(said for _, said, _ in results))


def plus_task(source: Source) -> Task:
    """One call after the other: the second needs what the first has found."""
    city, b = source.city(), source.number()
    text, _, degrees = source.measured(city)
    total = source.total(degrees + b)
    return Task((WEATHER, ADD), source.rng.choice(ASK_PLUS).format(c=city, b=b),
                [[(call_weather(city), text)], [(call_add(degrees, b), source.total_text(total))]],
                f"The temperature in {city} plus {b} is {total}.", (f" {total}.",))


def both_added_task(source: Source) -> Task:
    cities = source.cities()
    results = [source.measured(city) for city in cities]
    a, b = (degrees for _, _, degrees in results)
    total = source.total(a + b)
    return Task((WEATHER, ADD), source.rng.choice(ASK_BOTH_ADDED).format(c=cities[0], d=cities[1]),
                [[(call_weather(city), text) for city, (text, _, _) in zip(cities, results)],
                 [(call_add(a, b), source.total_text(total))]],
                f"The temperatures in {cities[0]} and {cities[1]} add up to {total}.", (f" {total}.",))


def three_task(source: Source) -> Task:
    (a, b), e = source.pair(), source.number()
    first = source.total(a + b)
    total = source.total(first + e)
    return Task((ADD,), source.rng.choice(ASK_THREE).format(a=a, b=b, e=e),
                [[(call_add(a, b), source.total_text(first))], [(call_add(first, e), source.total_text(total))]],
                f"The sum of {a}, {b} and {e} is {total}.", (f" {total}.",))


def talk_task(source: Source) -> Task:
    """Questions that need no tool."""
    rng = source.rng
    draw = rng.random()
    if draw < 0.4:
        questions, answers = rng.choice(TALK)
        return Task((), rng.choice(questions), [], rng.choice(answers))
    if draw < 0.6:
        topic = rng.choice(KNOWN)
        return Task((), rng.choice(corpus.WHAT).format(n=topic.names[0]), [], topic.what[0])
    if draw < 0.75:
        words = [rng.choice(WORDS) if rng.random() < 0.6 else made_up_name(rng) for _ in range(rng.randint(2, 8))]
        return Task((), "Repeat: " + " ".join(words), [], " ".join(words))
    if draw < 0.9:
        country, town = rng.choice(list(corpus.CAPITALS.items()))
        return Task((), rng.choice(["What is the capital of {n}?", "Tell me the capital of {n}.",
                                    "Which city is the capital of {n}?"]).format(n=country), [],
                    f"The capital of {country} is {town}.")
    a, b = rng.choice(corpus.OPPOSITES)
    return Task((), f"What is the opposite of {a}?", [], f"The opposite of {a} is {b}.")


TASKS = [(talk_task, 13), (weather_task, 24), (sum_task, 24), (joined_task, 14), (two_cities_task, 8), (plus_task, 7),
         (both_added_task, 4), (three_task, 6)]


def draw_task(source: Source) -> Task:
    make = source.rng.choices([t for t, _ in TASKS], [weight for _, weight in TASKS])[0]
    return make(source)


def without(task: Task, missing: str) -> Optional[Task]:
    """The same question where one of its tools is not offered; None where that makes no plain question."""
    sorry = NO_WEATHER if missing == WEATHER else NO_SUM
    if task.needs == (missing,):
        return task._replace(needs=(), rounds=[], answer=sorry, shows=())
    if len(task.needs) == 2 and len(task.rounds) == 1:  # a joined question: the other half is answered
        done = [(call, text) for call, text in task.rounds[0] if call[0] != missing]
        sentence = "The sum of " if missing == WEATHER else "The weather in "
        said = re.search(rf"{sentence}.*?\.(?= The |$)", task.answer)
        assert said is not None
        return task._replace(needs=(done[0][0][0],), rounds=[done], answer=f"{said.group()} {sorry}",
                             shows=())
    return None


def draw_unanswerable(source: Source) -> Tuple[Task, str]:
    """A question, of which a tool is missing, and which."""
    while True:
        task = draw_task(source)
        missing = source.rng.choice(task.needs) if task.needs else ""
        reduced = without(task, missing)
        if missing and reduced:
            return reduced, missing


def draw_tools(rng: random.Random, needs: Tuple[str, ...], missing: str = "") -> List[str]:
    offered = [tool for tool in (WEATHER, ADD) if tool in needs or (tool != missing and rng.random() < 0.8)]
    if rng.random() < 0.15:
        offered += rng.sample(sorted(OTHERS), rng.choice([1, 1, 2]))
    rng.shuffle(offered)
    return offered


# ---- conversations -------------------------------------------------------------------------------
def assistant_calls(calls: List[Call]) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [
        {"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls]}


def task_messages(task: Task, rng: random.Random) -> List[Message]:
    """Calls of one round come together; a few times one after another, as where a client allows one only."""
    messages: List[Message] = [{"role": "user", "content": blur(rng, task.question)}]
    single = rng.random() < 0.15
    for calls in task.rounds:
        for some in [[each] for each in calls] if single else [calls]:
            messages.append(assistant_calls([call for call, _ in some]))
            messages += [{"role": "tool", "content": text} for _, text in some]
    messages.append({"role": "assistant", "content": task.answer})
    return messages


def conversation(rng: random.Random, more: float = 0.25, known: float = 0.4) -> Conversation:
    """`more`: how likely another question follows."""
    source = Source(rng, known=known)
    task, missing = draw_unanswerable(source) if rng.random() < 0.08 else (draw_task(source), "")
    tools = draw_tools(rng, task.needs, missing)
    messages: List[Message] = []
    if rng.random() < 0.4:
        messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    messages += task_messages(task, rng)
    while rng.random() < more:
        task = draw_task(source)
        if all(tool in tools for tool in task.needs):
            messages += task_messages(task, rng)
    return Conversation(tools, messages)


def call_text(call: Message) -> str:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'


def turns(talk: Conversation) -> corpus.Document:
    """What CHAT_TEMPLATE makes of it, turn by turn, for vocabulary.render()."""
    out: corpus.Document = []
    messages = list(talk.messages)
    head = [messages.pop(0)["content"]] if messages[0]["role"] == "system" else []
    if talk.tools:
        head += ["<tools>"] + [f"{name}({', '.join(PARAMETERS[name])})" for name in talk.tools] + ["</tools>"]
    if head:
        out.append(("system", "\n".join(head)))
    for before, message in zip([None] + messages, messages):
        if message["role"] == "tool":
            text = f"<tool_response>\n{message['content'].strip()}\n</tool_response>"
            if before and before["role"] == "tool":
                out[-1] = ("user", f"{out[-1][1]}\n{text}")
            else:
                out.append(("user", text))
        else:
            said = [message["content"]] if message["content"] else []
            out.append((message["role"], "\n".join(said + [call_text(c) for c in message.get("tool_calls", [])])))
    return out


def draw_document(rng: random.Random) -> corpus.Document:
    return turns(conversation(rng))


def draw_for_vocabulary(rng: random.Random) -> corpus.Document:
    """Without known cities: no name shall be a piece of its own."""
    return turns(conversation(rng, known=0.0))


def draw_long(rng: random.Random) -> corpus.Document:
    return turns(conversation(rng, 0.85))


if __name__ == "__main__":
    generator = random.Random(1)
    for _ in range(40):
        for role, said in draw_document(generator):
            print(f"[{role}] {said}")
        print()
