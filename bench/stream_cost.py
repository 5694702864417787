#!/usr/bin/env python3
"""CPU time of the whole stack (HTTP, JSON, sampling, detokenising, scheduling) per streamed token.

usage: bench/stream_cost.py --binary build/bench/bin/helix --model stories260K.gguf [--streams 32] [--rounds 3]
           [--peer 'llama-server -m MODEL --port {port} -np 32 -c 16384'] [--json]

With a model so small that its arithmetic hardly counts; the table says for which kinds of answers. --peer: another
server with the OpenAI API, started and measured in turn on the same machine, for plain text only. Medians over the
rounds; CPU time, so a busy machine matters little.
"""
import argparse
import http.client
import json
import os
import shlex
import statistics
import sys
import tempfile
import threading

from served import Served

TOKENS = 200

# A template that knows tools and thoughts, whatever the model's own is. It says little of the tools, since attention
# to a long prompt is not what is measured here.
TEMPLATE = """{%- if tools %}tools: {% for tool in tools %}{{ tool.function.name }} {% endfor %}
<tool_call>{"name": NAME, "arguments": OBJECT}</tool_call>
{% endif %}{%- for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}{%- if add_generation_prompt %}assistant:
{% if enable_thinking %}<think>
{% endif %}{% endif %}"""

# Arguments that take many tokens.
TOOLS = [{"type": "function", "function": {
    "name": name, "parameters": {"type": "object", "properties": {
        "words": {"type": "array", "minItems": 40, "items": {"type": "string"}}, "count": {"type": "integer"}},
        "required": ["words", "count"], "additionalProperties": False}}} for name in ("note", "look")]

KINDS = {
    "text": {},
    "tools, free": {"tools": TOOLS, "min_tokens": TOKENS},
    "tools, demanded": {"tools": TOOLS, "tool_choice": "required"},
    "thought": {"enable_thinking": True, "min_tokens": TOKENS},
}


def stream(port, kind, index, counts):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"max_tokens": TOKENS, "stream": True, "temperature": 0.8, "seed": index,
            "stream_options": {"include_usage": True}}
    words = f"Once upon a time {index}"
    if kind == "text":
        path = "/v1/completions"
        body |= {"prompt": words, "ignore_eos": True}
    else:
        path = "/v1/chat/completions"
        body |= {"messages": [{"role": "user", "content": words}]} | KINDS[kind]
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        print(f"{kind} {index}: {response.status} {response.read().decode()}", file=sys.stderr)
        return
    for line in response:
        if line.startswith(b"data: {") and b'"usage":{' in line:
            counts[index] = json.loads(line[6:])["usage"]["completion_tokens"]


def measure(server, kind, streams):
    """Milliseconds of CPU per token."""
    counts = [0] * streams
    began = server.cpu_seconds()
    threads = [threading.Thread(target=stream, args=(server.port, kind, i, counts)) for i in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if min(counts) < TOKENS // 2:
        raise SystemExit(f"{kind}: a stream had only {min(counts)} tokens")
    return 1000 * (server.cpu_seconds() - began) / sum(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-bench-") as logs:
        servers = {}
        template = os.path.join(logs, "template.jinja")
        with open(template, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        try:
            ours = servers["helix"] = Served(os.path.join(logs, "helix.log"))
            ours.start([args.binary, "serve", "--model", args.model, "--listen", f"127.0.0.1:{ours.port}",
                        "--chat-template", template])
            ours.wait("/health/ready", 60)
            if args.peer:
                peer = servers["peer"] = Served(os.path.join(logs, "peer.log"))
                peer.start(shlex.split(args.peer.replace("{port}", str(peer.port))))
                peer.wait("/health", 60)
            cases = [(f"helix, {kind}", ours, kind) for kind in KINDS]
            if args.peer:
                cases.append(("peer, text", peer, "text"))
            samples = {name: [] for name, _, _ in cases}
            for number in range(args.rounds + 1):
                print(f"round {number}/{args.rounds}", file=sys.stderr)
                for name, server, kind in cases:
                    sample = measure(server, kind, args.streams)
                    if number > 0:  # the first warms up
                        samples[name].append(sample)
        finally:
            for server in servers.values():
                server.stop()
    middle = {name: statistics.median(values) for name, values in samples.items()}
    if args.json:
        print(json.dumps(middle))
        return
    for name, value in middle.items():
        print(f"{name:22} {value:.3f} ms CPU per streamed token, {args.streams} streams")
    if args.peer:
        print(f"{'ratio, text':22} {middle['peer, text'] / middle['helix, text']:.1f}")


if __name__ == "__main__":
    main()
