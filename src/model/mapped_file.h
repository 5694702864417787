#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace helix::model {

// A regular file's bytes, mapped for reading.
class MappedFile {
  public:
    // Errors name the path; not_found when there is no such file.
    static base::Result<std::unique_ptr<const MappedFile>> open(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return bytes_; }
    // Gives the memory that holds this part of bytes() back. It stays valid: what is used again is
    // read from the file again.
    void let_go(std::span<const std::byte> part) const;

  private:
    MappedFile() = default;
    std::span<const std::byte> bytes_;
    void* mapping_ = nullptr;
};

}  // namespace helix::model
