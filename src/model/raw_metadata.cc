#include "model/raw_metadata.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "model/gguf_format.h"

namespace helix::model {
namespace {

using gguf::ValueType;

// Walks a header that was parsed before, so it is sound.
class HeaderWalk {
  public:
    explicit HeaderWalk(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <typename T>
    T number() {
        T value{};
        CHECK(sizeof value <= bytes_.size() - at_);
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }
    std::string text() {
        const std::uint64_t length = number<std::uint64_t>();
        CHECK(length <= bytes_.size() - at_);
        std::string value(length, '\0');
        std::memcpy(value.data(), bytes_.data() + at_, length);
        at_ += length;
        return value;
    }
    std::span<const std::byte> value() {
        const std::size_t begin = at_;
        skip(static_cast<ValueType>(number<std::uint32_t>()));
        return bytes_.subspan(begin, at_ - begin);
    }

  private:
    void skip(ValueType type) {
        if (type == ValueType::array) {
            const auto element = static_cast<ValueType>(number<std::uint32_t>());
            const std::uint64_t count = number<std::uint64_t>();
            for (std::uint64_t i = 0; i < count; ++i) skip(element);
        } else if (type == ValueType::string) {
            skip_bytes(number<std::uint64_t>());
        } else {
            skip_bytes(width(type));
        }
    }
    static std::uint64_t width(ValueType type) {
        switch (type) {
            case ValueType::u8:
            case ValueType::i8:
            case ValueType::boolean:
                return 1;
            case ValueType::u16:
            case ValueType::i16:
                return 2;
            case ValueType::u32:
            case ValueType::i32:
            case ValueType::f32:
                return 4;
            default:
                return 8;
        }
    }
    void skip_bytes(std::uint64_t count) {
        CHECK(count <= bytes_.size() - at_);
        at_ += count;
    }

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

}  // namespace

std::vector<RawEntry> raw_metadata(const GgufFile& file) {
    HeaderWalk walk(file.header());
    walk.number<std::uint32_t>();  // magic
    walk.number<std::uint32_t>();  // version
    walk.number<std::uint64_t>();  // tensors
    const std::uint64_t count = walk.number<std::uint64_t>();
    std::vector<RawEntry> entries;
    for (std::uint64_t i = 0; i < count; ++i) {
        std::string key = walk.text();
        entries.push_back({std::move(key), walk.value()});
    }
    return entries;
}

}  // namespace helix::model
