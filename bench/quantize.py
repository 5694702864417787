#!/usr/bin/env python3
"""What quantising a model costs: its size, and how far its predictions are from those that it had.

usage: bench/quantize.py HELIX MODEL.gguf [--text FILE] [--held-out FILE] [--types q4_k,q3_k,...] [--tokens 20000]
           [--held-out-tokens 8000] [--threads N] [--json FILE] [--peer PEER_BIN] [--into docs/quantize.md]

Quantises MODEL to each type with `helix model quantize`, without and with an importance matrix of --text, and
compares each with MODEL over --held-out by `helix model compare`. Prints a table, and puts it into its place on the page --into. Without
texts it draws both from the grammar of tools/demo_model with different seeds, as a demo model wants them
(tools/demo_model/train.py --hidden 256 --layers 4 --float).

--peer: a second table, of the files that llama-quantize of that folder makes of MODEL with the same importance matrix,
compared in the same way: by `helix model compare`, on the same text. Types other than mixes are asked of it for all
matrices (--pure); a file of another size than ours is an error then.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from tables import place_of, put, table_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TYPES = ("bf16,q8_0,q6_k,q5_k_m,q5_k,q5_1,q5_0,q4_k_m,q4_k,q4_1,q4_0,iq4_nl,iq4_xs,q3_k_m,q3_k,iq3_s,iq3_xxs,"
         "q2_k_m,q2_k,iq2_s,iq2_xs,iq2_xxs")


def helix(args, *command):
    done = subprocess.run([args.helix, "model", *command, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"helix model {' '.join(command)}:\n{done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def draw_text(path, seed):
    """What a demo model was trained on."""
    sys.path.insert(0, os.path.join(ROOT, "tools", "demo_model"))
    import corpus
    from vocabulary import render
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(render(corpus.draw_document(rng)) for _ in range(1000))


# Types that llama-quantize makes of no matrix without importances, which an embedding has not: it gets another type then.
EMBEDDING = {"iq2_xxs": "q2_k", "iq2_xs": "q2_k"}
# Types of which it makes no matrix of a layer without importances.
WEIGHED = ("iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs")


def measure(args, folder, kind, imatrix, embedding=None):
    path = os.path.join(folder, "quantised.gguf")
    made = helix(args, "quantize", args.model, path, "--type", kind, "--force", *threads(args),
                 *(["--embedding-type", embedding] if embedding else []),
                 *(["--imatrix", imatrix] if imatrix else []))
    found = helix(args, "compare", args.model, path, "--text", args.held_out, "--parse-special", "--tokens",
                  str(args.held_out_tokens), *threads(args))
    return {"type": kind, "imatrix": bool(imatrix), "bits": made["bits_per_weight"],
            "bytes": made["bytes"], "file_bytes": os.path.getsize(path), **found}


def peer_command(args, kind, imatrix, path):
    # Its own IQ2_M is iq2_s throughout with --pure, and its Q2_K is a mix without.
    name = {"iq2_s": "IQ2_M", "q2_k_m": "Q2_K"}.get(kind, kind.upper())
    pure = [] if kind.endswith("_m") else ["--pure", "--output-tensor-type", kind, "--token-embedding-type",
                                               EMBEDDING.get(kind, kind)]
    return [os.path.join(args.peer, "llama-quantize"), *(["--imatrix", imatrix] if imatrix else []), *pure,
            args.model, path, name]


def measure_peer(args, folder, ours, imatrix):
    """The same of the peer's file; None where it makes none without an importance matrix."""
    path = os.path.join(folder, "peer.gguf")
    kind = ours["type"]
    done = subprocess.run(peer_command(args, kind, imatrix, path), capture_output=True, text=True)
    if done.returncode != 0:
        if not imatrix and kind in WEIGHED:
            return None
        raise SystemExit(f"llama-quantize {kind}:\n{done.stderr[-2000:]}")
    size = os.path.getsize(path)
    if not kind.endswith("_m") and abs(size / ours["file_bytes"] - 1) > 0.01:
        raise SystemExit(f"llama-quantize {kind}: {size} bytes, ours has {ours['file_bytes']}")
    found = helix(args, "compare", args.model, path, "--text", args.held_out, "--parse-special", "--tokens",
                  str(args.held_out_tokens), *threads(args))
    return {"type": kind, "imatrix": bool(imatrix), "file_bytes": size, **found}


