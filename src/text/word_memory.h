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

    // Appends the tokens of the word if it is remembered.
    bool repeat(std::string_view word) {
        const auto known = seen_.find(word);
        if (known == seen_.end()) return false;
        const auto [begin, count] = known->second;
        for (std::size_t i = 0; i < count; ++i) out_.push_back(out_[begin + i]);
        return true;
    }
    // word must stay valid. Its tokens are those from begin to the end of the output.
    void remember(std::string_view word, std::size_t begin) {
        if (word.size() > kMaxLength || seen_.size() >= kMaxWords) return;
        seen_.emplace(word, std::pair(begin, out_.size() - begin));
    }

  private:
    static constexpr std::size_t kMaxWords = 1 << 16;
    static constexpr std::size_t kMaxLength = 64;

    std::vector<spec::Token>& out_;
    std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> seen_;
};

}  // namespace helix::text
