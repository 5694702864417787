#include "model/synth_vocabulary.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"
#include "model/byte_alphabet.h"

namespace helix::model {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581, SentencePiece's mark for a space
constexpr std::size_t kMaxPieceBytes = 18;

// Pieces are grown towards these first, so that English text takes few tokens.
constexpr std::string_view kWords[] = {
    "the",   "and",   "of",     "to",    "in",     "is",     "that",  "it",    "for",     "was",
    "on",    "with",  "as",     "are",   "be",     "this",   "have",  "from",  "or",      "had",
    "by",    "not",   "but",    "what",  "all",    "were",   "when",  "we",    "there",   "can",
    "an",    "your",  "which",  "their", "said",   "if",     "will",  "each",  "about",   "how",
    "up",    "out",   "them",   "then",  "she",    "many",   "some",  "so",    "these",   "would",
    "other", "into",  "has",    "more",  "her",    "two",    "like",  "him",   "see",     "time",
    "could", "no",    "make",   "than",  "first",  "been",   "its",   "who",   "now",     "people",
    "my",    "made",  "over",   "did",   "down",   "only",   "way",   "find",  "use",     "may",
    "water", "long",  "little", "very",  "after",  "words",  "where", "most",  "know",    "machine",
    "model", "token", "layer",  "small", "answer", "number", "once",  "story", "network", "Hello"};

// What byte-level vocabularies have tokens for, beside words: each is one word to every
// pre-tokenizer.
constexpr const char* kJoinedTexts[] = {
    "  ", "    ",     "\n\n",     "...",      "==",       "()",       "//",
    "):", "\xc3\xa4", "\xc3\xa9", "\xc3\xb1", "\xc3\xb6", "\xc3\xbc", "\xc3\x9f"};

// The space mark and the printable ASCII characters.
std::vector<std::string> plain_characters() {
    std::vector<std::string> all{std::string(kSpace)};
    for (char c = '!'; c <= '~'; ++c) all.emplace_back(1, c);
    return all;
}

class Grower {
  public:
    Grower(std::int32_t size, std::uint64_t seed)
        : size_(static_cast<std::size_t>(size)), random_(seed) {}

    SynthVocabulary grow(const std::vector<SynthToken>& first) && {
        for (const SynthToken& token : first) add(std::string(token.text), token.type, 0.0F);
        for (int byte = 0; byte < kSynthBytes; ++byte)
            add(fmt::format("<0x{:02X}>", byte), synth_type::kByte, 0.0F);
        first_piece_ = out_.tokens.size();
        for (std::string& character : plain_characters()) add_piece(std::move(character));
        CHECK(out_.tokens.size() == first.size() + kSynthBytes + kSynthCharacters);
        for (const std::string_view word : kWords) add_prefixes(word);
        while (out_.tokens.size() < size_) join_two();
        return std::move(out_);
    }

  private:
    void add(std::string token, std::int32_t type, float score) {
        out_.tokens.push_back(std::move(token));
        out_.types.push_back(type);
        out_.scores.push_back(score);
    }

    bool add_piece(std::string piece) {
        if (out_.tokens.size() >= size_ || !seen_.insert(piece).second) return false;
        const auto rank = static_cast<float>(out_.tokens.size() - first_piece_);
        add(std::move(piece), synth_type::kNormal, -rank);
        return true;
    }

    // Each prefix is the one before joined with a character.
    void add_prefixes(std::string_view word) {
        std::string piece(kSpace);
        for (const char c : word) add_piece(piece += c);
    }

    void join_two() {
        const std::string& left = out_.tokens[pick()];
        const std::string& right = out_.tokens[pick()];
        if (right.starts_with(kSpace) || left.size() + right.size() > kMaxPieceBytes) return;
        add_piece(left + right);
    }

    // Picks letters and the space mark more often than chance would, else any earlier piece.
    std::size_t pick() {
        const std::size_t letters = first_piece_ + 'a' - ' ';
        if (random_.chance(0.4)) return letters + random_.below(26);
        if (random_.chance(0.15)) return first_piece_;
        return first_piece_ + random_.below(out_.tokens.size() - first_piece_);
    }

