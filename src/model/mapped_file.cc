#include "model/mapped_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

namespace helix::model {

base::Result<std::unique_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
    const auto failed = [&](const char* doing) {
        const int error = errno;
        const base::Errc code = error == ENOENT ? base::Errc::not_found : base::Errc::io;
        return base::Error{code, fmt::format("{}: {}: {}", path, doing, std::strerror(error))};
    };
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return failed("cannot open");
    struct Closer {
        int descriptor;
        ~Closer() { ::close(descriptor); }
    } closer{descriptor};
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return failed("cannot stat");
    if (!S_ISREG(status.st_mode)) return base::invalid(path + ": not a regular file");
    std::unique_ptr<MappedFile> file(new MappedFile());
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size > 0) {
        void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (mapping == MAP_FAILED) return failed("cannot map");  // NOLINT: the system's own cast
        file->mapping_ = mapping;
        file->bytes_ = {static_cast<const std::byte*>(mapping), size};
    }
    return std::unique_ptr<const MappedFile>(std::move(file));
}

void MappedFile::let_go(std::span<const std::byte> part) const {
    if (part.empty()) return;
    CHECK(part.data() >= bytes_.data() &&
          part.data() + part.size() <= bytes_.data() + bytes_.size());
    // Whole pages; what lies on the first and the last beside it is read again as well.
    static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto offset = static_cast<std::size_t>(part.data() - bytes_.data());
    const std::size_t begin = offset / page * page;
    ::madvise(static_cast<std::byte*>(mapping_) + begin, offset + part.size() - begin,
              MADV_DONTNEED);
}

MappedFile::~MappedFile() {
    if (mapping_ != nullptr) ::munmap(mapping_, bytes_.size());
}

}  // namespace helix::model
