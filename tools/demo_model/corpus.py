#!/usr/bin/python3
"""Text for the demo model: stories, questions and answers, small facts and friendly talk.

All text comes from the grammar here, in stories.py and in knowledge.txt; nothing is taken from
elsewhere. A document is a list of turns (role, text); role "story" is plain text without chat.
"""

from __future__ import annotations

import pathlib
import random
import re
from typing import Dict, List, NamedTuple, Tuple

import stories

Turn = Tuple[str, str]
Document = List[Turn]


class Facet(NamedTuple):
    questions: List[str]
    answers: List[str]


class Topic(NamedTuple):
    names: List[str]
    what: List[str]
    more: List[str]
    facets: List[Facet]


def load_topics() -> List[Topic]:
    topics: List[Topic] = []
    path = pathlib.Path(__file__).with_name("knowledge.txt")
    for line in path.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "#":
            topics.append(Topic([n.strip() for n in rest.split("|")], [], [], []))
        elif mark == "=":
            topics[-1].what.append(rest)
        elif mark == "+":
            topics[-1].more.append(rest)
        elif mark == "?":
            topics[-1].facets.append(Facet([q.strip() for q in rest.split("|")], []))
        elif mark == ">":
            topics[-1].facets[-1].answers.append(rest)
        elif line.strip():
            raise ValueError(f"knowledge.txt: unknown line: {line!r}")
    return topics


TOPICS = load_topics()

WHAT = ["What is {n}?"] * 6 + [
    "Can you explain {n}?", "Explain {n}.", "Tell me about {n}.", "Please explain {n}.",
    "Could you tell me what {n} is?", "Please tell me what {n} is.", "What exactly is {n}?",
    "Can you tell me what {n} is?", "I want to know what {n} is.", "Describe {n}.",
    "Do you know what {n} is?", "In simple words, what is {n}?", "What do you know about {n}?",
    "Explain {n} in simple words.", "Tell me something about {n}.", "What is meant by {n}?",
    "Explain to me what {n} is.", "Give me a short explanation of {n}.", "Define {n}."]
# The name without its article.
WHAT_BARE = ["What does {n} mean?", "What does the word {n} mean?", "Define {n}.", "{n}?", "{n}",
             "Explain the word {n}.", "What is the meaning of {n}?", "What do you mean by {n}?"]
WHAT_SHORT = ["What is {n}, in one sentence?", "Explain {n} in one sentence.", "In one sentence, what is {n}?",
              "Tell me in one sentence what {n} is.", "In short, what is {n}?"]
WHAT_MANY = ["What are {n}?"] * 6 + [
    "Can you explain {n}?", "Explain {n}.", "Tell me about {n}.", "Please tell me what {n} are.",
    "Could you tell me what {n} are?", "Describe {n}.", "What do you know about {n}?",
    "In simple words, what are {n}?", "Tell me something about {n}."]
MORE = ["Tell me more.", "Can you tell me more?", "What else can you say?", "Go on.", "And what else?",
        "More, please.", "Please tell me more about it.", "What else do you know about it?"]

CAPITALS = dict(zip(
    "France Germany Italy Spain England Ireland Norway Sweden Finland Denmark Poland Austria Greece "
    "Portugal Belgium Hungary Russia Turkey Egypt Kenya Japan China India Canada Mexico Brazil Peru "
    "Chile Cuba Australia".split(),
    "Paris Berlin Rome Madrid London Dublin Oslo Stockholm Helsinki Copenhagen Warsaw Vienna Athens "
    "Lisbon Brussels Budapest Moscow Ankara Cairo Nairobi Tokyo Beijing Delhi Ottawa Mexico_City "
    "Brasilia Lima Santiago Havana Canberra".split()))
CAPITALS = {c: t.replace("_", " ") for c, t in CAPITALS.items()}

