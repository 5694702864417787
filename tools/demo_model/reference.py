"""The model's forward pass in numpy, straight from the GGUF file, with a KV cache.

It is written apart from the training code, so that both check each other.
"""

from __future__ import annotations

from typing import List, Optional

import numpy as np

import gguf
from vocabulary import Vocabulary


class ReferenceModel:
    def __init__(self, path: str) -> None:
        self.metadata, self.tensors = gguf.read(path)
        meta = self.metadata
        self.layers = meta["llama.block_count"]
        self.heads = meta["llama.attention.head_count"]
        self.kv_heads = meta["llama.attention.head_count_kv"]
        self.hidden = meta["llama.embedding_length"]
        self.head_dim = self.hidden // self.heads
        self.epsilon = meta["llama.attention.layer_norm_rms_epsilon"]
        self.base = meta["llama.rope.freq_base"]
        self.vocabulary = Vocabulary(meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.scores"],
                                     meta["tokenizer.ggml.token_type"])
        self.reset()

    def reset(self) -> None:
        empty = np.zeros((0, self.kv_heads, self.head_dim), np.float32)
        self.keys = [empty] * self.layers
        self.values = [empty] * self.layers

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return x * scale * self.tensors[name]

    def rope(self, x: np.ndarray, start: int) -> np.ndarray:
        """Rotates neighbouring pairs; x: [tokens, heads, head_dim]."""
        frequency = self.base ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        angle = np.arange(start, start + len(x))[:, None, None] * frequency
        even, odd, cos, sin = x[..., 0::2], x[..., 1::2], np.cos(angle), np.sin(angle)
        out = np.empty_like(x)
        out[..., 0::2], out[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos
        return out

    def attention(self, h: np.ndarray, layer: int) -> np.ndarray:
        count, prefix, start = len(h), f"blk.{layer}.attn_", len(self.keys[layer])
        q = (h @ self.tensors[prefix + "q.weight"].T).reshape(count, self.heads, self.head_dim)
        k = (h @ self.tensors[prefix + "k.weight"].T).reshape(count, self.kv_heads, self.head_dim)
        v = (h @ self.tensors[prefix + "v.weight"].T).reshape(count, self.kv_heads, self.head_dim)
        q, k = self.rope(q, start), self.rope(k, start)
        keys = self.keys[layer] = np.concatenate([self.keys[layer], k])
        values = self.values[layer] = np.concatenate([self.values[layer], v])
        group = self.heads // self.kv_heads
        keys, values = np.repeat(keys, group, 1), np.repeat(values, group, 1)
        scores = np.einsum("qhd,khd->hqk", q, keys) / np.sqrt(self.head_dim)
        future = np.arange(len(keys))[None, :] > start + np.arange(count)[:, None]
        scores = np.where(future, -np.inf, scores)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", scores, values).reshape(count, self.hidden)
        return mixed.astype(np.float32) @ self.tensors[prefix + "output.weight"].T

    def forward(self, tokens: List[int]) -> np.ndarray:
        """Appends the tokens to the cache; logits [tokens, vocabulary]."""
        x = self.tensors["token_embd.weight"][tokens]
        for i in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{i}.attn_norm.weight"), i)
            h = self.norm(x, f"blk.{i}.ffn_norm.weight")
            gate = h @ self.tensors[f"blk.{i}.ffn_gate.weight"].T
            up = h @ self.tensors[f"blk.{i}.ffn_up.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.tensors[f"blk.{i}.ffn_down.weight"].T
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return self.norm(x, "output_norm.weight") @ head.T

    def generate(self, tokens: List[int], limit: int, temperature: float = 0.0,
                 rng: Optional[np.random.Generator] = None) -> List[int]:
        """Tokens up to (without) the end of text; greedy at temperature 0."""
        self.reset()
        logits, out = self.forward(tokens)[-1], []
        while len(out) < limit:
            if temperature > 0 and rng is not None:
                p = np.exp((logits - logits.max()) / temperature)
                token = int(rng.choice(len(p), p=p / p.sum()))
            else:
                token = int(logits.argmax())
            if token == self.metadata["tokenizer.ggml.eos_token_id"]:
                break
            out.append(token)
            logits = self.forward([token])[-1]
        return out
