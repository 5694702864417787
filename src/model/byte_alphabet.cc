#include "model/byte_alphabet.h"

namespace helix::model {
namespace {

bool stands_for_itself(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

// All characters of the alphabet are below U+0144, so they have one or two bytes of UTF-8.
std::string as_utf8(unsigned code_point) {
    if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
    return {static_cast<char>(0xc0U | (code_point >> 6)),
            static_cast<char>(0x80U | (code_point & 0x3fU))};
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte)
        characters_[byte] = as_utf8(stands_for_itself(byte) ? byte : next++);
    for (unsigned byte = 0; byte < 256; ++byte) {
        bytes_.emplace(characters_[byte], static_cast<unsigned char>(byte));
    }
}

std::string ByteAlphabet::characters(std::string_view bytes) const {
    std::string out;
    for (const char byte : bytes) out += character(static_cast<unsigned char>(byte));
    return out;
}

std::optional<std::string> ByteAlphabet::bytes(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = static_cast<unsigned char>(text[0]) < 0x80 ? 1 : 2;
        const auto found = bytes_.find(text.substr(0, length));
        if (found == bytes_.end()) return std::nullopt;
        out.push_back(static_cast<char>(found->second));
        text.remove_prefix(length);
    }
    return out;
}

}  // namespace helix::model
