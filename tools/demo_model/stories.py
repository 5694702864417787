"""Grammar of the short stories that the demo model learns from.

A story has a hero, a friend, a place, a trouble and a good end. `story(rng, ...)` draws one;
every sentence has several forms, so that two stories are hardly ever the same.
"""

from __future__ import annotations

import random
from typing import NamedTuple, Optional


class Person(NamedTuple):
    """A hero: kind with article ("a fox"), bare kind ("fox"), name and pronouns."""

    a_kind: str
    kind: str
    name: str
    he: str
    his: str
    him: str


GIRLS = ("Lily Anna Mia Ada Ella Rosa Nora Ida Clara Emma Maya Lucy Sara Vera Ruth Grace Zoe Eva "
         "Olga Jane Hanna Tilly Molly Nina").split()
BOYS = ("Tom Ben Max Leo Sam Paul Otto Jack Finn Oscar Hugo Noah Karl Ali Theo Adam Eric Luca "
        "Henry Peter Robin Felix Simon Hans").split()
ANIMALS = ("fox rabbit bear mouse cat dog owl hedgehog duck frog squirrel goat horse turtle crow "
           "elephant lion pig sheep bee").split()
MACHINES = "robot computer tractor train boat crane truck drone".split()
CHILDREN = {"f": ["girl"], "m": ["boy"]}
TRADES = "baker farmer sailor teacher painter gardener king queen doctor fisherman".split()
KINDS = ANIMALS + MACHINES + ["girl", "boy"] + TRADES


def article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def person(rng: random.Random, kind: Optional[str] = None, name: Optional[str] = None,
           avoid: str = "") -> Person:
    if kind is None:
        kind = rng.choice(rng.choice([ANIMALS, ANIMALS, MACHINES, ["girl"], ["boy"], TRADES]))
    female = rng.random() < 0.5
    if name is not None:
        female = name in GIRLS
    if kind in ("girl", "queen"):
        female = True
    if kind in ("boy", "king", "fisherman"):
        female = False
    if name is None:
        name = rng.choice([n for n in (GIRLS if female else BOYS) if n != avoid])
    he, his, him = ("she", "her", "her") if female else ("he", "his", "him")
    return Person(article(kind), kind, name, he, his, him)


PLACES = ["in a small village", "near a deep forest", "by the sea", "on a green hill",
          "in a big city", "at the edge of a river", "in an old house", "on a little farm",
          "in a quiet valley", "under a tall tree", "next to a blue lake", "on a small island"]
ADJECTIVES = ["little", "young", "kind", "clever", "brave", "quiet", "happy", "small", "curious",
              "friendly"]
THINGS = ["red ball", "golden key", "blue kite", "silver bell", "warm hat", "small lamp",
          "wooden boat", "music box", "green scarf", "shiny stone", "old map", "toy train"]
FOODS = ["cake", "bread", "soup", "apples", "honey", "pancakes", "berries", "cheese"]
WEATHER = ["The sun was shining", "It was a cold morning", "The wind was blowing softly",
           "It was a bright spring day", "It was a warm summer day", "The sky was clear and blue",
           "Snow was falling", "It was late in the evening"]
LESSONS = ["From that day on, they were the best of friends.",
           "And they all lived happily for a long time.",
           "That evening everyone was happy.",
           "And {name} never forgot that day.",
           "{name} smiled and went to sleep.",
           "{name} learned that it is good to ask for help.",
           "{name} learned that small friends can do great things.",
           "{name} learned that nobody has to do it all alone."]


def opening(rng: random.Random, p: Person) -> str:
    adjective, place = rng.choice(ADJECTIVES), rng.choice(PLACES)
    return rng.choice([
        f"Once upon a time, there was {article(adjective)} {p.kind} named {p.name}. "
        f"{p.name} lived {place}.",
        f"Once upon a time, {article(adjective)} {p.kind} lived {place}. "
        f"{p.he.capitalize()} was called {p.name}.",
        f"Once upon a time, {article(adjective)} {p.kind} named {p.name} lived {place}.",
        f"One day, {article(adjective)} {p.kind} named {p.name} went for a walk. "
        f"{p.name} lived {place}.",
        f"Long ago, there was {article(adjective)} {p.kind} who lived {place}. "
        f"The {p.kind} was called {p.name}.",
    ])


def meeting(rng: random.Random, p: Person, f: Person) -> str:
    where = rng.choice(["On the way", "Near the bridge", "Behind the hill", "At the market",
                        "In the garden", "On the road", "By the water", "Under a big tree"])
    return rng.choice([
        f"{where} {p.he} met {f.a_kind} named {f.name}.",
        f"{where} there was {f.a_kind}. The {f.kind} was called {f.name}.",
        f"Then {f.a_kind} named {f.name} came along.",
    ])