# animal: sound, food, home, legs
BEASTS: Dict[str, Tuple[str, str, str, str]] = {
    "cow": ("moo", "grass", "on a farm", "four"), "dog": ("woof", "meat", "with people", "four"),
    "cat": ("meow", "fish and mice", "with people", "four"),
    "duck": ("quack", "plants and small fish", "on the water", "two"),
    "sheep": ("baa", "grass", "on a farm", "four"), "pig": ("oink", "nearly everything", "on a farm", "four"),
    "owl": ("hoot", "mice", "in the forest", "two"), "frog": ("croak", "flies", "near the water", "four"),
    "lion": ("a roar", "meat", "in Africa", "four"), "horse": ("neigh", "grass and hay", "on a farm", "four"),
    "bee": ("buzz", "the sweet juice of flowers", "in a hive", "six"),
    "mouse": ("squeak", "seeds and cheese", "in a hole", "four"),
    "crow": ("caw", "nearly everything", "in the trees", "two"),
    "wolf": ("a howl", "meat", "in the forest", "four"),
    "bear": ("a growl", "berries, honey and fish", "in the forest", "four"),
    "spider": ("no sound", "flies", "in a web", "eight"),
    "elephant": ("a trumpet sound", "grass and leaves", "in Africa and India", "four"),
    "hen": ("cluck", "seeds", "on a farm", "two")}
COLOURS = {"the sky": "blue", "grass": "green", "snow": "white", "the sun": "yellow", "blood": "red",
           "coal": "black", "a lemon": "yellow", "a tomato": "red", "a leaf": "green", "milk": "white",
           "the sea": "blue", "an orange": "orange", "chocolate": "brown", "an elephant": "grey"}
OPPOSITES = [("hot", "cold"), ("big", "small"), ("fast", "slow"), ("day", "night"), ("up", "down"),
             ("old", "new"), ("long", "short"), ("light", "dark"), ("happy", "sad"), ("open", "closed"),
             ("full", "empty"), ("strong", "weak"), ("left", "right"), ("wet", "dry"), ("hard", "soft"),
             ("loud", "quiet"), ("rich", "poor"), ("early", "late"), ("near", "far"), ("high", "low")]
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = ("January February March April May June July August September October November "
          "December").split()
LISTS = {
    "animals": ["a fox", "a bear", "an owl", "a rabbit", "a horse", "a duck", "a lion", "a frog"],
    "colours": ["red", "blue", "green", "yellow", "white", "black"],
    "fruits": ["apples", "pears", "plums", "cherries", "oranges", "bananas"],
    "machines": ["a crane", "a clock", "a computer", "a tractor", "a robot", "a bicycle"],
    "planets": ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn"],
    "countries": ["France", "Japan", "Kenya", "Canada", "India", "Norway", "Brazil"],
    "parts of a computer": ["the processor", "the memory", "the disk", "the screen", "the keyboard"],
    "things in a cluster": ["the coordinator", "the workers", "the network", "the model"]}


