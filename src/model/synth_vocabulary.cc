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

}  // namespace

SynthVocabulary make_synth_vocabulary(std::int32_t size, std::uint64_t seed) {
    CHECK(size >= kMinSynthVocabulary);
    return Grower(size, seed).grow();
}

}  // namespace helix::model
