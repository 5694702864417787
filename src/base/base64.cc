#include "base/base64.h"

#include <sodium.h>

namespace helix::base {

std::string to_base64(std::string_view bytes) {
    std::string out(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
    sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                      bytes.size(), sodium_base64_VARIANT_ORIGINAL);
    out.pop_back();  // the zero
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    std::string out(text.size(), '\0');
    std::size_t bytes = 0;
    const int failed =
        sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(),
                          text.size(), nullptr, &bytes, nullptr, sodium_base64_VARIANT_ORIGINAL);
    if (failed != 0) return std::nullopt;
    out.resize(bytes);
    return out;
}

}  // namespace helix::base
