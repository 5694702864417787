#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "spec/layer_range.h"

namespace helix::text {

// Remembers, during one call of encode, the tokens of words that were met before and already stand
// in its output. Bounded.
class WordMemory {
  public:
    explicit WordMemory(std::vector<spec::Token>& out) : out_(out) {}

    // Appends the tokens of the word, which must stay valid; encode() does so where it is met for
    // the first time.
    template <typename Encode>
    void append(std::string_view word, Encode encode) {
        const auto known = seen_.find(word);
        const std::size_t begin = out_.size();
        if (known == seen_.end()) {
            encode();
            if (word.size() > kMaxLength || seen_.size() >= kMaxWords) return;
            seen_.emplace(word, std::pair(begin, out_.size() - begin));
            return;
        }
        const auto [first, count] = known->second;
        for (std::size_t i = 0; i < count; ++i) out_.push_back(out_[first + i]);
    }

  private:
    static constexpr std::size_t kMaxWords = 1 << 16;
    static constexpr std::size_t kMaxLength = 64;

    std::vector<spec::Token>& out_;
    std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> seen_;
};

}  // namespace helix::text
