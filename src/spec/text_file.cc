#include "spec/text_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace helix::spec {
namespace {

base::Error failed(const std::string& path, const char* what) {
    const int code = errno;
    return {code == ENOENT ? base::Errc::not_found : base::Errc::io,
            path + ": " + what + ": " + (code != 0 ? std::strerror(code) : "unknown reason")};
}

}  // namespace

base::Result<std::string> read_text_file(const std::string& path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return failed(path, "cannot be opened");
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (file.bad() || (text.empty() && errno != 0)) return failed(path, "cannot be read");
    return text;
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
