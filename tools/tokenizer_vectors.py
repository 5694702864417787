#!/usr/bin/env python3
"""Test vectors for the tokenizers, from an implementation that shares nothing with src/text.

usage: tokenizer_vectors.py OUTPUT_DIR

Trains two small vocabularies on the text below (ours) and encodes some hundred strings with the most naive
code there is: quadratic merging, hand-written splitting on unicodedata, no regular expressions. Writes
tokenizer_spm.json, tokenizer_byte_bpe.json and pre_tokenizer.json. The same seed gives the same files.
"""
import json
import pathlib
import random
import sys
import unicodedata

CORPUS = """
The three machines in the room are not equal. One has much memory and is slow, one is fast and small, and the
third is old. The model does not fit on any of them, so each machine holds some of its layers, and every token
walks from one to the next. When the fast machine is busy the token waits; when the link is slow everybody waits.
"Where does the time go?" asked the operator. "Look at the links," said the scheduler, "they're the bottleneck."
We've moved 12 layers to the new worker, 7 stay here, and 1024 blocks of the cache follow tonight at 23:45.
Don't stop the coordinator! It'll keep 3 copies of the plan, and you'll see 99.5% of the requests finish in 250 ms.
for (int layer = 0; layer < 32; ++layer) {
    if (holder[layer] == worker) { run(layer, batch); }
}
def token_count(text):
\treturn len(tokenizer.encode(text))  # one number per text
Die Maschinen im Keller sind verschieden groß; die größte trägt die meisten Schichten. Über Nacht läuft ein Umzug.
La machine la plus rapide est déjà pleine, alors la requête passe par une autre : c'est moins vite, mais ça marche.
El servidor pequeño también ayuda: ¿cuántas capas puede llevar? ¡Más de las que pensabas, señor!
Машины в подвале не равны. Самая большая несёт больше слоёв, а самая быстрая отвечает первой.
机器并不相同。最大的机器承担最多的层，最快的机器先回答。每个词都要走完整条路。
機械はそれぞれ違います。大きい機械が多くの層を持ち、速い機械が先に答えます。
기계는 서로 다르다. 가장 큰 기계가 가장 많은 층을 맡는다.
الآلات ليست متساوية. أكبر آلة تحمل معظم الطبقات.
המכונות אינן שוות. המכונה הגדולה נושאת את רוב השכבות.
मशीनें समान नहीं हैं। सबसे बड़ी मशीन सबसे अधिक परतें रखती है।
🚀 ready, ✅ done, 🙂🙂 and a family 👨‍👩‍👧 in one line.
"""

WHITE_SPACE = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(c) for c in range(0x2000, 0x200B)}
SPACE = "\u2581"


def is_letter(c):
    return unicodedata.category(c)[0] == "L"


def is_number(c):
    return unicodedata.category(c)[0] == "N"


def is_mark(c):
    return unicodedata.category(c)[0] == "M"


def is_space(c):
    return c in WHITE_SPACE


def is_other(c):
    return not (is_letter(c) or is_number(c) or is_space(c))


def run_end(text, begin, test):
    end = begin
    while end < len(text) and test(text[end]):
        end += 1
    return end


def contraction_end(text, begin, fold):
    tail = text[begin:begin + 3]
    if fold:
        tail = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in tail)
    for ending in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"):
        if tail.startswith(ending):
            return begin + len(ending)
    return begin


def gpt2_words(text):
    """Contractions, then runs of letters, numbers and others, each with one space before it if there is one."""
    words, i = [], 0
    while i < len(text):
        end = contraction_end(text, i, fold=False)
        if end == i:
            start = i + 1 if text[i] == " " and i + 1 < len(text) else i
            for test in (is_letter, is_number, is_other):
                if test(text[start]):
                    end = run_end(text, start, test)
        if end == i:
            end = run_end(text, i, is_space)
            if end < len(text) and end - i > 1:
                end -= 1  # the last space belongs to the word after it
        words.append(text[i:end])
        i = end
    return words


