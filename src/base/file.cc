#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>

#include <fmt/format.h>

#include "base/machine.h"

namespace helix::base {
namespace {

constexpr std::uint64_t kSmallBytes = std::uint64_t{64} << 20U;  // not worth a question
constexpr std::size_t kStepBytes = std::size_t{64} << 10U;

Error failed(const std::string& path, const char* doing) {
    const int error = errno;
    return {error == ENOENT ? Errc::not_found : Errc::io,
            fmt::format("{}: cannot {}: {}", path, doing, std::strerror(error))};
}

const char* kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    if (S_ISSOCK(mode)) return "a socket";
    return "something else";
}

}  // namespace

// Without O_NONBLOCK, opening a pipe that nobody writes to would wait.
Result<std::unique_ptr<const RegularFile>> RegularFile::open(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) {
        if (errno == ENXIO) return invalid(path + ": is a socket, expected a regular file");
        return failed(path, "open");
    }
    std::unique_ptr<RegularFile> file(new RegularFile(path, descriptor));
    struct stat status = {};
    if (::fstat(descriptor, &status) != 0) return failed(path, "look at");
    if (!S_ISREG(status.st_mode)) {
        return invalid(
            fmt::format("{}: is {}, expected a regular file", path, kind_of(status.st_mode)));
    }
    file->bytes_ = static_cast<std::uint64_t>(status.st_size);
    return std::unique_ptr<const RegularFile>(std::move(file));
}

RegularFile::~RegularFile() {
    ::close(descriptor_);
}

Result<FileStamp> RegularFile::stamp() const {
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0) return failed(path_, "look at");
    const auto ns = [](const timespec& time) {
        return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_nsec};
    };
    return FileStamp{status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                     ns(status.st_mtim), ns(status.st_ctim)};
}

Result<std::size_t> RegularFile::read_some(std::uint64_t offset, std::span<std::byte> to) const {
    std::size_t done = 0;
    while (done < to.size()) {
        const ssize_t n = ::pread(descriptor_, to.data() + done, to.size() - done,
                                  static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(path_, "read");
        if (n == 0) break;
        done += static_cast<std::size_t>(n);
    }
    return done;
}

Status RegularFile::read(std::uint64_t offset, std::span<std::byte> to) const {
    TRY(const std::size_t got, read_some(offset, to));
    if (got == to.size()) return Ok{};
    struct stat status = {};
    const std::int64_t end = ::fstat(descriptor_, &status) == 0 ? std::int64_t{status.st_size} : 0;
    return Error{Errc::io,
                 fmt::format("{}: ends at byte {}, {} bytes are expected from {} on: the file was "
                             "cut while it is in use",
                             path_, end, to.size(), offset)};
}

Result<std::string> read_file(const std::string& path, std::uint64_t max_bytes) {
    TRY(const auto file, RegularFile::open(path));
    const auto too_large = [&](std::uint64_t bytes) {
        return Error{Errc::too_large, fmt::format("{}: has at least {} bytes, the limit is {}",
                                                  path, bytes, max_bytes)};
    };
    if (file->bytes() > max_bytes) return too_large(file->bytes());
    std::string text;
    while (true) {
        // One byte more than is expected, to see the end at once.
        const std::size_t before = text.size();
        const std::size_t step =
            before > 0 ? kStepBytes : std::max<std::size_t>(kStepBytes, file->bytes() + 1);
        text.resize(before + step);
        const auto part = std::as_writable_bytes(std::span(text)).subspan(before);
        TRY(const std::size_t got, file->read_some(before, part));
        text.resize(before + got);
        if (text.size() > max_bytes) return too_large(text.size());
        if (got < part.size()) return text;
    }
}

std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> entries;
    std::error_code error;
    std::filesystem::directory_iterator at(folder, error);
    for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
        entries.push_back(at->path());
    }
    std::ranges::sort(entries);
    return entries;
}

Result<std::vector<std::byte>> make_bytes(std::uint64_t bytes, std::string_view what) {
    const std::int64_t usable = bytes < kSmallBytes ? 0 : usable_memory_bytes();
    if (bytes < kSmallBytes || bytes <= static_cast<std::uint64_t>(usable)) {
        try {
            return std::vector<std::byte>(bytes);
        } catch (const std::exception&) {  // bad_alloc, or more than a vector can have
        }
    }
    return Error{Errc::unavailable, fmt::format("{}: {} bytes of memory are needed, {} are there",
                                                what, bytes, usable)};
}

namespace {

// Sets the mode that the file is to have whatever the umask is.
Status set_mode(const std::string& path, mode_t mode) {
    if (::chmod(path.c_str(), mode) != 0) return failed(path, "set the permissions");
    return Ok{};
}

}  // namespace

Status make_private_folder(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    fs::path next;
    for (const fs::path& part : fs::path(path).lexically_normal()) {
        next /= part;
        if (part.empty() || fs::is_directory(next, ignored)) continue;
        if (::mkdir(next.c_str(), 0700) == 0) {
            TRY_VOID(set_mode(next.string(), 0700));
            continue;
        }
        const int error = errno;
        if (error == EEXIST && fs::is_directory(next, ignored)) continue;  // another process did
        return Error{Errc::io,
                     fmt::format("{}: cannot make this folder: {}", path, std::strerror(error))};
    }
    return Ok{};
}

Status make_private_file(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        if (errno == EEXIST) return Ok{};
        return failed(path, "make this file");
    }
    const bool good = ::fchmod(descriptor, 0600) == 0;
    const Error error = failed(path, "set the permissions");
    ::close(descriptor);
    if (!good) return error;
    return Ok{};
}

namespace {

Status write_all(int descriptor, const std::string& path, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(path, "write");
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    if (::fchmod(descriptor, 0600) != 0) return failed(path, "set the permissions");
    return Ok{};
}

}  // namespace

Status write_private_file(const std::string& path, std::span<const std::byte> bytes) {
    // Neither another process nor another thread writes to the same name.
    static std::atomic<std::uint64_t> next{0};
    const std::string part = fmt::format("{}.{}.{}.part", path, ::getpid(), next.fetch_add(1));
    const int descriptor = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) return failed(part, "make this file");
    Status done = write_all(descriptor, part, bytes);
    ::close(descriptor);
    if (done.ok() && ::rename(part.c_str(), path.c_str()) != 0) done = failed(path, "write");
    if (!done.ok()) ::unlink(part.c_str());
    return done;
}

}  // namespace helix::base