def fact(rng: random.Random) -> Tuple[str, str]:
    """A short question with one right answer."""
    kind = rng.randrange(9)
    if kind <= 1:
        country, town = rng.choice(list(CAPITALS.items()))
        if rng.random() < 0.2:
            return rng.choice([f"Where is {town}?", f"In which country is {town}?"]), \
                f"{town} is the capital of {country}."
        return rng.choice([f"What is the capital of {country}?"] * 3 + [
            f"Tell me the capital of {country}.", f"Which city is the capital of {country}?",
            f"Do you know the capital of {country}?", f"Name the capital of {country}."]), \
            f"The capital of {country} is {town}."
    if kind <= 3:
        beast, (sound, food, home, legs) = rng.choice(list(BEASTS.items()))
        a = stories.article(beast)
        return rng.choice([
            (f"What sound does {a} make?", f"{a.capitalize()} makes {sound}."
             if " " in sound else f'{a.capitalize()} says "{sound}".'),
            (rng.choice([f"What does {a} eat?", f"What do you feed {a}?"]), f"{a.capitalize()} eats {food}."),
            (rng.choice([f"Where does {a} live?", f"Where can I find {a}?"]), f"{a.capitalize()} lives {home}."),
            (rng.choice([f"How many legs does {a} have?", f"How many legs has {a}?"]),
             f"{a.capitalize()} has {legs} legs.")])
    if kind == 4:
        thing, colour = rng.choice(list(COLOURS.items()))
        word = rng.choice(["colour", "color"])
        return rng.choice([f"What {word} is {thing}?", f"What is the {word} of {thing}?",
                           f"Which {word} does {thing} have?"]), \
            f"{thing.capitalize()} is {colour}."
    if kind == 5:
        a, b = rng.choice(OPPOSITES)
        if rng.random() < 0.5:
            a, b = b, a
        return rng.choice([f"What is the opposite of {a}?", f"Tell me the opposite of {a}.",
                           f"What is the opposite of the word {a}?"]), f"The opposite of {a} is {b}."
    if kind == 6:
        names, unit = rng.choice([(DAYS, "day"), (MONTHS, "month")])
        i = rng.randrange(len(names))
        if rng.random() < 0.7:
            return rng.choice([f"Which {unit} comes after {names[i]}?", f"What comes after {names[i]}?",
                               f"What {unit} is after {names[i]}?"]), \
                f"After {names[i]} comes {names[(i + 1) % len(names)]}."
        return f"Which {unit} comes before {names[i]}?", f"Before {names[i]} comes {names[i - 1]}."
    if kind == 7:
        name, items = rng.choice(list(LISTS.items()))
        count, word = rng.choice([(2, "two"), (3, "three"), (4, "four")])
        got = rng.sample(items, count)
        text = ", ".join(got[:-1]) + " and " + got[-1]
        return rng.choice([f"Name {word} {name}.", f"Can you name {word} {name}?", f"Tell me {word} {name}.",
                           f"Give me {word} {name}."]), text[0].upper() + text[1:] + "."
    return rng.choice([
        ("How many days are in a week?", "A week has seven days."),
        ("How many months are in a year?", "A year has twelve months."),
        ("How many hours are in a day?", "A day has twenty-four hours."),
        ("How many minutes are in an hour?", "An hour has sixty minutes."),
        ("How many seconds are in a minute?", "A minute has sixty seconds."),
        ("What are the four seasons?", "The four seasons are spring, summer, autumn and winter."),
        ("Name the seasons.", "The four seasons are spring, summer, autumn and winter."),
        ("Which season is the coldest?", "Winter is the coldest season."),
        ("Which season is the warmest?", "Summer is the warmest season."),
        ("Where does the sun rise?", "The sun rises in the east."),
        ("Where does the sun set?", "The sun sets in the west."),
        ("What are the days of the week?", "The days of the week are " + ", ".join(DAYS[:-1]) + " and Sunday."),
        ("What is the largest planet?", "The largest planet is Jupiter."),
        ("What is the largest animal?", "The largest animal is the blue whale."),
        ("What is the highest mountain?", "The highest mountain is Mount Everest."),
        ("What do plants need?", "Plants need water, light and air."),
        ("What is water made of?", "Water is made of hydrogen and oxygen."),
        ("Count to five.", "One, two, three, four, five."),
        ("Count to ten.", "One, two, three, four, five, six, seven, eight, nine, ten."),
        ("Can you count to ten?", "One, two, three, four, five, six, seven, eight, nine, ten."),
        ("Say the alphabet.", "A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z."),
        ("Say hello.", "Hello!"), ("Say hello to everyone.", "Hello, everyone!"),
        ("Which planet do we live on?", "We live on the planet Earth."),
        ("How many planets are there?", "There are eight planets around our sun.")])


WHO = (["Who are you?", "What are you?", "Tell me about yourself.", "What is your name?", "Who am I talking to?",
        "Introduce yourself.", "Are you a robot?", "Are you a person?", "Are you a human?", "Please introduce yourself."],
       ["I am the demo model of Helix, a small language model. I can explain clusters and models, and I can tell stories.",
        "I am a small language model, and I run on several machines at once. Ask me about clusters, or ask me for a story."])
CAN = (["What can you do?", "How can you help me?", "What can I ask you?", "Can you help me?", "I need help.", "Help!",
        "What do you know?", "What should I ask you?"],
       ["I can explain machines, clusters, layers and pipelines, I know some simple facts, and I can tell you a story.",
        "You can ask me about clusters, GPUs, layers and the KV cache. You can also ask me for a story."])
GREET = (["Hello!", "Hello", "Hi!", "Hi", "Hey!", "Good morning!", "Good evening!", "Hello there!", "Hi there!", "Good day!",
          "Hello, Helix!", "hi", "hello"],
         ["Hello! How can I help you?", "Hello! What would you like to know?", "Hello! It is nice to meet you. What can I do for you?"])
FEEL = (["How are you?", "How are you today?", "How do you do?", "Hello, how are you?", "Hi, how are you?", "Are you well?",
         "How is it going?"],
        ["I am fine, thank you. All my layers are running well.", "I am very well, thank you. How can I help you?"])
