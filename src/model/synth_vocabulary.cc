#include "model/synth_vocabulary.h"

#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"

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

class Grower {
  public:
    Grower(std::int32_t size, std::uint64_t seed)
        : size_(static_cast<std::size_t>(size)), random_(seed) {}

    SynthVocabulary grow() && {
        add("<unk>", 2, 0.0F);
        add("<s>", 3, 0.0F);
        add("</s>", 3, 0.0F);
        for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 6, 0.0F);
        first_piece_ = out_.tokens.size();
        add_piece(std::string(kSpace));
        for (char c = '!'; c <= '~'; ++c) add_piece(std::string(1, c));
        CHECK(out_.tokens.size() == static_cast<std::size_t>(kMinSynthVocabulary));
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
        add(std::move(piece), 1, -rank);
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
    return Grower(size, seed).grow();
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
