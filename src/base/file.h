#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// Files that users name. What they name may be a pipe, a device or a folder, may have any size, and
// may change while it is read. All of this ends in an Error that names the path: never in a wait,
// and never in a signal, as with a mapped file that becomes shorter.

namespace helix::base {

// Tells a file from others, and from what it was before a write.
struct FileStamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
    std::int64_t written_ns = 0;  // its content; since 1970
    std::int64_t changed_ns = 0;  // also its name, owner or mode
    bool operator==(const FileStamp&) const = default;
};

// An open regular file. Reading is safe from any thread.
class RegularFile {
  public:
    // Error not_found: there is no such file. Error invalid: it is no regular file.
    static Result<std::unique_ptr<const RegularFile>> open(const std::string& path);
    ~RegularFile();
    RegularFile(const RegularFile&) = delete;
    RegularFile& operator=(const RegularFile&) = delete;

    const std::string& path() const { return path_; }
    // Its size when it was opened.
    std::uint64_t bytes() const { return bytes_; }
    // As it is now.
    Result<FileStamp> stamp() const;
    // Fills `to` with what lies at offset. Error io: the file has become shorter, or cannot be
    // read.
    Status read(std::uint64_t offset, std::span<std::byte> to) const;
    // The same, but the end of the file may come first. Returns how much there was.
    Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> to) const;

  private:
    RegularFile(std::string path, int descriptor)
        : path_(std::move(path)), descriptor_(descriptor) {}

    std::string path_;
    int descriptor_;
    std::uint64_t bytes_ = 0;
};

// A whole regular file, also one of /proc, whose size is not known before. too_large names the
// limit.
Result<std::string> read_file(const std::string& path, std::uint64_t max_bytes);

// What lies in a folder, sorted by name, each with the folder's path before it. Nothing where there
// is no such folder; what was found so far where it cannot be read to its end.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);

// Memory for as many bytes as a file or a peer announces, all zero. Error unavailable, which says
// what they were for, when there is not so much memory.
Result<std::vector<std::byte>> make_bytes(std::uint64_t bytes, std::string_view what);

// Makes the folder, and those above it that are missing, for their owner only, whatever the umask
// is. One that is there is left as it is.
Status make_private_folder(const std::string& path);
// Makes an empty file for its owner only, whatever the umask is; one that is there stays as it is.
Status make_private_file(const std::string& path);

// Writes a file for its owner only. Afterwards it has the whole content or, where that could not be
// written, what was there before. Two processes may write the same path.
Status write_private_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace helix::base