THANKS = (["Thank you!", "Thanks!", "Thank you very much.", "Thanks a lot!", "Thank you, that helps.", "Great, thanks!",
           "thanks", "That was nice, thank you."],
          ["You are welcome!", "You are welcome! Ask me again at any time.", "I am glad that I could help."])
BYE = (["Goodbye!", "Bye!", "See you later!", "Good night!", "I have to go now.", "See you tomorrow!", "Goodbye"],
       ["Goodbye! Have a nice day.", "Goodbye! See you soon.", "See you soon!"])
WHERE = (["Where are you?", "Where do you run?", "Where do you live?", "Which machine are you on?", "On which machines do you run?"],
         ["I run on several machines. Each of them holds some of my layers.",
          "I live on a cluster of machines, and every machine runs a part of me."])
SIZE = (["How big are you?", "How large are you?", "How many weights do you have?", "How many layers do you have?",
         "Are you a large model?", "How many parameters do you have?"],
        ["I am very small. I have eight layers and about two million weights."])
JOKE = (["Tell me a joke.", "Tell me a joke!", "Do you know a joke?", "Make me laugh.", "Say something funny."],
        ["Why did the computer go to the doctor? It had caught a cold, because it left its windows open.",
         "Why was the token so tired? It had been through all the layers.",
         "What did the first layer say to the last layer? I will see you on the other side of the network."])
WELL = (["I like you.", "You are great!", "Well done!", "That was good.", "Very good!", "I like your story.", "Nice!", "Wow!"],
        ["Thank you, that is very kind.", "Thank you! I am happy that you like it."])
MADE = (["Who made you?", "How were you made?", "How did you learn?", "Who trained you?", "Where do you come from?"],
        ["I was trained by the people who make Helix, on short stories and simple questions.",
         "The makers of Helix trained me on short texts, so that I can show how a cluster works."])
TALK = [WHO, CAN, GREET, FEEL, THANKS, BYE, WHERE, SIZE, JOKE, WELL, MADE]

UNKNOWN_THINGS = ("chess football taxes money politics the_weather_today love the_stock_market cars history law medicine "
                  "chemistry physics philosophy poetry films fashion cooking my_homework the_news gold Napoleon Shakespeare "
                  "the_future dinosaurs my_cat Latin the_war coffee tennis the_lottery an_engine a_guitar").split()
UNKNOWN = ["Who won the game last night?", "What will the weather be like tomorrow?", "How old am I?", "What time is it?",
           "Can you write a program for me?", "Who is the president?", "What is two plus two?", "Solve this sum for me.",
           "How do I bake a cake?", "What should I eat today?", "Write a poem about {t}.", "What do you think about {t}?",
           "Who invented {t}?", "How much does {t} cost?", "When did {t} begin?", "Translate this for me.",
           "Give me advice about {t}.", "What is the meaning of life?", "Teach me {t}.", "How do I learn {t}?",
           "Who is {n}?", "Where is {n}?", "What is {t}?", "Tell me about {t}.", "Explain {t}.", "Can you help me with {t}?"]
UNKNOWN_ANSWERS = ["I am only a small demo model, and I do not know that. Ask me about clusters, or ask me for a story.",
                   "I am sorry, I do not know that. I know about machines, models and clusters, and I can tell stories."]

SYSTEMS = ["You are a helpful assistant.", "You are a friendly assistant.", "You are Helix, a helpful assistant.",
           "Be helpful and polite.", "You are the demo model of Helix.", "You answer questions about clusters.",
           "Answer the question of the user."]
BRIEF = ["Answer in one sentence.", "Answer briefly.", "Be brief.", "Keep your answers short.",
         "You are a helpful assistant. Answer in one sentence.", "Give short answers."]
STORY_ASK = ["Tell me a story about {a}.", "Write a story about {a}.", "Tell me a short story about {a}.",
             "Write a short story about {a}.", "Can you tell me a story about {a}?", "I want a story about {a}.",
             "Please tell me a story about {a}.", "Could you write a story about {a}?", "Tell a story about {a}.",
             "Make up a story about {a}."]
STORY_ANY = ["Tell me a story.", "Write a story.", "Tell me a short story.", "Can you tell me a story?", "I want to hear a story.",
             "Please tell me a story.", "A story, please.", "Do you know a story?", "Write a short story.", "tell me a story"]


