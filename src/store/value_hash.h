#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hasher.h"

namespace helix::store {

// 16 bytes that tell whether values are what they were: of numbers and texts as they lie in memory,
// each behind its kind and length, so that no two lists of values look alike.
class ValueHash {
  public:
    ValueHash& number(std::int64_t value) {
        add(-1);
        add(value);
        return *this;
    }
    ValueHash& text(std::string_view value) {
        add(static_cast<std::int64_t>(value.size()));
        if (!value.empty()) hasher_.add(std::as_bytes(std::span(value)));
        return *this;
    }
    ValueHash& null() {
        add(-2);
        return *this;
    }
    std::string bytes() const {
        const base::Hash128 hash = hasher_.hash();
        return {reinterpret_cast<const char*>(&hash), sizeof hash};
    }

  private:
    void add(std::int64_t number) { hasher_.add(std::as_bytes(std::span(&number, 1))); }
    base::Hasher128 hasher_;
};

}  // namespace helix::store
