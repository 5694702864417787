#include "spec/text_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/file.h"

namespace helix::spec {
namespace {

base::Error failed(const std::string& path, const char* what) {
    const int code = errno;
    return {code == ENOENT ? base::Errc::not_found : base::Errc::io,
            path + ": " + what + ": " + (code != 0 ? std::strerror(code) : "unknown reason")};
}

}  // namespace

base::Result<std::string> read_text_file(const std::string& path, std::uint64_t max_bytes) {
    return base::read_file(path, max_bytes);
}

base::Status write_text_file(const std::string& path, std::string_view text) {
    errno = 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (!file) return failed(path, "cannot be created");
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) return failed(path, "cannot be written");
    return base::Ok{};
}

}  // namespace helix::spec
