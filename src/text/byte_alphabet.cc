#include "text/byte_alphabet.h"

#include "text/utf8.h"

namespace helix::text {
namespace {

bool stands_for_itself(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
        append_utf8(characters_[byte], stands_for_itself(byte) ? char32_t{byte} : next++);
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
        bytes_.emplace(characters_[byte], static_cast<unsigned char>(byte));
    }
}

std::optional<std::string> ByteAlphabet::bytes(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
        const Utf8Prefix prefix = utf8_prefix(text);
        const auto found = bytes_.find(text.substr(0, prefix.length));
        if (found == bytes_.end()) return std::nullopt;
        out.push_back(static_cast<char>(found->second));
        text.remove_prefix(prefix.length);
    }
    return out;
}

}  // namespace helix::text