    std::size_t size_;
    base::Random random_;
    SynthVocabulary out_;
    std::set<std::string> seen_;
    std::size_t first_piece_ = 0;
};

std::size_t character_bytes(char lead) {
    const auto byte = static_cast<unsigned char>(lead);
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

bool is_small_letter(char c) {
    return c >= 'a' && c <= 'z';
}

class MergeGrower {
  public:
    // space is the character that stands for a space.
    MergeGrower(std::vector<std::string> characters, std::string space, std::int32_t size,
                std::uint64_t seed)
        : space_(std::move(space)), size_(static_cast<std::size_t>(size)), random_(seed) {
        for (std::string& character : characters) add(std::move(character));
        CHECK(out_.tokens.size() <= size_);
    }

    // texts are in the alphabet, and are grown before words are.
    SynthMerges grow(const std::vector<std::string>& texts) && {
        for (const std::string& text : texts) grow_text(text);
        for (const std::string_view word : kWords) grow_text(space_ + std::string(word));
        while (!is_full()) join_two();
        return std::move(out_);
    }

  private:
    using Id = std::uint32_t;

    bool is_full() const { return out_.tokens.size() >= size_; }

    // Words are made of tokens that are letters behind a space or behind none.
    void add(std::string token) {
        const auto id = static_cast<Id>(out_.tokens.size());
        std::string_view letters = token;
        if (letters.starts_with(space_)) letters.remove_prefix(space_.size());
        const bool within =
            !token.empty() && std::all_of(token.begin(), token.end(), is_small_letter);
        if (within) within_.push_back(id);
        if (within || std::all_of(letters.begin(), letters.end(), is_small_letter))
            beginnings_.push_back(id);
        ids_.emplace(token, id);
        out_.tokens.push_back(std::move(token));
    }

    void join(Id left, Id right) {
        const std::string& first = out_.tokens[left];
        const std::string& second = out_.tokens[right];
        merged_.emplace(std::pair(left, right), static_cast<Id>(out_.tokens.size()));
        out_.merges.push_back(fmt::format("{} {}", first, second));
        add(first + second);
    }

    // What the merges make of a text: the earliest first, of the same the leftmost. A later merge
    // has a greater number of what it makes.
    std::vector<Id> pieces_of(std::string_view text) const {
        std::vector<Id> pieces;
        for (std::size_t at = 0; at < text.size(); at += character_bytes(text[at])) {
            const auto known = ids_.find(std::string(text.substr(at, character_bytes(text[at]))));
            CHECK(known != ids_.end());
            pieces.push_back(known->second);
        }
        for (;;) {
            auto best = merged_.end();
            std::size_t where = 0;
            for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
                const auto found = merged_.find({pieces[i], pieces[i + 1]});
                if (found == merged_.end()) continue;
                if (best != merged_.end() && found->second >= best->second) continue;
                best = found;
                where = i;
            }
            if (best == merged_.end()) return pieces;
            pieces[where] = best->second;
            pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(where) + 1);
        }
    }

    // Its beginnings become tokens, and then the text itself.
    void grow_text(const std::string& text) {
        for (auto pieces = pieces_of(text); pieces.size() > 1 && !is_full();
             pieces = pieces_of(text))
            join(pieces[0], pieces[1]);
    }

    void join_two() {
        const std::string text = out_.tokens[beginnings_[random_.below(beginnings_.size())]] +
                                 out_.tokens[pick_within()];
        if (text.size() > kMaxPieceBytes) return;
        const std::vector<Id> pieces = pieces_of(text);
        if (pieces.size() == 2) join(pieces[0], pieces[1]);
    }

    // The letters, which were there first, more often than chance would.
    Id pick_within() {
        const std::size_t bound = random_.chance(0.5) ? std::size_t{26} : within_.size();
        return within_[random_.below(bound)];
    }

    std::string space_;
    std::size_t size_;
    base::Random random_;
    SynthMerges out_;
    std::map<std::string, Id> ids_;
    std::map<std::pair<Id, Id>, Id> merged_;
    std::vector<Id> within_;      // small letters alone
    std::vector<Id> beginnings_;  // these, and such behind a space
};

class WordPieceGrower {
  public:
    WordPieceGrower(std::int32_t size, std::uint64_t seed)
        : size_(static_cast<std::size_t>(size)), random_(seed) {}

