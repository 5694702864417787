#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"

namespace helix::base {

// A lock among processes, by a file that is made where it is missing, as its folder is. It ends
// with its holder, whatever ends that.
class FileLock {
  public:
    // Nobody else has it meanwhile. nullptr: somebody has it or shares it.
    static Result<std::unique_ptr<FileLock>> try_take(const std::filesystem::path& path);
    // Any number of holders share it. Waits for one that has it alone.
    static Result<std::unique_ptr<FileLock>> share(const std::filesystem::path& path);
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

  private:
    explicit FileLock(int descriptor) : descriptor_(descriptor) {}
    static Result<std::unique_ptr<FileLock>> open(const std::filesystem::path& path);

    int descriptor_;
};

}  // namespace helix::base
