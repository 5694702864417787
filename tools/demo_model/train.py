#!/usr/bin/python3
"""Trains the demo model from scratch and writes it as a GGUF file.

    tools/demo_model/train.py --out models/helix-demo.gguf --seed 1
    tools/demo_model/train.py --tools --out models/helix-demo-tools.gguf --seed 1

Stages: corpus -> vocabulary -> train -> export -> check. Needs Debian's python3-torch; on one
thread of a current processor it takes about half an hour. See README.md.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import random
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Pattern, Tuple

import numpy as np
import torch
import torch.nn.functional as F

import corpus
import gguf
import stories
import tools_corpus
import vocabulary as vocab_module
from check import check_file
from vocabulary import BOS, EOS, SPACE, Vocabulary, render

HEAD_DIM = 32  # of a hidden size of 128 four heads and two of keys and values; the feed-forward has three times its width
CONTEXT, EPSILON, ROPE_BASE = 1024, 1e-5, 10000.0
MUON_RATE, EMBEDDING_RATE, ADAM_RATE = 0.01, 0.03, 4e-3
DECAY_FROM = 0.5  # of the steps; from there the rate falls and long rows are mixed in
AGAIN_WEIGHT = 4.0  # on a name that came before: whom a story is about is hard to learn
NAMES = set(stories.GIRLS + stories.BOYS + stories.KINDS)
LEAST_OF_FLOATS = 0.8  # of the answers right: such a model is what quantisers are compared on, not one to talk to
GROUP = 2  # query heads for each head of keys and values

Example = Tuple[List[int], List[float]]
Shape = Tuple[int, int]  # rows, tokens


class Recipe(NamedTuple):
    """What the two demo models differ in."""
    name: str
    description: str
    vocabulary: int
    unit: Pattern[str]
    template: str
    draw_for_vocabulary: Callable[[random.Random], corpus.Document]
    draw_document: Callable[[random.Random], corpus.Document]
    draw_long: Callable[[random.Random], corpus.Document]  # for half of the documents of long rows
    user_weight: float  # of the loss on what the user says, against 1 for what the model says
    short: Shape
    question: str  # whose logits are compared


TALKER = Recipe("helix-demo", "Small model for the Helix demo, trained on generated text", 2048, vocab_module.UNIT,
                vocab_module.CHAT_TEMPLATE, corpus.draw_document, corpus.draw_document,
                corpus.draw_long, 0.1, (4, 256), "What is a pipeline?")
CALLER = Recipe("helix-demo-tools", "Small model for tests of Helix that calls two tools, trained on generated text",
                1024, tools_corpus.UNIT, tools_corpus.CHAT_TEMPLATE, tools_corpus.draw_for_vocabulary,
                tools_corpus.draw_document, tools_corpus.draw_long, 0.01, (3, 384), "What is 12 plus 30?")


# ---- corpus -> token rows ----------------------------------------------------------------------
def encode_document(vocab: Vocabulary, turns: corpus.Document, user_weight: float,
                    rng: random.Random) -> Example:
    """Token ids of the rendered document, and the loss weight of each token as a target."""
    ids, weights = [BOS], [0.0]
    draw = rng.random()
    if turns[0][0] != "story" and draw < 0.04:  # a doubled or a missing <s> should do no harm
        ids, weights = ([BOS, BOS], [0.0, 0.0]) if draw < 0.02 else ([], [])
    for role, text in turns:
        if role == "story":
            body, head, weight = vocab.encode_plain(text), [], 1.0
        else:
            head = [vocab.ids[f"<|{role}|>"]] + vocab.encode_plain("\n")
            body = vocab.encode_plain("\n" + text.strip())[len(head) - 1:]
            weight = 1.0 if role == "assistant" else user_weight
        ids += head + body + [EOS]
        weights += [0.0] * len(head) + [weight] * (len(body) + 1)
    said = set()
    for i, token in enumerate(ids):
        if vocab.pieces[token].lstrip(SPACE) in NAMES:
            if token in said and weights[i] == 1.0:
                weights[i] = AGAIN_WEIGHT
            said.add(token)
    return ids, weights


class Packer:
    """Fills rows of `length` tokens with whole documents; document numbers keep them apart."""

    def __init__(self, vocab: Vocabulary, recipe: Recipe, seed: int) -> None:
        self.vocab, self.rng, self.left = vocab, random.Random(seed), []  # type: ignore[var-annotated]
        self.recipe = recipe

    def example(self, length: int) -> Example:
        while True:
            if length > 512 and self.rng.random() < 0.5:
                turns = self.recipe.draw_long(self.rng)
            else:
                turns = self.recipe.draw_document(self.rng)
            ids, weights = encode_document(self.vocab, turns, self.recipe.user_weight, self.rng)
            if len(ids) <= length:
                return ids, weights

    def row(self, length: int) -> Tuple[List[int], List[float], List[int]]:
        ids: List[int] = []
        weights: List[float] = []
        document: List[int] = []
        number = 0
        while len(ids) < length:
            space = length - len(ids)
            fitting = [i for i, e in enumerate(self.left) if len(e[0]) <= space]
            if fitting:
                more, more_weights = self.left.pop(fitting[0])
            else:
                more, more_weights = self.example(length)
                if len(more) > space:
                    if len(self.left) < 64:
                        self.left.append((more, more_weights))
                        continue
                    more, more_weights = more[:space], more_weights[:space]
            ids += more
            weights += more_weights
            document += [number] * len(more)
            number += 1
        return ids, weights, document

    def batch(self, rows: int, length: int) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Tokens [rows, length], target weights likewise and the attention mask to add."""
        drawn = [self.row(length) for _ in range(rows)]
        ids = torch.tensor([d[0] for d in drawn])
        weights = torch.tensor([d[1] for d in drawn])
        document = torch.tensor([d[2] for d in drawn])
        seen = (document[:, :, None] == document[:, None, :]).tril()
        mask = torch.where(seen, 0.0, -1e9)[:, None]
        return ids, weights, mask


