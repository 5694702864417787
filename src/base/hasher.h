#pragma once

#include <cstddef>
#include <span>

#include "base/hash.h"

namespace helix::base {

// Computes hash128() of bytes that come one part after the other.
class Hasher128 {
  public:
    Hasher128();
    ~Hasher128();
    Hasher128(const Hasher128&) = delete;
    Hasher128& operator=(const Hasher128&) = delete;
    void add(std::span<const std::byte> bytes);
    Hash128 hash() const;

  private:
    void* state_;  // of the library
};

}  // namespace helix::base
