#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace helix::base {
namespace {

Error failed(const std::filesystem::path& path, const char* doing) {
    return {Errc::io, fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(errno))};
}

// Who had the lock alone may have removed its file, and another one may be there.
bool is_there(int descriptor, const std::filesystem::path& path) {
    struct stat mine = {};
    struct stat there = {};
    return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

}  // namespace

Result<std::unique_ptr<FileLock>> FileLock::open(const std::filesystem::path& path) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) {
        return Error{Errc::io, fmt::format("{}: cannot make this folder: {}",
                                           path.parent_path().string(), error.message())};
    }
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) return failed(path, "open");
    return std::unique_ptr<FileLock>(new FileLock(descriptor));
}

Result<std::unique_ptr<FileLock>> FileLock::try_take(const std::filesystem::path& path) {
    TRY(std::unique_ptr<FileLock> lock, open(path));
    if (::flock(lock->descriptor_, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno == EWOULDBLOCK || errno == EINTR) return std::unique_ptr<FileLock>();
    return failed(path, "lock");
}

Result<std::unique_ptr<FileLock>> FileLock::share(const std::filesystem::path& path) {
    while (true) {
        TRY(std::unique_ptr<FileLock> lock, open(path));
        while (::flock(lock->descriptor_, LOCK_SH) != 0) {
            if (errno != EINTR) return failed(path, "lock");
        }
        if (is_there(lock->descriptor_, path)) return lock;
    }
}

FileLock::~FileLock() {
    ::close(descriptor_);
}

}  // namespace helix::base
