#include "net/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

namespace helix::net {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Status;

std::string folder_of(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    return folder.empty() ? "." : folder.string();
}

Status write_all(int fd, const std::string& path, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(path, "write");
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return Ok{};
}

// Fills a file that was just created, and sets its mode, since the umask may have taken more than
// we want.
Status fill(int fd, const std::string& path, const std::string& text) {
    Status done = ::fchmod(fd, 0600) == 0 ? write_all(fd, path, text)
                                          : Status(io_error(path, "set the mode of"));
    if (done.ok() && ::fsync(fd) != 0) done = io_error(path, "write");
    ::close(fd);
    return done;
}

}  // namespace

Error io_error(const std::string& path, const char* what) {
    return {Errc::io, fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno))};
}

Status check_only_ours(const std::string& path) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return io_error(path, "read");
    if ((info.st_mode & 022U) != 0) {
        return Error{Errc::denied,
                     fmt::format("{} can be written by others; run: chmod go-w {}", path, path)};
    }
    if (info.st_uid != ::geteuid() && info.st_uid != 0) {
        return Error{Errc::denied, fmt::format("{} belongs to another user; run: chown {} {}", path,
                                               ::geteuid(), path)};
    }
    const std::string folder = folder_of(path);
    if (::stat(folder.c_str(), &info) != 0) return io_error(folder, "read");
    if ((info.st_mode & 002U) != 0 && (info.st_mode & S_ISVTX) == 0) {
        return Error{Errc::denied,
                     fmt::format("{} is in a folder that everyone may write; run: chmod o-w {}",
                                 path, folder)};
    }
    return Ok{};
}

std::string file_version(const std::string& path) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return {};
    return fmt::format("{}.{}.{}.{}.{:o}", info.st_ino, info.st_size, info.st_mtim.tv_sec,
                       info.st_mtim.tv_nsec, info.st_mode);
}

bool FileWatch::changed() {
    std::string version = file_version(path_);
    const bool still = version == seen_;
    seen_ = std::move(version);
    if (!still || seen_ == taken_) return false;
    taken_ = seen_;
    return true;
}

Status create_private(const std::string& path, const std::string& text) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        return Error{Errc::invalid,
                     fmt::format("{} exists; a key file is never overwritten", path)};
    }
    if (fd < 0) return io_error(path, "create");
    return fill(fd, path, text);
}

Status replace_private(const std::string& path, const std::string& text) {
    std::string made = path + ".XXXXXX";
    const int fd = ::mkostemp(made.data(), O_CLOEXEC);
    if (fd < 0) return io_error(made, "create");
    Status done = fill(fd, made, text);
    if (done.ok() && ::rename(made.c_str(), path.c_str()) != 0) done = io_error(path, "replace");
    if (!done.ok()) ::unlink(made.c_str());
    return done;
}

}  // namespace helix::net