# ---- model -------------------------------------------------------------------------------------
class Size(NamedTuple):
    """Of a model, as its tensors have it."""
    hidden: int
    layers: int

    @property
    def kv_heads(self) -> int:
        return self.hidden // HEAD_DIM // GROUP

    @property
    def heads(self) -> int:
        return self.kv_heads * GROUP

    @property
    def ffn(self) -> int:
        return 3 * self.hidden


def size_of(parameters: Dict[str, torch.Tensor]) -> Size:
    return Size(parameters["token_embd.weight"].shape[1],
                sum(name.endswith("ffn_norm.weight") for name in parameters))


def make_parameters(vocabulary: int, size: Size, seed: int) -> Dict[str, torch.Tensor]:
    """Tensors under their GGUF names; matrices are [out, in]."""
    torch.manual_seed(seed)
    hidden, ffn = size.hidden, size.ffn
    shapes = {"q": size.heads * HEAD_DIM, "k": size.kv_heads * HEAD_DIM, "v": size.kv_heads * HEAD_DIM}
    parameters = {"token_embd.weight": torch.randn(vocabulary, hidden)}
    for i in range(size.layers):
        prefix = f"blk.{i}."
        parameters[prefix + "attn_norm.weight"] = torch.ones(hidden)
        for name, rows in shapes.items():
            parameters[f"{prefix}attn_{name}.weight"] = torch.randn(rows, hidden) * hidden ** -0.5
        parameters[prefix + "attn_output.weight"] = torch.randn(hidden, hidden) * 0.004
        parameters[prefix + "ffn_norm.weight"] = torch.ones(hidden)
        for name in ("gate", "up"):
            parameters[f"{prefix}ffn_{name}.weight"] = torch.randn(ffn, hidden) * hidden ** -0.5
        parameters[prefix + "ffn_down.weight"] = torch.randn(hidden, ffn) * 0.004
    parameters["output_norm.weight"] = torch.ones(hidden)
    parameters["output.weight"] = torch.zeros(vocabulary, hidden)
    return parameters


