#!/usr/bin/env python3
"""Compares our tokenizer with another program's on random and multilingual strings.

usage: compare_tokenizer.py PEER TEST_PROGRAM VOCABULARY.gguf... [--count N] [--seed S]

PEER VOCABULARY ADD_SPECIAL PARSE_SPECIAL (0 or 1) reads texts in hexadecimal from standard input, one a line,
and prints the token ids of each on a line. TEST_PROGRAM is our helix_text_test. Prints a line a vocabulary and
mode; exits 1 if anything differs.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from tokenizer_vectors import random_texts

SPECIAL = ["<s>", "</s>", "<unk>", "<|endoftext|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<fim_prefix>",
           "<|begin_of_text|>", "<0x41>"]


def texts_for(seed, count, parse_special):
    texts = random_texts(seed, count)
    if parse_special:
        texts = [t[:i % (len(t) + 1)] + SPECIAL[i % len(SPECIAL)] + t[i % (len(t) + 1):] for i, t in enumerate(texts)]
    return texts


def ask_peer(peer, vocabulary, add, parse, texts):
    lines = "".join(text.encode().hex() + "\n" for text in texts)
    done = subprocess.run([peer, vocabulary, str(int(add)), str(int(parse))], input=lines, text=True, check=True,
                          stdout=subprocess.PIPE)
    answers = done.stdout.split("\n")[:-1]
    if len(answers) != len(texts):
        sys.exit(f"{peer}: {len(answers)} answers to {len(texts)} texts")
    return [[int(word) for word in line.split()] for line in answers]


def compare(options, vocabulary, add, parse):
    texts = texts_for(options.seed, options.count, parse)
    cases = [{"text": text, "add_special": add, "parse_special": parse, "ids": ids}
             for text, ids in zip(texts, ask_peer(options.peer, vocabulary, add, parse, texts))]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"gguf": os.path.abspath(vocabulary), "cases": cases}, file)
        file.flush()
        done = subprocess.run([options.test_program, "--gtest_filter=TokenizerPeer.*"], stdout=subprocess.PIPE,
                              text=True, env={**os.environ, "HELIX_TOKENIZER_PEER_VECTORS": file.name})
    found = re.search(r"compared (\d+) mismatches (\d+)", done.stdout)
    print(f"{os.path.basename(vocabulary)} add_special={int(add)} parse_special={int(parse)}:",
          found.group(0) if found else "did not run", flush=True)
    if done.returncode != 0:
        print(done.stdout)
    return done.returncode == 0 and found is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer")
    parser.add_argument("test_program")
    parser.add_argument("vocabulary", nargs="+")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fine = [compare(options, v, add, parse) for v in options.vocabulary for add, parse in ((False, False), (True, True))]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