def line_words(text, digits, in_word=is_letter):
    """The llama-bpe (digits=3) and qwen2 (digits=1) rule: words keep one odd character, lines keep their end."""
    words, i = [], 0
    while i < len(text):
        end = contraction_end(text, i, fold=True)
        if end == i:
            odd = text[i] not in "\r\n" and not is_letter(text[i]) and not is_number(text[i])
            for start in (i + 1, i) if odd else (i,):
                letters = run_end(text, start, in_word)
                if end == i and letters > start:
                    end = letters
        if end == i and is_number(text[i]):
            end = min(run_end(text, i, is_number), i + digits)
        if end == i:
            start = i + 1 if text[i] == " " else i
            others = run_end(text, start, lambda c: is_other(c) and not in_word(c))
            if others > start:
                end = run_end(text, others, lambda c: c in "\r\n")
        if end == i:
            end = spaces_end(text, i)
        words.append(text[i:end])
        i = end
    return words


def mark_words(text):
    """The qwen35 rule: the qwen2 rule with marks as letters, which a word's odd character may be as well."""
    return line_words(text, 1, lambda c: is_letter(c) or is_mark(c))


def case_words(text, digits, contractions):
    """Words of o200k (gpt-4o) and tekken: capitals, then small letters, so that a capital begins a word."""
    caseless = ("Lm", "Lo", "Mn", "Mc", "Me")

    def is_capital(c):
        return unicodedata.category(c) in ("Lu", "Lt") + caseless

    def is_small(c):
        return unicodedata.category(c) == "Ll" or unicodedata.category(c) in caseless

    def small_end(start):
        """Of capitals and then at least one small letter, as many capitals as there can be."""
        capitals = run_end(text, start, is_capital)
        for first in range(capitals, start - 1, -1):
            if first < len(text) and is_small(text[first]):
                return run_end(text, first, is_small)
        return start

    def capital_end(start):
        capitals = run_end(text, start, is_capital)
        return run_end(text, capitals, is_small) if capitals > start else start

    words, i = [], 0
    while i < len(text):
        end = i
        odd = text[i] not in "\r\n" and not is_letter(text[i]) and not is_number(text[i])
        for word_end in (small_end, capital_end):
            for start in (i + 1, i) if odd else (i,):
                if end == i and word_end(start) > start:
                    end = word_end(start)
                    end = contraction_end(text, end, fold=True) if contractions else end
        if end == i and is_number(text[i]):
            end = min(run_end(text, i, is_number), i + digits)
        if end == i:
            start = i + 1 if text[i] == " " else i
            others = run_end(text, start, is_other)
            if others > start:
                end = run_end(text, others, lambda c: c in "\r\n/")
        if end == i:
            end = spaces_end(text, i)
        words.append(text[i:end])
        i = end
    return words


def spaces_end(text, begin):
    """Up to the last line end among spaces, else all of them but for one before something else."""
    spaces = run_end(text, begin, is_space)
    lines = [k for k in range(begin, spaces) if text[k] in "\r\n"]
    if lines:
        return lines[-1] + 1
    return spaces - 1 if spaces < len(text) and spaces - begin > 1 else spaces


def cut_spaced_runs(words, test):
    """Cuts out of each word the runs of characters that pass, each with one space of any kind before it."""
    out = []
    for word in words:
        gap, i = 0, 0
        while i < len(word):
            start = i + 1 if is_space(word[i]) else i
            end = run_end(word, start, test)
            if end == start:
                start = i
                end = run_end(word, i, test)
            if end > start:
                out += [word[gap:i]] if i > gap else []
                out.append(word[i:end])
                gap = i = end
            else:
                i += 1
        out += [word[gap:]] if gap < len(word) else []
    return out


def cut_last_spaces(words):
    out = []
    for word in words:
        end = len(word)
        while end > 0 and is_space(word[end - 1]):
            end -= 1
        out += [part for part in (word[:end], word[end:]) if part]
    return out


def is_eastern(c):
    return "\u0800" <= c <= "\u9fa5" or "\uac00" <= c <= "\ud7ff"


def is_deepseek_letter(c):
    """Letters with cases, but for later ones and some scripts that were left out."""
    left_out = (0x2D00 <= ord(c) <= 0x2D2D or 0xA790 <= ord(c) <= 0xA7FF or 0xAB30 <= ord(c) <= 0xAB68
                or 0x10D0 <= ord(c) <= 0x10FF or 0x1D400 <= ord(c) <= 0x1D7CB or 0x1C80 <= ord(c) <= 0x1C88)
    return unicodedata.category(c) in ("Lu", "Ll", "Lt") and not left_out and c not in "\u0560\u0588\u10c7\u10cd"