def peer_row(pair, peers):
    kind = pair[0]["type"]
    name = f"`{kind}`, embedding `{EMBEDDING[kind]}`" if kind in EMBEDDING else f"`{kind}`"
    row = [name, f"{pair[0]['file_bytes'] / 1e6:.2f}", f"{peers[1]['file_bytes'] / 1e6:.2f}"]
    for ours, peer in zip(pair, peers, strict=True):
        row.append(f"{ours['mean_kl']:.5f}")
        row += [f"{peer['mean_kl']:.5f}", f"{ours['mean_kl'] / peer['mean_kl']:.2f}"] if peer else ["refused", ""]
    return row


OWN = ("type", "bits a weight", "MB", "KL divergence, weighed evenly", "by an importance matrix", "perplexity, evenly",
       "by an importance matrix", "same first token")
BOTH = ("type", "MB", "llama.cpp", "KL divergence, weighed evenly", "llama.cpp", "ratio", "by an importance matrix", "llama.cpp", "ratio")


def threads(args):
    return ["--threads", str(args.threads)] if args.threads else []


def own_row(plain, weighed):
    return [f"`{plain['type']}`", f"{plain['bits']:.2f}", f"{plain['bytes'] / 1e6:.2f}", f"{plain['mean_kl']:.5f}",
            f"{weighed['mean_kl']:.5f}", f"{plain['perplexity']:.2f}", f"{weighed['perplexity']:.2f}",
            f"{100 * plain['same_top']:.1f} %, {100 * weighed['same_top']:.1f} %"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("model")
    parser.add_argument("--text", help="of which the importance matrix is made")
    parser.add_argument("--held-out", help="on which models are compared")
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--tokens", type=int, default=20000)
    parser.add_argument("--held-out-tokens", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", help="write all figures there")
    parser.add_argument("--peer", help="folder with llama-quantize")
    parser.add_argument("--into", type=pathlib.Path)
    args = parser.parse_args()
    if bool(args.text) != bool(args.held_out):
        parser.error("--text and --held-out go together")
    tables = {"quantised": (OWN, [])}
    if args.peer:
        tables["quantised by both"] = (BOTH, [])
    for name in tables if args.into else ():
        place_of(args.into, name)
    results = []
    with tempfile.TemporaryDirectory(prefix="helix-quantize-") as folder:
        if not args.text:
            args.text, args.held_out = (os.path.join(folder, name) for name in ("text", "held-out"))
            draw_text(args.text, "text")
            draw_text(args.held_out, "held out")
        imatrix = os.path.join(folder, "imatrix")
        helix(args, "imatrix", args.model, "--text", args.text, "--parse-special", "--tokens",
              str(args.tokens), "--output", imatrix, *threads(args))
        for kind in args.types.split(","):
            pair = [measure(args, folder, kind, None), measure(args, folder, kind, imatrix)]
            results += pair
            tables["quantised"][1].append(own_row(*pair))
            print(*tables["quantised"][1][-1], sep=", ", file=sys.stderr)
            if args.peer:
                if kind in EMBEDDING:
                    pair = [measure(args, folder, kind, matrix, EMBEDDING[kind]) for matrix in (None, imatrix)]
                peers = [measure_peer(args, folder, pair[0], None), measure_peer(args, folder, pair[1], imatrix)]
                results += [dict(peer, program="peer") for peer in peers if peer]
                tables["quantised by both"][1].append(peer_row(pair, peers))
    for name, (head, rows) in tables.items():
        made = table_of(head, rows)
        print(made + "\n")
        if args.into:
            put(made, name, args.into)
    print(f"perplexity of {os.path.basename(args.model)}: {results[0]['base_perplexity']:.4f}, "
          f"{results[0]['tokens']} tokens; standard errors of the mean KL up to "
          f"{max(r['mean_kl_error'] / max(r['mean_kl'], 1e-9) for r in results):.0%} of it")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