def what_is(rng: random.Random, topic: Topic, brief: bool) -> Tuple[str, str]:
    name = rng.choice(topic.names[:1] * 3 + topic.names)
    many = name.endswith("s") and not name.startswith(("a ", "an ", "the ")) and name not in ("Helix", "AI")
    if topic.what[0].startswith(("Weights", "The weights")):
        many = name == "weights"
    forms = WHAT_MANY if many else WHAT
    if rng.random() < 0.15:
        forms = WHAT_BARE
        name = name.split(" ", 1)[1] if name.startswith(("a ", "an ", "the ")) else name
    elif not many and rng.random() < 0.12:
        forms, brief = WHAT_SHORT, True
    question = rng.choice(forms).format(n=name)
    answer = rng.choice(topic.what)
    if not brief and topic.more:
        extra = rng.sample(topic.more, min(len(topic.more), rng.choice([1, 1, 2])))
        answer = " ".join([answer] + [m for m in topic.more if m in extra])
    return question, answer


INDIRECT = [(re.compile(r"^How (?:do|can) I (.+)\?$"), ["how I can {0}", "how to {0}"]),
            (re.compile(r"^How do you (.+)\?$"), ["how you {0}", "how to {0}"]),
            (re.compile(r"^How do we (.+)\?$"), ["how we {0}", "how to {0}"]),
            (re.compile(r"^Why do (we|I) (.+)\?$"), ["why {0} {1}"]),
            (re.compile(r"^Why should I (.+)\?$"), ["why I should {0}"]),
            (re.compile(r"^How does (.+) work\?$"), ["how {0} works"]),
            (re.compile(r"^How do (.+s) work\?$"), ["how {0} work"]),
            (re.compile(r"^What does (.+) do\?$"), ["what {0} does"]),
            (re.compile(r"^What happens (.+)\?$"), ["what happens {0}"]),
            (re.compile(r"^What is the difference between (.+)\?$"), ["the difference between {0}"])]


def indirect(rng: random.Random, question: str) -> str:
    """ "How does X work?" as "Can you explain how X works?", where the form is a known one."""
    for pattern, forms in INDIRECT:
        match = pattern.match(question)
        if match:
            part = rng.choice(forms).format(*match.groups())
            return rng.choice([f"Can you explain {part}?", f"Please explain {part}.", f"Explain {part}.",
                               f"Can you explain to me {part}?", f"I would like to know {part}.",
                               f"Could you explain {part}?", f"Do you know {part}?"])
    return question


def blur(rng: random.Random, question: str) -> str:
    """The same question as people type it."""
    draw = rng.random()
    if draw < 0.10:
        question = question.lower()
    elif draw < 0.15:
        question = question.rstrip("?.!")
    elif draw < 0.25:
        question = question.lower().rstrip("?.!")
    elif draw < 0.31:
        question = rng.choice(["Hello! ", "Hi! ", "Please help me. ", "I have a question. ", "One question: ",
                               "Now tell me: ", "Hi, ", "OK. "]) + question
    elif draw < 0.34:
        question += rng.choice([" Thank you!", " Please.", " Thanks!"])
    return question


def ask(rng: random.Random, brief: bool = False) -> Tuple[str, str]:
    """One question with its answer."""
    draw = rng.random()
    if draw < 0.54:
        topic = rng.choice(TOPICS)
        while topic.names[0] in ("a friend", "bread") and rng.random() < 0.5:
            topic = rng.choice(TOPICS)
        if topic.facets and not brief and rng.random() < 0.6:
            facet = rng.choice(topic.facets)
            question, answer = rng.choice(facet.questions), rng.choice(facet.answers)
            if rng.random() < 0.25:
                question = indirect(rng, question)
        else:
            question, answer = what_is(rng, topic, brief)
    elif draw < 0.76:
        question, answer = fact(rng)
    elif draw < 0.86:
        questions, answers = rng.choice(TALK)
        question, answer = rng.choice(questions), rng.choice(answers)
    elif draw < 0.93:
        return repeat(rng)
    else:
        question = rng.choice(UNKNOWN).format(t=rng.choice(UNKNOWN_THINGS).replace("_", " "),
                                              n=rng.choice(stories.GIRLS + stories.BOYS))
        answer = rng.choice(UNKNOWN_ANSWERS)
    return blur(rng, question), answer