def is_deepseek_sign(c):
    return ("!" <= c <= "/" or ":" <= c <= "~" or "\uff01" <= c <= "\uff0f" or "\uff1a" <= c <= "\uff5e"
            or "\u2018" <= c <= "\u201f" or "\u3000" <= c <= "\u3002")


def deepseek_llm_words(text):
    words = cut_runs([text], lambda c: c in "\r\n", longest=1)
    words = cut_spaced_runs(cut_spaced_runs(words, is_deepseek_letter), is_deepseek_sign)
    return cut_runs(cut_runs(cut_last_spaces(words), is_eastern), is_number, longest=1)


def deepseek_coder_words(text):
    words = cut_runs([text], lambda c: c in "\r\n", longest=1)
    words = cut_spaced_runs(cut_spaced_runs(words, is_letter), lambda c: unicodedata.category(c)[0] == "P")
    return cut_runs(cut_runs(words, is_eastern), is_number, longest=1)


def deepseek_v3_words(text):
    words = cut_runs([text], is_number, longest=3)
    words = cut_runs(words, lambda c: "\u4e00" <= c <= "\u9fa5" or "\u3040" <= c <= "\u30ff")
    return [piece for word in words for piece in deepseek_v3_rest(word)]


def deepseek_v3_rest(text):
    """What no rule takes (control characters, say) lies between words and is a piece."""
    def is_word(c):
        return is_letter(c) or is_mark(c)

    def is_sign(c):
        return unicodedata.category(c)[0] in "PS"

    words, gap, i = [], 0, 0
    while i < len(text):
        end = i
        if text[i].isascii() and is_sign(text[i]):
            letters = run_end(text, i + 1, lambda c: c.isascii() and c.isalpha())
            end = letters if letters > i + 1 else i
        if end == i:
            odd = text[i] not in "\r\n" and not is_letter(text[i]) and not is_sign(text[i])
            for start in (i + 1, i) if odd else (i,):
                if end == i and run_end(text, start, is_word) > start:
                    end = run_end(text, start, is_word)
        if end == i:
            start = i + 1 if text[i] == " " else i
            signs = run_end(text, start, is_sign)
            end = run_end(text, signs, lambda c: c in "\r\n") if signs > start else i
        if end == i:
            end = spaces_end(text, i)
        if end == i:
            i += 1
            continue
        words += [text[gap:i]] if i > gap else []
        words.append(text[i:end])
        gap = i = end
    return words + ([text[gap:]] if gap < len(text) else [])


def cut_runs(words, test, longest=None):
    """Cuts out of each word the runs of characters that pass; longest cuts these again."""
    out = []
    for word in words:
        i = 0
        while i < len(word):
            inside = test(word[i])
            end = run_end(word, i, lambda c: test(c) == inside)
            step = longest if inside and longest else end - i
            out += [word[k:min(k + step, end)] for k in range(i, end, step)]
            i = end
    return out


def cut_three_digits(words):
    out = []
    for word in words:
        gap, i = 0, 0
        while i < len(word):
            if len(word) - i >= 3 and all(c in "0123456789" for c in word[i:i + 3]):
                out += [word[gap:i]] if i > gap else []
                out.append(word[i:i + 3])
                i += 3
                gap = i
            else:
                i += 1
        out += [word[gap:]] if gap < len(word) else []
    return out


def default_words(text):
    words = cut_runs([text], lambda c: unicodedata.category(c)[0] == "P" or c in "$+<=>^~|")
    words = [piece for word in words for piece in gpt2_words(word)]
    return cut_three_digits(cut_runs(words, is_number))


def starcoder_words(text):
    return [piece for word in cut_runs([text], is_number, longest=1) for piece in gpt2_words(word)]


SPLITTERS = {
    "default": default_words,
    "gpt-2": gpt2_words,
    "llama-bpe": lambda text: line_words(text, 3),
    "qwen2": lambda text: line_words(text, 1),
    "starcoder": starcoder_words,
}
# Of these only the words are written.
MORE_SPLITTERS = {
    "gpt-4o": lambda text: case_words(text, 3, contractions=True),
    "qwen35": mark_words,
    "tekken": lambda text: case_words(text, 1, contractions=False),
    "deepseek-llm": deepseek_llm_words,
    "deepseek-coder": deepseek_coder_words,
    "deepseek-v3": deepseek_v3_words,
}