def rms_norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * scale


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def forward(p: Dict[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Logits [rows * length, vocabulary]."""
    rows, length = ids.shape
    size = size_of(p)
    heads, kv_heads = size.heads, size.kv_heads
    angle = torch.arange(length)[:, None] * ROPE_BASE ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    x = F.embedding(ids, p["token_embd.weight"]).view(rows * length, size.hidden)
    for i in range(size.layers):
        def weight(name: str) -> torch.Tensor:
            return p[f"blk.{i}.{name}.weight"]
        h = rms_norm(x, weight("attn_norm"))
        joined = torch.cat([weight("attn_q"), weight("attn_k"), weight("attn_v")])
        qkv = F.linear(h, joined).view(rows, length, heads + 2 * kv_heads, HEAD_DIM)
        qk = rotate(qkv[:, :, :heads + kv_heads], cos, sin)
        q = qk[:, :, :heads].transpose(1, 2).reshape(rows * kv_heads, GROUP * length, HEAD_DIM)
        k = qk[:, :, heads:].transpose(1, 2).reshape(rows * kv_heads, length, HEAD_DIM)
        v = qkv[:, :, heads + kv_heads:].transpose(1, 2).reshape(rows * kv_heads, length, HEAD_DIM)
        scores = torch.bmm(q * HEAD_DIM ** -0.5, k.transpose(1, 2))
        scores = torch.softmax(scores.view(rows, heads, length, length) + mask, -1)
        mixed = torch.bmm(scores.view(rows * kv_heads, GROUP * length, length), v)
        mixed = mixed.view(rows, heads, length, HEAD_DIM).transpose(1, 2)
        x = x + F.linear(mixed.reshape(rows * length, size.hidden), weight("attn_output"))
        h = rms_norm(x, weight("ffn_norm"))
        gate_up = F.linear(h, torch.cat([weight("ffn_gate"), weight("ffn_up")]))
        gate, up = gate_up.chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, weight("ffn_down"))
    return F.linear(rms_norm(x, p["output_norm.weight"]), p["output.weight"])


# ---- training ----------------------------------------------------------------------------------
class Muon:
    """Momentum whose update is made nearly orthogonal by Newton-Schulz steps; for matrices.

    K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
    """

    def __init__(self, matrices: List[torch.Tensor], momentum: float = 0.95) -> None:
        self.momentum = momentum
        self.groups: Dict[Tuple[int, int], List[torch.Tensor]] = {}  # one batched update per shape
        for matrix in matrices:
            self.groups.setdefault((matrix.shape[0], matrix.shape[1]), []).append(matrix)
        self.buffers = {s: torch.zeros(len(g), *s) for s, g in self.groups.items()}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for shape, matrices in self.groups.items():
            gradient = torch.stack([m.grad for m in matrices])
            buffer = self.buffers[shape].lerp_(gradient, 1 - self.momentum)
            x = gradient.lerp_(buffer, self.momentum).bfloat16()
            tall = shape[0] > shape[1]
            x = x.transpose(1, 2).contiguous() if tall else x
            x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
            for _ in range(5):
                a = torch.bmm(x, x.transpose(1, 2))
                x = 3.4445 * x + torch.bmm(torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x)
            x = (x.transpose(1, 2) if tall else x).float()
            scale = rate * max(1.0, shape[0] / shape[1]) ** 0.5
            for matrix, update in zip(matrices, x):
                matrix.add_(update, alpha=-scale)


def rate_at(step: int, steps: int) -> float:
    """Share of the full learning rate: short warm-up, constant, then linear to zero."""
    return min(1.0, (step + 1) / 60, (steps - step) / ((1 - DECAY_FROM) * steps))


def batch_shape(short: Shape, step: int, steps: int) -> Shape:
    """Of a step: mostly short rows, at the end some long ones."""
    return (1, 1024) if step > DECAY_FROM * steps and step % 8 == 0 else short


def train(vocab: Vocabulary, recipe: Recipe, size: Size, seed: int, steps: int,
          state_file: str) -> Dict[str, torch.Tensor]:
    """Goes on where state_file (if any) ends; an interrupted run comes to the same weights."""
    parameters = make_parameters(recipe.vocabulary, size, seed)
    for tensor in parameters.values():
        tensor.requires_grad_()
    matrices = [t for n, t in parameters.items() if t.ndim == 2 and n.startswith("blk.")]
    embedding = parameters["token_embd.weight"]
    others = [t for n, t in parameters.items()
              if t is not embedding and (t.ndim == 1 or not n.startswith("blk."))]
    muon = Muon(matrices)
    adam = torch.optim.Adam([{"params": [embedding]}, {"params": others}], lr=ADAM_RATE,
                            betas=(0.9, 0.95), eps=1e-10)
    packer, shown, first = Packer(vocab, recipe, seed), 0.0, 0
    if state_file and pathlib.Path(state_file).exists():
        state = torch.load(state_file)
        if state["run"] != (seed, steps, *size):
            raise SystemExit(f"{state_file} is of a run with (seed, steps, hidden, layers) = {state['run']}")
        first, shown, packer = state["step"], state["shown"], state["packer"]
        muon.buffers = state["muon"]
        adam.load_state_dict(state["adam"])
        with torch.no_grad():
            for name, tensor in parameters.items():
                tensor.copy_(state["parameters"][name])
    began, tokens = time.time(), 0
    for step in range(first, steps):
        if state_file and step % 200 == 0 and step > first:
            torch.save({"run": (seed, steps, *size), "step": step, "shown": shown, "packer": packer,
                        "muon": muon.buffers, "adam": adam.state_dict(), "parameters": parameters},
                       state_file)
        rows, length = batch_shape(recipe.short, step, steps)
        ids, weights, mask = packer.batch(rows, length)
        with torch.autocast("cpu", torch.bfloat16):
            logits = forward(parameters, ids, mask)
        targets, target_weights = ids[:, 1:].reshape(-1), weights[:, 1:].reshape(-1)
        logits = logits.float().view(rows, length, -1)[:, :-1].reshape(-1, recipe.vocabulary)
        losses = F.cross_entropy(logits, targets, reduction="none")
        loss = (losses * target_weights).sum() / target_weights.sum()
        for tensor in parameters.values():
            tensor.grad = None
        loss.backward()
        rate = rate_at(step, steps)
        muon.step(MUON_RATE * rate)
        adam.param_groups[0]["lr"] = EMBEDDING_RATE * rate
        adam.param_groups[1]["lr"] = ADAM_RATE * rate
        adam.step()
        tokens += rows * length
        shown = loss.item() if step == 0 else 0.9 * shown + 0.1 * loss.item()
        if step % 50 == 0 or step == steps - 1:
            speed = tokens / (time.time() - began)
            print(f"step {step:5d}/{steps}  loss {shown:.4f}  {speed:.0f} tokens/s  "
                  f"{time.time() - began:.0f} s", flush=True)
    return {name: tensor.detach() for name, tensor in parameters.items()}


# ---- export ------------------------------------------------------------------------------------
def export(path: str, vocab: Vocabulary, recipe: Recipe, parameters: Dict[str, torch.Tensor], whole: bool) -> None:
    """whole: matrices are floats, too."""
    text, u32, f32 = gguf.STRING, gguf.U32, gguf.F32
    size = size_of(parameters)
    of_matrices = gguf.TENSOR_F32 if whole else gguf.TENSOR_Q8_0
    metadata = [
        ("general.architecture", text, "llama"),
        ("general.name", text, recipe.name),
        ("general.author", text, "Helix contributors"),
        ("general.license", text, "apache-2.0"),
        ("general.description", text, recipe.description),
        ("general.file_type", u32, 0 if whole else 7),
        ("general.quantization_version", u32, 2),
        ("llama.context_length", u32, CONTEXT),
        ("llama.embedding_length", u32, size.hidden),
        ("llama.block_count", u32, size.layers),
        ("llama.feed_forward_length", u32, size.ffn),
        ("llama.attention.head_count", u32, size.heads),
        ("llama.attention.head_count_kv", u32, size.kv_heads),
        ("llama.attention.layer_norm_rms_epsilon", f32, EPSILON),
        ("llama.rope.dimension_count", u32, HEAD_DIM),
        ("llama.rope.freq_base", f32, ROPE_BASE),
        ("llama.vocab_size", u32, recipe.vocabulary),
        ("tokenizer.ggml.model", text, "llama"),
        ("tokenizer.ggml.tokens", (gguf.ARRAY, text), vocab.pieces),
        ("tokenizer.ggml.scores", (gguf.ARRAY, f32), vocab.scores),
        ("tokenizer.ggml.token_type", (gguf.ARRAY, gguf.I32), vocab.types),
        ("tokenizer.ggml.bos_token_id", u32, BOS),
        ("tokenizer.ggml.eos_token_id", u32, EOS),
        ("tokenizer.ggml.unknown_token_id", u32, vocab_module.UNK),
        ("tokenizer.ggml.add_bos_token", gguf.BOOL, True),
        ("tokenizer.ggml.add_eos_token", gguf.BOOL, False),
        ("tokenizer.ggml.add_space_prefix", gguf.BOOL, True),
        ("tokenizer.chat_template", text, recipe.template),
    ]
    tensors = [(name, tensor.numpy(), gguf.TENSOR_F32 if tensor.ndim == 1 else of_matrices)
               for name, tensor in parameters.items()]
    gguf.write(path, metadata, tensors)


def logits_for_check(path: str, ids: List[int]) -> np.ndarray:
    """torch's logits with the weights as they are in the file, in full precision."""
    _, arrays = gguf.read(path)
    parameters = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    mask = torch.full((len(ids), len(ids)), -1e9).triu(1)[None, None]
    with torch.no_grad():
        return forward(parameters, torch.tensor([ids]), mask).numpy()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tools", action="store_true", help="the model that calls tools")
    options.add_argument("--out", help="file to write [models/NAME.gguf]")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--steps", type=int, default=2600, help="training steps of about 1000 tokens")
    options.add_argument("--hidden", type=int, default=128, help="width, a multiple of 64 [128]")
    options.add_argument("--layers", type=int, default=8)
    options.add_argument("--float", action="store_true", help="write matrices as F32, not as Q8_0")
    options.add_argument("--state", default="", help="file that an interrupted run goes on from")
    options.add_argument("--threads", type=int, default=1)
    args = options.parse_args()
    if args.hidden % (HEAD_DIM * GROUP) != 0:
        options.error(f"--hidden: no multiple of {HEAD_DIM * GROUP}")
    recipe = CALLER if args.tools else TALKER
    out = args.out or f"models/{recipe.name}.gguf"
    torch.set_num_threads(args.threads)
    rng = random.Random(args.seed + 1000)
    print("corpus: 20000 documents for the vocabulary", flush=True)
    texts = [render(recipe.draw_for_vocabulary(rng)) for _ in range(20000)]
    vocab = Vocabulary.train(texts, recipe.vocabulary, recipe.unit)
    sizes = [len(vocab.encode(text)) for text in texts[:500]]
    assert len(vocab.pieces) == recipe.vocabulary, "the corpus has too few different words"
    print(f"vocabulary: {len(vocab.pieces)} pieces, {sum(sizes) / 500:.0f} tokens per document, "
          f"{sum(map(len, texts[:500])) / sum(sizes):.2f} characters per token", flush=True)
    parameters = train(vocab, recipe, Size(args.hidden, args.layers), args.seed, args.steps, args.state)
    count = sum(t.numel() for t in parameters.values())
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    export(out, vocab, recipe, parameters, args.float)
    print(f"export: {count} parameters, {pathlib.Path(out).stat().st_size} bytes -> {out}")
    ids = vocab.encode(render([("user", recipe.question)], True))
    return check_file(out, logits_for_check(out, ids), ids, least=LEAST_OF_FLOATS if args.float else None)


if __name__ == "__main__":
    sys.exit(main())
