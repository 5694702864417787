#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

// The hashes by which a hub names what it has.

namespace helix::hub {

class Digest {
  public:
    static Digest sha256();
    // Git's name of a file of this size: SHA-1 over "blob SIZE", a zero byte and the file.
    static Digest git_blob(std::uint64_t bytes);

    void add(std::span<const std::byte> bytes);
    // In lower-case hexadecimal digits. Nothing may be added afterwards.
    std::string hex();

  private:
    explicit Digest(const void* algorithm);
    std::shared_ptr<void> state_;  // of the library
};

}  // namespace helix::hub