def lost(rng, p, f):
    thing = rng.choice(THINGS)
    spot = rng.choice(["under a bush", "behind a stone", "in the tall grass", "at the top of a tree",
                       "in the river", "under the old bridge", "in a dark hole"])
    return [
        rng.choice([f"{p.name} had {article(thing)} and loved it very much.",
                    f"The best thing that {p.name} had was {article(thing)}.",
                    f"{p.name} liked to play with {article(thing)}."]),
        rng.choice([f"One day the {thing} was gone.", f"But one morning the {thing} was lost.",
                    f"Then, one day, {p.he} could not find the {thing}."]),
        rng.choice([f"{p.name} looked everywhere, but it was not there.",
                    f"{p.name} was very sad and began to look for it.",
                    f"{p.he.capitalize()} looked in the house and in the garden."]),
        meeting(rng, p, f),
        rng.choice([f'"Why are you so sad?" asked {f.name}. "I have lost my {thing}," said {p.name}.',
                    f'"Can you help me?" asked {p.name}. "Yes, I will help you," said {f.name}.',
                    f'"I have lost my {thing}," said {p.name}. "Let us look together," said {f.name}.']),
        rng.choice([f"They looked for a long time, and at last they found the {thing} {spot}.",
                    f"Together they went on, and there was the {thing}, {spot}.",
                    f"Soon {f.name} found the {thing} {spot}."]),
        rng.choice([f'"Thank you!" said {p.name}.', f"{p.name} was so happy that {p.he} danced.",
                    f'"You are a good friend," said {p.name}.']),
    ]


def heavy(rng, p, f):
    load = rng.choice(["a huge stone", "a heavy box", "a big bag of flour", "a long ladder",
                       "a great pumpkin", "a heavy cart", "a big log"])
    others = rng.choice(["a cow and two ducks", "three small mice", "an old donkey",
                         "a goat and a dog", "two strong horses", "a little robot"])
    return [
        rng.choice([f"One day {p.he} found {load} in the middle of the road.",
                    f"One morning {p.name} had to move {load}.",
                    f"{p.name} wanted to carry {load} to the top of the hill."]),
        rng.choice(["It was too heavy for one.", f"{p.name} pushed and pulled, but it did not move.",
                    f"{p.he.capitalize()} tried and tried, but it was too heavy."]),
        meeting(rng, p, f),
        rng.choice([f'"One is not enough," said {f.name}, "but many can do it."',
                    f'"Let me help you," said {f.name}.',
                    f'"You should not do it alone," said {f.name}.']),
        rng.choice([f"They called {others}, and all of them pushed together.",
                    f"Then {others} came too, and everyone took a part of the work."]),
        rng.choice(["Slowly it began to move.", "And look, it moved!",
                    "Step by step it went up the hill."]),
        rng.choice([f'"We did it!" said {p.name}.', "The strong ones pushed a lot and the small ones "
                    "pushed a little, and it was enough.", f"{p.name} thanked them all."]),
    ]


def storm(rng, p, f):
    return [
        rng.choice(["One night a great storm came.", "In the evening dark clouds came over the hills.",
                    "Suddenly it began to rain, and the wind was very strong."]),
        rng.choice([f"{p.name} was afraid and ran home.", f"{p.name} heard a loud crash.",
                    f"{p.name} closed the door and made a fire."]),
        rng.choice([f"Then somebody knocked at the door. It was {f.a_kind} named {f.name}.",
                    f"Then {p.he} heard a small voice. It was {f.a_kind} named {f.name}."]),
        rng.choice([f'"Please help me, I am wet and cold," said {f.name}.',
                    f'"My house is gone," said {f.name}. "May I stay here?"',
                    f'"I have lost my way," said {f.name}.']),
        rng.choice([f'"Come in," said {p.name}, "there is room for two."',
                    f'"Of course," said {p.name}. "Sit down by the fire."']),
        rng.choice([f"They ate {rng.choice(FOODS)} and told each other stories until the storm was "
                    "over.", f"{p.name} gave {f.him} a blanket and some {rng.choice(FOODS)}."]),
        rng.choice(["In the morning the sun was shining again.",
                    "The next day the sky was clear and blue.",
                    f"The next day {p.name} helped {f.name} to build a new house."]),
    ]


