#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/protocol/types.h"

namespace helix::core {

// Drafts how a text goes on by what it said earlier (prompt lookup): what followed the last few
// tokens when they were seen before. Costs nothing but the look, and is right where text is
// repeated: quotes, code that is edited, lists.
class NgramDrafter {
  public:
    // Looks for the last `longest` tokens, then for fewer, down to `shortest`; 0 < shortest <=
    // longest.
    NgramDrafter(std::int32_t shortest, std::int32_t longest);

    // The text goes on so. O(longest) for each token, amortised.
    void append(std::span<const Token> tokens);
    std::size_t size() const { return text_.size(); }

    // The next tokens after the text, count or none: what followed the latest earlier place of the
    // longest of its ends that was seen before. What reaches the text's end there goes on with the
    // draft, so a text that repeats itself does so in it.
    std::vector<Token> draft(std::int32_t count) const;

  private:
    // Where each n-gram that something follows ended last. Open addressing; slots hold ends, 0 =
    // empty.
    struct Places {
        std::size_t n = 0;
        std::size_t used = 0;
        std::vector<std::uint32_t> slots;  // a power of two, at most half used
    };
    std::uint64_t hash(std::size_t end, std::size_t n) const;
    std::size_t slot_of(const Places& places, std::size_t end) const;
    void note(Places& places, std::size_t end);

    std::vector<Token> text_;
    std::vector<Places> places_;  // the longest n first
};

}  // namespace helix::core