    SynthWordPieces grow() && {
        for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) add(name, 3);
        for (char c = '!'; c <= '~'; ++c) {
            if (c < 'A' || c > 'Z') add_beginning(std::string(1, c));
        }
        for (const char c : kWithinWords) add_piece(std::string(1, c));
        CHECK(out_.tokens.size() == static_cast<std::size_t>(kMinSynthWordPieces));
        for (const std::string_view word : kWords) {
            std::string lower(word);
            if (lower[0] == 'H') lower[0] = 'h';  // the one with a capital
            add_beginning(lower);
        }
        while (out_.tokens.size() < size_) grow_random();
        return std::move(out_);
    }

  private:
    static constexpr std::string_view kWithinWords = "abcdefghijklmnopqrstuvwxyz0123456789";

    void add(std::string token, std::int32_t type) {
        out_.tokens.push_back(std::move(token));
        out_.types.push_back(type);
    }
    void add_piece(std::string piece) {
        if (out_.tokens.size() < size_ && seen_.insert(piece).second) add(std::move(piece), 1);
    }
    void add_beginning(const std::string& text) { add_piece(std::string(kSpace) + text); }

    // Letters, of which every third such is a beginning.
    void grow_random() {
        std::string letters;
        for (std::uint64_t n = 2 + random_.below(5); n > 0; --n)
            letters += kWithinWords[random_.below(26)];
        if (random_.below(3) == 0) {
            add_beginning(letters);
        } else {
            add_piece(std::move(letters));
        }
    }

    std::size_t size_;
    base::Random random_;
    SynthWordPieces out_;
    std::set<std::string> seen_;
};

}  // namespace

SynthVocabulary make_synth_vocabulary(std::int32_t size, std::uint64_t seed) {
    CHECK(size >= kMinSynthVocabulary);
    return make_synth_vocabulary(size, seed, {{"<unk>", synth_type::kUnknown}, {"<s>"}, {"</s>"}});
}

SynthVocabulary make_synth_vocabulary(std::int32_t size, std::uint64_t seed,
                                      const std::vector<SynthToken>& first) {
    return Grower(size, seed).grow(first);
}

SynthMerges make_synth_byte_merges(std::int32_t size, std::uint64_t seed) {
    CHECK(size >= kSynthBytes);
    const ByteAlphabet alphabet;
    std::vector<std::string> characters;
    for (int byte = 0; byte < kSynthBytes; ++byte)
        characters.push_back(alphabet.character(static_cast<unsigned char>(byte)));
    // As published vocabularies: in the order of their code points, as that of these bytes is.
    std::sort(characters.begin(), characters.end());
    std::vector<std::string> texts;
    for (const char* text : kJoinedTexts) texts.push_back(alphabet.characters(text));
    return MergeGrower(std::move(characters), alphabet.character(' '), size, seed).grow(texts);
}

SynthMerges make_synth_character_merges(std::int32_t size, std::uint64_t seed) {
    CHECK(size >= kSynthCharacters);
    return MergeGrower(plain_characters(), std::string(kSpace), size, seed).grow({});
}

SynthWordPieces make_synth_word_pieces(std::int32_t size, std::uint64_t seed) {
    CHECK(size >= kMinSynthWordPieces);
    return WordPieceGrower(size, seed).grow();
}

void set_synth_word_pieces(SynthWordPieces pieces, GgufBuilder& metadata) {
    metadata.set("tokenizer.ggml.model", "bert");
    metadata.set("tokenizer.ggml.pre", "default");
    metadata.set("tokenizer.ggml.tokens", std::move(pieces.tokens));
    metadata.set("tokenizer.ggml.token_type", std::move(pieces.types));
    metadata.set("tokenizer.ggml.bos_token_id", pieces.cls);
    metadata.set("tokenizer.ggml.eos_token_id", pieces.sep);
    metadata.set("tokenizer.ggml.unknown_token_id", pieces.unknown);
    metadata.set("tokenizer.ggml.seperator_token_id", pieces.sep);  // so spelt in files
    metadata.set("tokenizer.ggml.padding_token_id", pieces.padding);
    metadata.set("tokenizer.ggml.cls_token_id", pieces.cls);
    metadata.set("tokenizer.ggml.mask_token_id", pieces.mask);
    metadata.set("tokenizer.ggml.add_bos_token", true);
    metadata.set("tokenizer.ggml.add_eos_token", true);
}

}  // namespace helix::model
