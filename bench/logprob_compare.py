#!/usr/bin/env python3
"""How far two programs' log-probabilities are apart, on the same model file and the same tokens.

usage: bench/logprob_compare.py OURS THEIRS [--limit 0.02]

Both files are as bench/logprob_dump writes them. Prints the mean and the greatest absolute difference over
all positions: of the token that really follows, of the most probable token, and of all tokens weighted by
their probability. Exit status 1 when the first mean is above the limit.
"""
import argparse
import math


def windows(path):
    texts = []
    with open(path) as lines:
        for line in lines:
            if line.startswith("window"):
                texts.append([])
                continue
            token, *values = line.split()
            texts[-1].append((int(token), [float(v) for v in values]))
    return texts


def differences(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for i, ((token, p), (other, q)) in enumerate(zip(a, b, strict=True)):
            if token != other or len(p) != len(q):
                raise SystemExit(f"position {i}: the files are of different texts or vocabularies")
            best = max(range(len(p)), key=p.__getitem__)
            follows = a[i + 1][0] if i + 1 < len(a) else best
            weighted = sum(math.exp(x) * abs(x - y) for x, y in zip(p, q))
            yield abs(p[follows] - q[follows]), abs(p[best] - q[best]), weighted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("theirs")
    parser.add_argument("--limit", type=float, default=0.02)
    arguments = parser.parse_args()
    rows = list(differences(windows(arguments.ours), windows(arguments.theirs)))
    print(f"{len(rows)} positions")
    means = []
    for name, column in zip(("the token that follows", "the most probable", "all, weighted"), zip(*rows)):
        means.append(sum(column) / len(column))
        print(f"{name:24} mean {means[-1]:.5f}  greatest {max(column):.5f}")
    raise SystemExit(means[0] > arguments.limit)


if __name__ == "__main__":
    main()
