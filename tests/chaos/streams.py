"""Requests with known answers, and streams that note when each piece of text came."""
import asyncio
import json
import random
import time

WORDS = "once upon a time there was little big red dog cat house tree sun they went to play with the and".split()


def make_requests(count, seed, length=1.0):
    """Different prompts, lengths and ways to sample; each gives one certain answer. length: 0.5 halves the longest."""
    rng = random.Random(seed)
    longest_prompt, longest_answer = max(3, round(60 * length)), max(20, round(120 * length))
    made = []
    for i in range(count):
        body = {"model": "default", "prompt": " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, longest_prompt))),
                "max_tokens": rng.randint(20, longest_answer), "stream": True, "ignore_eos": True, "seed": 1000 + i,
                "temperature": rng.choice([0, 0.7, 1.0])}
        if rng.random() < 0.2:
            body["n"] = rng.choice([2, 3])
        if rng.random() < 0.2:
            body["frequency_penalty"] = 0.5
        if rng.random() < 0.2:
            body = demanded_calls(body)
        made.append(body)
    return made


# Knows tools in few words, as the model has a small context.
CHAT_TEMPLATE = """{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{% for message in messages %}\
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function.name }} {{ call.function.arguments }}</tool_call>\
{% endfor %}{{ message.content }} {% endfor %}"""


def demanded_calls(body):
    """The same question as a chat whose answer has to be calls of a tool, within its tokens."""
    parameters = {"type": "object", "properties": {"of": {"type": "string", "maxLength": 20}, "up_to": {"type": "integer"}},
                  "required": ["of"]}
    chat = {key: value for key, value in body.items() if key not in ("prompt", "ignore_eos")}
    return {**chat, "messages": [{"role": "user", "content": body["prompt"]}],
            "tools": [{"type": "function", "function": {"name": "count", "parameters": parameters}}],
            "tool_choice": "required", "max_tokens": max(80, body["max_tokens"])}


async def post(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode(errors="replace")
    writer.close()
    if not answer:
        raise ConnectionError(f"nobody answered POST {path}")
    status = int(answer.split(" ", 2)[1])
    return status, answer.split("\r\n\r\n", 1)[-1]


async def get_json(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode(errors="replace")
    writer.close()
    return json.loads(answer.split("\r\n\r\n", 1)[-1])


def piece_of(choice):
    """The text that it brings, or what it brings of calls."""
    delta = choice.get("delta", {})
    calls = (call.get("function", {}) for call in delta.get("tool_calls", ()))
    return choice.get("text", "") + (delta.get("content") or "") + "".join(
        call.get("name", "") + call.get("arguments", "") for call in calls)


class Stream:
    """One request, from its sending to its end."""

    def __init__(self, body):
        self.body = body
        self.texts = {}      # by choice
        self.finished = {}   # reasons by choice
        self.times = []      # of every piece, by the clock
        self.error = None

    async def run(self, port, on_piece=lambda: None):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        try:
            body = json.dumps(self.body).encode()
            path = b"/v1/chat/completions" if "messages" in self.body else b"/v1/completions"
            writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Connection: close\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
            status = (await reader.readline()).decode()
            if " 200 " not in status:
                self.error = status.strip() + " " + (await reader.read()).decode(errors="replace")[-300:]
                return
            while True:
                line = await reader.readline()
                if not line:
                    self.error = self.error or "the stream ended without [DONE]"
                    return
                if not line.startswith(b"data: "):
                    continue
                data = line[6:].strip()
                if data == b"[DONE]":
                    return
                self.take(json.loads(data))
                on_piece()
                if not self.wants_more():
                    return
        finally:
            writer.close()

    def take(self, event):
        if "error" in event:
            self.error = json.dumps(event["error"])
            return
        for choice in event.get("choices", []):
            index = choice["index"]
            self.texts[index] = self.texts.get(index, "") + piece_of(choice)
            if choice.get("finish_reason"):
                self.finished[index] = choice["finish_reason"]
        self.times.append(time.monotonic())

    def wants_more(self):
        """False: this client leaves."""
        return True

    def answer(self):
        return {index: (self.texts[index], self.finished.get(index)) for index in sorted(self.texts)}

    def pause_at(self, when):
        """From which piece to which it waited then; none before the first and after the last."""
        return next(((a, b) for a, b in zip(self.times, self.times[1:]) if a <= when < b), None)

    def longest_gap(self):
        return max((b - a for a, b in zip(self.times, self.times[1:])), default=0.0)