def train(words, n_merges):
    """Byte-pair merges, most frequent pair first (then the smallest), over lists of symbols."""
    words, merges = [list(word) for word in words], []
    for _ in range(n_merges):
        counts = {}
        for word in words:
            for pair in zip(word, word[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        words = [merge_everywhere(word, best) for word in words]
    return merges


def merge_everywhere(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


def merge_naively(symbols, order):
    """One merge at a time: of all neighbours the pair of smallest order, the leftmost of equals."""
    symbols = list(symbols)
    while True:
        candidates = [(order(a, b), i) for i, (a, b) in enumerate(zip(symbols, symbols[1:]))
                      if order(a, b) is not None]
        if not candidates:
            return symbols
        at = min(candidates)[1]
        symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]


def byte_characters():
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in own]
    return {b: chr(b) if b in own else chr(256 + rest.index(b)) for b in range(256)}


def byte_vocabulary():
    alphabet = byte_characters()
    words = ["".join(alphabet[b] for b in word.encode()) for word in gpt2_words(CORPUS)]
    merges = train(words, 400)
    tokens = [alphabet[b] for b in range(256)]
    tokens += [token for token in dict.fromkeys(a + b for a, b in merges) if token not in tokens]
    whole = "".join(alphabet[b] for b in " coordinator".encode())
    tokens += [whole] if whole not in tokens else []  # only whole_words_first finds it
    n = len(tokens)
    tokens += ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>", "<tool>"]
    return {"model": "gpt2", "tokens": tokens, "types": [1] * n + [3, 3, 3, 3, 4],
            "merges": [f"{a} {b}" for a, b in merges], "bos": n, "eos": n + 1}


def encode_bytes(vocabulary, pre, text):
    alphabet = byte_characters()
    ids = {token: i for i, token in enumerate(vocabulary["tokens"])}
    rank = {}
    for i, merge in enumerate(vocabulary["merges"]):
        rank.setdefault(tuple(merge.split(" ")), i)
    out = []
    for word in SPLITTERS[pre](text):
        symbols = "".join(alphabet[b] for b in word.encode())
        if pre == "llama-bpe" and symbols in ids:
            out.append(ids[symbols])
        else:
            out += [ids[s] for s in merge_naively(symbols, lambda a, b: rank.get((a, b)))]
    return out


def spm_vocabulary():
    words = [SPACE + word for line in CORPUS.split("\n") for word in line.split(" ")]
    pieces = list(dict.fromkeys(a + b for a, b in train(words, 500)))
    characters = [c for c in sorted(set("".join(words))) if ord(c) < 0x3000]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    types = [2, 3, 3] + [6] * 256
    scores = [0.0] * len(tokens)
    for i, token in enumerate(pieces + characters):
        tokens.append(token)
        types.append(1)
        scores.append(-float(i // 2))  # pairs share a score, so that ties are decided by position
    tokens += ["<tool>", "<|im_end|>"]
    return {"model": "llama", "tokens": tokens, "types": types + [4, 3], "scores": scores + [0.0, 0.0],
            "bos": 1, "eos": 2, "unknown": 0}


def encode_spm(vocabulary, text):
    ids = {token: i for i, token in enumerate(vocabulary["tokens"]) if vocabulary["types"][i] in (1, 4)}
    scores = vocabulary["scores"]

    def order(a, b):
        return -scores[ids[a + b]] if a + b in ids else None

    out = []
    for symbol in merge_naively((SPACE + text).replace(" ", SPACE), order) if text else []:
        out += [ids[symbol]] if symbol in ids else [3 + b for b in symbol.encode()]
    return out


def encode_with_special(vocabulary, text, parse_special, encode_text):
    """Special tokens, leftmost and longest first, cut the text; the pieces are encoded apart."""
    kinds = (2, 3, 4) if parse_special else (4,)
    special = {token: i for i, token in enumerate(vocabulary["tokens"]) if vocabulary["types"][i] in kinds}
    out, begin, i = [], 0, 0
    while i < len(text):
        found = max((t for t in special if text.startswith(t, i)), key=len, default=None)
        if found is None:
            i += 1
            continue
        out += encode_text(text[begin:i]) + [special[found]]
        i += len(found)
        begin = i
    return out + encode_text(text[begin:])


RANGES = [(0x20, 0x7E), (0x00, 0x1F), (0x80, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x5D0, 0x6FF),
          (0x900, 0x97F), (0xE00, 0xE5B), (0x1780, 0x17F9), (0x2000, 0x206F), (0x2070, 0x218B), (0x2460, 0x24FF),
          (0x2600, 0x27BF), (0x3000, 0x30FF), (0x4E00, 0x9FFC), (0xAC00, 0xD7A3), (0xFB00, 0xFB06), (0xFF01, 0xFF9F),
          (0x10330, 0x1034A), (0x1D400, 0x1D454), (0x1F300, 0x1F64F), (0x1F900, 0x1F9FF), (0x20000, 0x2A6D6)]
SPICE = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "'s", "'LL", "'re", "'", "0", "123", "4567", "a", "Z", "!?",
         "...", "=", "$", "\u00a0", "\u3000", "\u0085", "\u180e", "\u200b", "\u200d", "\ufeff", "\u2581", "é", "e\u0301", "ß", "ſ",
         "<s>", "</s>", "<0x0A>", "<unk>", "\u0000"]


def random_texts(seed, count):
    """Assigned characters of many scripts, spaces and line ends in odd places, and cuts of the corpus."""
    rng = random.Random(seed)

    def character():
        while True:
            c = chr(rng.randint(*rng.choice(RANGES)))
            if unicodedata.category(c) not in ("Cn", "Cs", "Co"):
                return c

    texts = []
    for i in range(count):
        if i % 4 == 0:
            at = rng.randrange(len(CORPUS) - 60)
            text = CORPUS[at:at + rng.randint(1, 60)]
        elif i % 4 == 1:
            text = "".join(rng.choice(SPICE) for _ in range(rng.randint(1, 12)))
        elif i % 4 == 2:
            text = "".join(character() for _ in range(rng.randint(1, 16)))
        else:
            text = "".join(rng.choice((character(), rng.choice(SPICE), CORPUS[rng.randrange(len(CORPUS))]))
                           for _ in range(rng.randint(1, 24)))
        texts.append(text)
    return texts


def with_special(texts, vocabulary, seed):
    rng = random.Random(seed)
    special = [t for i, t in enumerate(vocabulary["tokens"]) if vocabulary["types"][i] in (2, 3, 4)]
    out = []
    for text in texts:
        at = rng.randint(0, len(text))
        out.append(text[:at] + rng.choice(special) * rng.choice((1, 1, 2)) + text[at:])
    return out


def cases(vocabulary, texts, special_texts, encode_text):
    plain = [{"text": t, "ids": encode_with_special(vocabulary, t, False, encode_text)}
             for t in texts + special_texts]
    parsed = [{"text": t, "parse_special": True, "ids": encode_with_special(vocabulary, t, True, encode_text)}
              for t in special_texts]
    return plain + parsed


def write(path, value):
    """One case a line, so that a change is readable."""
    lines = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    path.write_text(lines.replace('{"text"', '\n{"text"') + "\n")


def main():
    out = pathlib.Path(sys.argv[1])
    spm = spm_vocabulary()
    texts = ["", " ", "  ", "\n", CORPUS] + random_texts(1, 300)
    special = with_special(random_texts(2, 40), spm, 3)
    write(out / "tokenizer_spm.json",
          [{"vocabulary": spm, "cases": cases(spm, texts, special, lambda t: encode_spm(spm, t))}])

    shared = byte_vocabulary()
    suites = []
    for n, pre in enumerate(SPLITTERS):
        vocabulary = {**shared, "pre": pre}
        texts = ["", " ", "  ", "\n", CORPUS] + random_texts(10 + n, 120)
        special = with_special(random_texts(20 + n, 20), vocabulary, 30 + n)
        suites.append({"vocabulary": {"pre": pre}, "cases": cases(
            vocabulary, texts, special, lambda t, v=vocabulary, p=pre: encode_bytes(v, p, t))})
    suites[0]["vocabulary"] = {**shared, **suites[0]["vocabulary"]}  # the later ones change only pre
    write(out / "tokenizer_byte_bpe.json", suites)

    splits = []
    for n, (pre, words) in enumerate({**SPLITTERS, **MORE_SPLITTERS}.items()):
        texts = random_texts(40 + n, 200 if pre in SPLITTERS else 100)
        splits.append({"pre": pre, "cases": [{"text": t, "words": words(t)} for t in texts]})
    write(out / "pre_tokenizer.json", splits)


if __name__ == "__main__":
    main()
