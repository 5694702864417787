#include "hub/disk.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"

namespace helix::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

base::Error system_error(const fs::path& path, const char* doing) {
    return {base::Errc::io,
            fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(errno))};
}

base::Result<std::uint64_t> free_bytes_of(const fs::path& folder) {
    struct statvfs status = {};
    if (::statvfs(folder.c_str(), &status) != 0) return system_error(folder, "ask for free space");
    return std::uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace

Disk real_disk() {
    return {[](int descriptor, const void* bytes, std::size_t count) {
                return ::write(descriptor, bytes, count);
            },
            &free_bytes_of};
}

base::Status make_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
        return base::Error{base::Errc::io, fmt::format("{}: cannot make this folder: {}",
                                                       folder.string(), error.message())};
    }
    return base::Ok{};
}

base::Result<std::unique_ptr<PartFile>> PartFile::open(const fs::path& path, const Disk& disk) {
    std::unique_ptr<PartFile> part(new PartFile(path, disk));
    part->descriptor_ =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (part->descriptor_ < 0) return part->failed("open");
    const off_t end = ::lseek(part->descriptor_, 0, SEEK_END);
    if (end < 0) return part->failed("look at");
    part->bytes_ = static_cast<std::uint64_t>(end);
    return part;
}

PartFile::~PartFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

base::Error PartFile::failed(const char* doing) const {
    return system_error(path_, doing);
}

base::Status PartFile::add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = disk_.write(descriptor_, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == ENOSPC || errno == EDQUOT)) {
            return base::Error{
                base::Errc::io,
                fmt::format("{}: the disk is full; the {} bytes that are there stay: make room and "
                            "run it again, and it goes on from there",
                            path_.parent_path().string(), bytes_)};
        }
        if (n < 0) return failed("write");
        bytes_ += static_cast<std::uint64_t>(n);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return base::Ok{};
}

base::Status PartFile::clear() {
    if (::ftruncate(descriptor_, 0) != 0) return failed("empty");
    bytes_ = 0;
    return base::Ok{};
}

base::Status PartFile::hash_into(Digest& digest) const {
    TRY(const auto file, base::RegularFile::open(path_.string()));
    std::vector<std::byte> buffer(kReadBytes);
    for (std::uint64_t at = 0; at < bytes_;) {
        const std::size_t count =
            static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes_ - at));
        TRY_VOID(file->read(at, std::span(buffer).first(count)));
        digest.add(std::span(buffer).first(count));
        at += count;
    }
    return base::Ok{};
}

base::Status PartFile::finish(const fs::path& path) {
    if (::fsync(descriptor_) != 0) return failed("write");
    if (::rename(path_.c_str(), path.c_str()) != 0) return failed("rename");
    const int folder = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        // Some file systems cannot: then the name is as sure as they make it.
        (void)::fsync(folder);
        ::close(folder);
    }
    return base::Ok{};
}

void PartFile::remove() {
    ::unlink(path_.c_str());
}

}  // namespace helix::hub
