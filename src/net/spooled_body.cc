#include "net/spooled_body.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

namespace helix::net {

using base::Result;
using base::Status;

base::Error SpooledBody::failed(std::string_view doing) const {
    return {base::Errc::io, fmt::format("{}: cannot {} a request's body there: {}", folder_, doing,
                                        std::strerror(errno))};
}

Result<std::shared_ptr<SpooledBody>> SpooledBody::create(const std::string& folder) {
    std::shared_ptr<SpooledBody> body(new SpooledBody(folder, -1));
    std::string path = folder + "/.upload-XXXXXX";
    body->file_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (body->file_ < 0) return body->failed("keep");
    if (::fchmod(body->file_, 0600) != 0 || ::unlink(path.c_str()) != 0)
        return body->failed("keep");
    return body;
}

Status SpooledBody::append(std::string_view data) {
    CHECK(mapping_ == nullptr);
    while (!data.empty()) {
        const ssize_t n = ::write(file_, data.data(), data.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed("write");
        data.remove_prefix(static_cast<std::size_t>(n));
        bytes_ += static_cast<std::size_t>(n);
    }
    return base::Ok{};
}

Status SpooledBody::seal() {
    CHECK(mapping_ == nullptr);
    if (bytes_ == 0) return base::Ok{};
    void* mapping = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_, 0);
    if (mapping == MAP_FAILED) return failed("map");  // NOLINT: the system's own cast
    mapping_ = mapping;
    mapped_ = bytes_;
    return base::Ok{};
}

SpooledBody::~SpooledBody() {
    if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
    if (file_ >= 0) ::close(file_);
}

}  // namespace helix::net