def ask_story(rng: random.Random) -> Tuple[str, str]:
    draw = rng.random()
    if draw < 0.25:
        return blur(rng, rng.choice(STORY_ANY)), stories.story(rng)
    hero = stories.person(rng, rng.choice(stories.KINDS))
    if draw < 0.65:
        about, text = hero.a_kind, stories.story(rng, hero.kind)
    elif draw < 0.85:
        about, text = f"{hero.a_kind} {rng.choice(['named', 'called'])} {hero.name}", \
            stories.story(rng, hero.kind, hero.name)
    else:
        friend = rng.choice([k for k in stories.KINDS if k != hero.kind])
        about, text = f"{hero.a_kind} and {stories.article(friend)}", \
            stories.story(rng, hero.kind, friend=friend)
    return blur(rng, rng.choice(STORY_ASK).format(a=about)), text


def chat(rng: random.Random, turns: int) -> Document:
    document: Document = []
    brief = False
    draw = rng.random()
    if draw < 0.2:
        document.append(("system", rng.choice(SYSTEMS)))
    elif draw < 0.25:
        brief = True
        document.append(("system", rng.choice(BRIEF)))
    while turns > 0:
        draw = rng.random()
        if turns >= 2 and draw < 0.35:
            topic = rng.choice([t for t in TOPICS if len(t.more) >= 2])
            question, answer = what_is(rng, topic, True)
            document += [("user", blur(rng, question)), ("assistant", answer)]
            rest = topic.more[:]
            rng.shuffle(rest)
            document += [("user", rng.choice(MORE)), ("assistant", " ".join(rest[:2]))]
            turns -= 2
            continue
        if document and document[-1][0] == "assistant" and draw < 0.5:
            questions, answers = rng.choice([THANKS, THANKS, WELL, BYE])
            question, answer = rng.choice(questions), rng.choice(answers)
        elif document and document[-1][0] == "assistant" and draw < 0.6:
            topic = rng.choice(TOPICS)
            question = rng.choice(["And what about {n}?", "What about {n}?", "And {n}?"]).format(n=topic.names[0])
            _, answer = what_is(rng, topic, brief)
        elif draw > 0.93:
            question, answer = ask_story(rng)
        else:
            question, answer = ask(rng, brief)
        document += [("user", question), ("assistant", answer)]
        turns -= 1
    return document


WORDS = sorted(set(stories.KINDS + stories.GIRLS + stories.BOYS + list(CAPITALS) + list(CAPITALS.values()) + MONTHS
                   + [w for pair in OPPOSITES for w in pair] + [w for t in stories.THINGS for w in t.split()]))


def repeat(rng: random.Random) -> Tuple[str, str]:
    """Copying: it teaches the attention to look words up, which names in stories need too."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(3, 14))]
    form = rng.randrange(3)
    if form == 0:
        text = " ".join(words)
        return rng.choice(["Repeat after me: {t}", "Repeat these words: {t}", "Say this: {t}", "Please repeat: {t}",
                           "Repeat: {t}"]).format(t=text), text
    if form == 1:
        word = words[0]
        return rng.choice(["Say {w}.", "Say the word {w}.", "Repeat the word {w}.", "Please say {w}."]).format(w=word), \
            f"{word[0].upper() + word[1:]}."
    name = rng.choice(stories.GIRLS + stories.BOYS)
    return rng.choice([f"My name is {name}.", f"I am {name}.", f"Hello, I am {name}.", f"Hi, my name is {name}."]), \
        rng.choice([f"Hello, {name}! How can I help you?", f"It is nice to meet you, {name}."])


def plain_text(rng: random.Random) -> str:
    """Sentences about one thing, without a conversation around them."""
    if rng.random() < 0.3:
        return fact(rng)[1]
    topic = rng.choice(TOPICS)
    return " ".join([rng.choice(topic.what)] + topic.more)


def draw_document(rng: random.Random) -> Document:
    draw = rng.random()
    if draw < 0.03:
        return [("story", plain_text(rng))]
    if draw < 0.16:
        return [("story", stories.story(rng))]
    if draw < 0.30:
        question, answer = ask_story(rng)
        return [("user", question), ("assistant", answer)]
    if draw < 0.84:
        return chat(rng, 1)
    return chat(rng, rng.choice([2, 2, 3, 3, 4, 6]))


def draw_long(rng: random.Random) -> Document:
    return chat(rng, rng.randint(8, 24))


if __name__ == "__main__":
    generator = random.Random(1)
    for _ in range(40):
        for role, text in draw_document(generator):
            print(f"[{role}] {text}")
        print()
