#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace helix::model {

// GPT-2's bijection between bytes and printable characters, in which byte-level vocabularies are
// written: visible Latin-1 bytes stand for themselves, the other 68 are U+0100 and up in order (a
// space is "Ġ").
class ByteAlphabet {
  public:
    ByteAlphabet();
    // The character for a byte, as UTF-8.
    const std::string& character(unsigned char byte) const { return characters_[byte]; }
    // The characters for some bytes, one behind the other.
    std::string characters(std::string_view bytes) const;
    // The bytes that a token's text stands for; nothing when the text has a character outside the
    // alphabet.
    std::optional<std::string> bytes(std::string_view text) const;

  private:
    std::array<std::string, 256> characters_;
    std::unordered_map<std::string_view, unsigned char> bytes_;  // views into characters_

  public:
    ByteAlphabet(const ByteAlphabet&) = delete;
    ByteAlphabet& operator=(const ByteAlphabet&) = delete;
};

}  // namespace helix::model
