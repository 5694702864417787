#include "net/open_files.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace helix::net {

std::size_t raise_open_file_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    if (limit.rlim_cur < limit.rlim_max) {
        rlimit raised = limit;
        raised.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
    }
    return limit.rlim_cur;
}

base::Result<std::size_t> require_open_files(std::string_view who, std::size_t least) {
    const std::size_t have = raise_open_file_limit();
    if (have >= least) return have;
    return base::invalid(fmt::format(
        "at most {} files may be open here (ulimit -n), and {} needs {}", have, who, least));
}

std::size_t connections_for(std::size_t open_files) {
    return std::clamp<std::size_t>(open_files / 2, 1, 4096);
}

std::size_t peers_for(std::size_t open_files) {
    return std::clamp<std::size_t>(open_files / 8, 1, 1024);
}

SpareDescriptor::SpareDescriptor() : pattern_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    take();
}

SpareDescriptor::~SpareDescriptor() {
    release();
    if (pattern_ >= 0) ::close(pattern_);
}

bool SpareDescriptor::take() {
    if (fd_ < 0) fd_ = ::fcntl(pattern_, F_DUPFD_CLOEXEC, 0);
    return fd_ >= 0;
}

void SpareDescriptor::take_over(int fd) {
    if (fd_ < 0 && ::dup3(pattern_, fd, O_CLOEXEC) == fd) {
        fd_ = fd;
    } else {
        ::close(fd);
    }
}

void SpareDescriptor::release() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace helix::net
