#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "hub/digest.h"

// Files that arrive bit by bit.

namespace helix::hub {

// The system's calls that a full disk answers; tests put others in their place.
struct Disk {
    // As write(2).
    std::function<ssize_t(int descriptor, const void* bytes, std::size_t count)> write;
    // Bytes that may still be written in this folder.
    std::function<base::Result<std::uint64_t>(const std::filesystem::path& folder)> free_bytes;
};
Disk real_disk();

base::Status make_folder(const std::filesystem::path& folder);

// The beginning of a file, which stays when the process ends, whatever ends it. Its length is how
// much of it is there.
class PartFile {
  public:
    // Opens what is there, or an empty one.
    static base::Result<std::unique_ptr<PartFile>> open(const std::filesystem::path& path,
                                                        const Disk& disk);
    ~PartFile();
    PartFile(const PartFile&) = delete;
    PartFile& operator=(const PartFile&) = delete;

    std::uint64_t bytes() const { return bytes_; }
    // Adds bytes at the end. After an error there are those that could be written.
    base::Status add(std::span<const std::byte> bytes);
    // Begins anew, with nothing.
    base::Status clear();
    // Adds all of it to a hash.
    base::Status hash_into(Digest& digest) const;
    // Makes it sure on the disk, and puts it in the place of path.
    base::Status finish(const std::filesystem::path& path);
    void remove();

  private:
    PartFile(std::filesystem::path path, const Disk& disk) : path_(std::move(path)), disk_(disk) {}
    base::Error failed(const char* doing) const;

    std::filesystem::path path_;
    Disk disk_;
    int descriptor_ = -1;
    std::uint64_t bytes_ = 0;
};

}  // namespace helix::hub
