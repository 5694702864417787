#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// Makes GGUF files byte by byte, right or wrong, without the writer under test.

namespace helix::model::test_support {

class GgufBytes {
  public:
    template <typename T>
    GgufBytes& number(T value) {
        const std::size_t at = bytes_.size();
        bytes_.resize(at + sizeof value);
        std::memcpy(bytes_.data() + at, &value, sizeof value);
        return *this;
    }
    GgufBytes& u32(std::uint32_t value) { return number(value); }
    GgufBytes& u64(std::uint64_t value) { return number(value); }
    GgufBytes& raw(std::string_view text) {
        for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
        return *this;
    }
    GgufBytes& string(std::string_view text) { return u64(text.size()).raw(text); }
    GgufBytes& preamble(std::uint64_t tensors, std::uint64_t metadata, std::uint32_t version = 3) {
        return raw("GGUF").u32(version).u64(tensors).u64(metadata);
    }
    // Appends a key and its value's type; the value has to follow.
    GgufBytes& key(std::string_view name, std::uint32_t type) { return string(name).u32(type); }
    GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                      std::uint32_t type, std::uint64_t offset) {
        string(name).u32(static_cast<std::uint32_t>(shape.size()));
        for (const std::uint64_t length : shape) u64(length);
        return u32(type).u64(offset);
    }
    GgufBytes& pad(std::size_t alignment = 32) {
        while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
        return *this;
    }
    GgufBytes& zeros(std::size_t count) {
        bytes_.resize(bytes_.size() + count);
        return *this;
    }
    std::vector<std::byte> take() const { return bytes_; }

  private:
    std::vector<std::byte> bytes_;
};

}  // namespace helix::model::test_support
