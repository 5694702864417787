#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::text {

// What SentencePiece makes of characters before it cuts a text into tokens ("ﬁ" becomes "fi", a
// line end a space): texts by the characters that they stand for, as a model's file has them.
//
// The file's bytes: n as 32 bits, n bytes of a trie, and the texts, each with a zero byte behind
// it. The trie is a double array of 32-bit units, little-endian like n. A unit that is a node has
// its byte in bits 0 to 7, whether its way is an entry in bit 8, and in bits 10 to 30, times 256
// where bit 9 is set, what its own place is XORed with to come to its children: the child by byte b
// lies b further on, XORed, and the unit at 0 there says with bit 31 where the entry's text begins.
class CharMap {
  public:
    CharMap() = default;  // without entries
    // Error invalid: bytes are none of these.
    static base::Result<CharMap> parse(std::string_view bytes);

    struct Entry {
        std::size_t length = 0;  // of what it stands for; 0: text begins with none
        std::string_view text;   // valid while the map lives
    };
    // The longest entry that text begins with.
    Entry longest(std::string_view text) const;

  private:
    std::vector<std::uint32_t> units_;
    std::string texts_;
};

}  // namespace helix::text
