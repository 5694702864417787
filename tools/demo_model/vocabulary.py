"""SentencePiece-style BPE vocabulary: training and encoding.

Encoding is the rule of GGUF's tokenizer.ggml.model = "llama": spaces become U+2581, one is put
before the text and after each special token, then the two neighbours whose joined piece has the
highest score merge (the leftmost on equal scores) until none is in the vocabulary. Symbols left
over that are no piece become byte tokens.
"""

from __future__ import annotations

import collections
import heapq
import re
from typing import Dict, Iterable, List, Pattern, Tuple

SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
SPECIALS = ["<unk>", "<s>", "</s>"]
ROLES = ["<|system|>", "<|user|>", "<|assistant|>"]
UNK, BOS, EOS = 0, 1, 2
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('This model knows the roles system, user and assistant only.') }}{% endif %}"
    "{{ '<|' + message['role'] + '|>\\n' + (message['content'] or '') | trim + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}")

# No piece crosses the border between letters and other characters, nor a space inside a unit.
# So a text can be encoded unit by unit (and the units' results kept).
UNIT = re.compile(f"{SPACE}?[A-Za-z]+|{SPACE}?[^A-Za-z{SPACE}\\n]+|\\n|{SPACE}")
SPECIAL = re.compile("|".join(re.escape(s) for s in SPECIALS + ROLES))


def learn_pieces(unit_counts: Dict[str, int], size: int) -> List[str]:
    """Byte-pair merges of the most frequent neighbours, in the order found."""
    words = [(list(unit), count) for unit, count in sorted(unit_counts.items()) if unit != "\n"]
    pairs: Dict[Tuple[str, str], int] = collections.Counter()
    where: Dict[Tuple[str, str], set] = collections.defaultdict(set)
    for index, (symbols, count) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += count
            where[pair].add(index)
    pieces: List[str] = []
    known = set()
    while len(pieces) < size:
        best = max(pairs, key=lambda p: (pairs[p], p), default=None)
        if best is None or pairs[best] < 2:
            break
        joined = best[0] + best[1]
        if joined not in known:
            known.add(joined)
            pieces.append(joined)
        for index in sorted(where[best]):
            symbols, count = words[index]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= count
                where[pair].discard(index)
            merged, i = [], 0
            while i < len(symbols):
                if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == best:
                    merged.append(joined)
                    i += 2
                else:
                    merged.append(symbols[i])
                    i += 1
            words[index] = (merged, count)
            for pair in zip(merged, merged[1:]):
                pairs[pair] += count
                where[pair].add(index)
        del pairs[best]
    return pieces


class Vocabulary:
    def __init__(self, pieces: List[str], scores: List[float], types: List[int],
                 unit: Pattern[str] = UNIT) -> None:
        self.pieces, self.scores, self.types, self.unit = pieces, scores, types, unit
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.byte_start = self.ids["<0x00>"]
        self.kept: Dict[str, List[int]] = {}

    @staticmethod
    def train(texts: Iterable[str], size: int, unit: Pattern[str] = UNIT) -> "Vocabulary":
        counts: Dict[str, int] = collections.Counter()
        for text in texts:
            for fragment in SPECIAL.split(text):
                if fragment:
                    counts.update(unit.findall(SPACE + fragment.replace(" ", SPACE)))
        letters = [SPACE] + [chr(c) for c in range(0x21, 0x7F)]
        head = SPECIALS + [f"<0x{b:02X}>" for b in range(256)] + ROLES
        merges = learn_pieces(counts, size - len(head) - len(letters))
        pieces = head + merges + letters
        scores = [0.0] * len(head) + [-float(i) for i in range(len(merges) + len(letters))]
        types = ([UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [CONTROL] * len(ROLES)
                 + [NORMAL] * (len(merges) + len(letters)))
        return Vocabulary(pieces, scores, types, unit)

    def encode_fragment(self, text: str) -> List[int]:
        """Highest score first over the whole text, as the C++ tokenizer does it."""
        symbols = list(text)
        following = list(range(1, len(symbols) + 1))
        before = list(range(-1, len(symbols) - 1))
        queue: List[Tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left < 0 or right >= len(symbols):
                return
            joined = symbols[left] + symbols[right]
            piece = self.ids.get(joined)
            if piece is not None and self.types[piece] == NORMAL:
                heapq.heappush(queue, (-self.scores[piece], left, right, joined))

        for i in range(len(symbols) - 1):
            offer(i, i + 1)
        while queue:
            _, left, right, joined = heapq.heappop(queue)
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != joined:
                continue
            symbols[left], symbols[right] = joined, ""
            following[left] = following[right]
            if following[right] < len(symbols):
                before[following[right]] = left
            offer(before[left], left)
            offer(left, following[left])
        out: List[int] = []
        for symbol in symbols:
            piece = self.ids.get(symbol)
            if not symbol:
                continue
            if piece is not None and self.types[piece] == NORMAL:
                out.append(piece)
            else:
                out += [self.byte_start + b for b in symbol.encode("utf-8")]
        return out

    def encode_plain(self, text: str) -> List[int]:
        """One fragment without special tokens: a space is put before it."""
        out: List[int] = []
        for unit in self.unit.findall(SPACE + text.replace(" ", SPACE)):
            ids = self.kept.get(unit)
            if ids is None:
                ids = self.encode_fragment(unit)
                self.kept[unit] = ids
            out += ids
        return out

    def encode(self, text: str, add_bos: bool = False) -> List[int]:
        """Special tokens in the text are recognised; their neighbours are encoded as fragments."""
        out, at = ([BOS] if add_bos else []), 0
        for match in list(SPECIAL.finditer(text)) + [None]:
            fragment = text[at:match.start() if match else len(text)]
            if fragment:
                out += self.encode_fragment(SPACE + fragment.replace(" ", SPACE))
            if match:
                out.append(self.ids[match.group()])
                at = match.end()
        return out

    def decode(self, ids: List[int]) -> str:
        data = b""
        for i in ids:
            if self.types[i] == BYTE:
                data += bytes([i - self.byte_start])
            elif self.types[i] == NORMAL:
                data += self.pieces[i].replace(SPACE, " ").encode("utf-8")
        return data.decode("utf-8", errors="replace")


def render(turns: List[Tuple[str, str]], generate: bool = False) -> str:
    """What CHAT_TEMPLATE makes of a conversation; a "story" is plain text after <s>."""
    text = SPECIALS[BOS]
    for role, content in turns:
        if role == "story":
            text += content + SPECIALS[EOS]
        else:
            text += f"<|{role}|>\n{content.strip()}{SPECIALS[EOS]}"
    return text + ("<|assistant|>\n" if generate else "")
