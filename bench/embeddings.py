#!/usr/bin/env python3
"""The encoders' embeddings beside llama.cpp, on the same files.

usage: bench/embeddings.py HELIX PEER_BIN [--texts 24] [--seed 3] [--into docs/models.md]

For each model of embeddings that `helix model synth --like` knows, but one, and each type of its matrices, texts of drawn words (3 to 80 of them) go
to `helix serve` (`/v1/embeddings`, KV in f16) and to llama-embedding of PEER_BIN, each with its own reading of the text
into tokens. Prints for how many texts both counted the same tokens, the mean and the greatest distance of two embeddings
of length 1, and how far the cosines of all pairs of texts are apart. --into puts the table into its place on that page.

jina-bert-v2-code is left out: of the tensor that has gates and what they multiply llama.cpp takes the first half for the
gates, as in the other models; in models for code, as they were published and as we read them, the gates are the second half.
"""
import argparse
import http.client
import itertools
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from served import Served
from tables import place_of, put, table_of

LIKES = ("bge", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modern-bert", "bge-m3", "qwen3-embedding", "embeddinggemma")
QUANTS = ("f32", "q8_0", "q4_k")


def drawn_texts(count, seed):
    rng = random.Random(seed)
    letters = "etaoinshrdlu"
    words = ["".join(rng.choice(letters) for _ in range(rng.randint(1, 9))) for _ in range(400)]
    return [" ".join(rng.choice(words) for _ in range(rng.randint(3, 80))) for _ in range(count)]


def ours(helix, model, texts, folder):
    served = Served(os.path.join(folder, "serve.log"))
    served.start([helix, "serve", "--model", model, "--listen", f"127.0.0.1:{served.port}", "--threads", "2"])
    served.wait("/health/ready", 60)
    try:
        vectors, tokens = [], []
        for text in texts:
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
            connection.request("POST", "/v1/embeddings", json.dumps({"input": text}), {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            vectors.append(answer["data"][0]["embedding"])
            tokens.append(answer["usage"]["prompt_tokens"])
        return vectors, tokens
    finally:
        served.stop()


def theirs(peer_bin, model, text, size, tries=20):
    """The embedding, of so many values, and the number of tokens that the text was read as."""
    command = [os.path.join(peer_bin, "llama-embedding"), "-m", model, "-p", text, "--embd-normalize", "2",
               "--embd-output-format", "array", "-t", "2", "--verbose-prompt", "-lv", "4"]
    for _ in range(tries):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            break
        # The program ends now and then before all that it has to say is written, or leaves a part of it out.
        counts = re.findall(r"number of tokens in prompt = (\d+)", done.stderr + done.stdout)
        found = re.search(r"\[\[([^\]]*)\]", done.stdout)
        values = found.group(1).split(",") if found else []
        whole = all(re.fullmatch(r"\s*-?\d+\.\d+", value) for value in values)
        if whole and len(values) == size and len(counts) == 1:
            return [float(value) for value in values], int(counts[0])
    raise SystemExit(f"no embedding from llama-embedding:\n{done.stderr[-2000:]}")


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def compare(args, like, quant, texts, folder):
    model = os.path.join(folder, f"{like}.gguf")
    subprocess.run([args.helix, "model", "synth", "--like", like, "--quant", quant, "--seed", str(args.seed), model], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    mine, tokens = ours(args.helix, model, texts, folder)
    peers, counts = zip(*(theirs(args.peer_bin, model, text, len(mine[0])) for text in texts), strict=True)
    mine, peers = [unit(v) for v in mine], [unit(v) for v in peers]
    apart = [math.dist(a, b) for a, b in zip(mine, peers, strict=True)]
    pairs = [abs(dot(mine[i], mine[j]) - dot(peers[i], peers[j])) for i, j in itertools.combinations(range(len(texts)), 2)]
    same = sum(a == b for a, b in zip(tokens, counts, strict=True))
    return (like, quant, f"{same} of {len(texts)}", f"{sum(apart) / len(apart):.6f}", f"{max(apart):.6f}",
            f"{sum(pairs) / len(pairs):.6f}", f"{max(pairs):.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("peer_bin")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--into", type=pathlib.Path)
    args = parser.parse_args()
    if args.into:
        place_of(args.into, "embeddings")
    texts = drawn_texts(args.texts, args.seed)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for like, quant in itertools.product(LIKES, QUANTS):
            print(f"{like}, {quant}", file=sys.stderr)
            rows.append(compare(args, like, quant, texts, folder))
    table = table_of(("model", "matrices", "same number of tokens", "distance, mean", "greatest", "cosines of pairs apart, mean",
                      "greatest"), rows)
    print(table)
    if args.into:
        put(table, "embeddings", args.into)


if __name__ == "__main__":
    main()