def build(rng, p, f):
    work = rng.choice(["a bridge over the river", "a house in a tree", "a little boat", "a big kite",
                       "a clock that could sing", "a machine that could make toys", "a long wall",
                       "a new road to the village"])
    return [
        rng.choice([f"{p.name} wanted to build {work}.", f"One day {p.name} had an idea. "
                    f"{p.he.capitalize()} wanted to build {work}.",
                    f"{p.name} had always dreamed of building {work}."]),
        rng.choice([f"{p.he.capitalize()} worked all day, but it was too much for one.",
                    "It was hard work, and it did not go well.",
                    f"But {p.name} did not know how to begin."]),
        meeting(rng, p, f),
        rng.choice([f'"I can cut the wood," said {f.name}, "and you can hold the nails."',
                    f'"I know how to do it," said {f.name}. "Let me show you."',
                    f'"If we share the work, it will be easy," said {f.name}.']),
        rng.choice(["They shared the work. One did the first part, and the other did the next part.",
                    "So they worked together, day after day.",
                    "The work went from hand to hand, and nobody had to wait."]),
        rng.choice(["After a week it was ready.", "In the end it was finished, and it was beautiful.",
                    "At last it stood there in the light of the sun."]),
        rng.choice([f"Everybody came to see it, and {p.name} was proud.",
                    f'"It is wonderful," said {p.name}.', "All their friends came, and they ate "
                    f"{rng.choice(FOODS)}."]),
    ]


def race(rng, p, f):
    prize = rng.choice(THINGS)
    return [
        rng.choice(["One day there was a big race.", "Every year there was a race around the lake.",
                    "One morning the king called everyone to a race."]),
        rng.choice([f"The winner would get {article(prize)}.", f"The prize was {article(prize)}."]),
        rng.choice([f"{f.a_kind.capitalize()} named {f.name} was the fastest of all.",
                    f"Everyone thought that {f.name}, {f.a_kind}, would win."]),
        rng.choice([f"{p.name} was slow, but {p.he} did not give up.",
                    f"{p.name} ran as fast as {p.he} could."]),
        rng.choice([f"Halfway, {f.name} fell into a hole.", f"Then {f.name} hurt a foot and had to "
                    "stop."]),
        rng.choice([f"{p.name} could have won, but {p.he} stopped and helped {f.name}.",
                    f'"I will not leave you here," said {p.name}.']),
        rng.choice(["They came to the end of the race side by side.",
                    "They walked the last part together."]),
        rng.choice([f"So they shared the {prize}.", f"Everyone cheered, and both of them won "
                    f"{article(prize)}."]),
    ]


def kitchen(rng, p, f):
    food = rng.choice(FOODS)
    return [
        rng.choice([f"{p.name} loved to eat {food}.", f"{p.name} made the best {food} in the land."]),
        rng.choice([f"One day all the {food} was gone." if food not in ("apples", "pancakes", "berries")
                    else f"One day all the {food} were gone.",
                    "One day many guests came, and there was not enough to eat."]),
        meeting(rng, p, f),
        rng.choice([f'"I am hungry," said {f.name}. "So am I," said {p.name}.',
                    f'"What shall we do?" asked {p.name}.']),
        rng.choice([f'"Let us cook together," said {f.name}.',
                    f'"I have some flour and you have some milk," said {f.name}.']),
        rng.choice(["They cooked the whole afternoon and sang a song.",
                    "One of them mixed, and the other one watched the oven."]),
        rng.choice(["It smelled so good that everyone came running.",
                    f"Soon there was more {food} than they could eat."]),
        rng.choice(["They put a long table in the garden and shared it all.",
                    "They gave a piece to everyone."]),
    ]


def night_sky(rng, p, f):
    return [
        rng.choice([f"Every night {p.name} looked at the stars.",
                    f"{p.name} wanted to know how far away the moon is."]),
        rng.choice([f'"I wish I could fly," said {p.name}.',
                    f'"Who lives up there?" {p.he} asked.']),
        meeting(rng, p, f),
        rng.choice([f'"I know a high hill," said {f.name}. "From there you can see everything."',
                    f'"Come with me," said {f.name}. "I will show you something."']),
        rng.choice(["They walked through the dark forest and were not afraid.",
                    "They went up and up until they were very tired."]),
        rng.choice(["At the top the whole sky was full of light.",
                    "There they lay down in the grass and counted the stars."]),
        rng.choice(['"Look, a falling star!" ' + f"said {f.name}.", f"{p.name} made a wish."]),
    ]


def lantern(rng, p, f):
    """Many small helpers hand something on, one after another."""
    thing = rng.choice(["a letter", "a bucket of water", "a lantern", "a message", "a basket of bread"])
    return [
        rng.choice([f"One day {p.name} had to bring {thing} over the mountains.",
                    f"{p.name} had to carry {thing} to the queen."]),
        rng.choice(["The way was long, and nobody could go so far in one day.",
                    "It was much too far for one."]),
        meeting(rng, p, f),
        rng.choice([f'"I can carry it to the river," said {f.name}, "and somebody else can take it '
                    'from there."',
                    f'"Let each of us carry it a little way," said {f.name}.']),
        rng.choice(["So they stood in a long row and passed it on from one to the next.",
                    "Each one took it from the one before and gave it to the next one."]),
        rng.choice(["The fast ones went far, and the slow ones went only a few steps.",
                    "Big ones and small ones helped, and nobody was left out."]),
        rng.choice(["Before night it had arrived.", "In the evening it was there, and everyone "
                    "cheered."]),
    ]


def slow_machine(rng, p, f):
    work = rng.choice(["sort the letters", "count the apples", "paint the fence", "clean the big hall",
                       "bring in the hay", "pack the boxes"])
    return [
        rng.choice([f"One day {p.name} had to {work} before the night.",
                    f"One morning {p.name} was asked to {work}."]),
        rng.choice(["There was so much to do that it could not be done alone.",
                    f"{p.name} worked and worked, but there was still a lot to do."]),
        meeting(rng, p, f),
        rng.choice([f'"I am small and slow," said {f.name}, "but I would like to help."',
                    f'"I am not as fast as you," said {f.name}, "but I can do a little."']),
        rng.choice([f'"Every little bit helps," said {p.name}.',
                    f'"Then you take a small part, and I take a big part," said {p.name}.']),
        rng.choice(["So each of them did as much as they could.",
                    f"{p.name} did the big part and {f.name} did the small part."]),
        rng.choice(["When the sun went down, they were both ready at the same time.",
                    "Together they were done before the night."]),
    ]


def secret(rng, p, f):
    place = rng.choice(["an old tower", "a dark cave", "a garden behind a wall", "a room under the stairs",
                        "an empty house", "a ship on the beach"])
    found = rng.choice(["a box full of old letters", "a map of the stars", "a sleeping kitten",
                        "a tree with golden leaves", "a piano that played by itself", "a lamp that never went out"])
    return [
        rng.choice([f"Near the village there was {place}. Nobody ever went there.",
                    f"Everyone was afraid of {place} near the village."]),
        rng.choice([f"But {p.name} wanted to know what was inside.",
                    f"One night {p.name} saw a light there."]),
        meeting(rng, p, f),
        rng.choice([f'"Will you come with me?" asked {p.name}. "Yes," said {f.name}, "but I am a little afraid."',
                    f'"Do not go alone," said {f.name}. "I will come with you."']),
        rng.choice(["Slowly they opened the door and looked inside.",
                    "They took a lamp and went in, step by step."]),
        rng.choice([f"There they found {found}.", f"In the middle there was {found}."]),
        rng.choice([f'"How beautiful!" said {f.name}.', "They were not afraid any more.",
                    "They told everyone about it, and soon the whole village came to see it."]),
    ]


def sick_friend(rng, p, f):
    gift = rng.choice(["a bowl of warm soup", "some flowers", "a picture book", "a jar of honey", "a little song"])
    return [
        f"{p.name} had a good friend, {f.a_kind} named {f.name}.",
        rng.choice([f"One day {f.name} was ill and had to stay in bed.",
                    f"One day {f.name} did not come out to play."]),
        rng.choice([f'"What can I do?" thought {p.name}.', f"{p.name} was worried."]),
        rng.choice([f"So {p.name} went over the hill with {gift}.",
                    f"{p.name} knocked at the door and brought {gift}."]),
        rng.choice([f'"Oh, thank you!" said {f.name}. "Now I feel better."',
                    f"{f.name} smiled for the first time that day."]),
        rng.choice(["They talked and laughed until the evening.",
                    f"{p.name} came back every day and read a story."]),
        rng.choice([f"After a week {f.name} was well again, and they danced in the garden.",
                    f"Soon {f.name} could run and jump again."]),
    ]


PLOTS = [lost, heavy, storm, build, race, kitchen, night_sky, lantern, slow_machine, secret,
         sick_friend]


def story(rng: random.Random, kind: Optional[str] = None, name: Optional[str] = None,
          friend: Optional[str] = None) -> str:
    """One story. The hero's kind and name and the friend's kind are drawn if not given."""
    p = person(rng, kind, name)
    f = person(rng, friend, avoid=p.name)
    while f.kind == p.kind:
        f = person(rng, None, avoid=p.name)
    lines = [opening(rng, p)]
    if rng.random() < 0.3:
        lines.append(rng.choice(WEATHER) + ".")
    lines += rng.choice(PLOTS)(rng, p, f)
    lines.append(rng.choice(LESSONS).format(name=p.name))
    return " ".join(lines)
