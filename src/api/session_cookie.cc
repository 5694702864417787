#include "api/session_cookie.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "net/http_text.h"

namespace helix::api {
namespace {

constexpr std::size_t kMostIds = 8;

}  // namespace

std::string session_cookie_name(const net::HttpRequest& request) {
    const std::string_view host = request.header("host");
    std::size_t digits = 0;
    while (digits < host.size() && host[host.size() - digits - 1] >= '0' &&
           host[host.size() - digits - 1] <= '9') {
        ++digits;
    }
    const std::string_view before = host.substr(0, host.size() - digits);
    // "192.0.2.7" ends in digits, too, and they are no port.
    const bool port = digits > 0 && digits <= 5 && before.ends_with(':');
    return port ? fmt::format("helix_session_{}", host.substr(before.size())) : "helix_session";
}

std::vector<std::string_view> session_ids(const net::HttpRequest& request) {
    std::vector<std::string_view> ids;
    const std::string name = session_cookie_name(request);
    for (const auto& [header, value] : request.headers) {
        if (header != "cookie") continue;
        std::string_view rest = value;
        while (!rest.empty() && ids.size() < kMostIds) {
            const std::size_t end = std::min(rest.find(';'), rest.size());
            const std::string_view one = net::trim(rest.substr(0, end));
            rest.remove_prefix(std::min(end + 1, rest.size()));
            const std::size_t equals = one.find('=');
            if (equals == std::string_view::npos || one.substr(0, equals) != name) continue;
            ids.push_back(one.substr(equals + 1));
        }
    }
    return ids;
}

std::string session_cookie(const net::HttpRequest& request, std::string_view id,
                           std::int64_t seconds, bool secure) {
    return fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{}",
                       session_cookie_name(request), id, id.empty() ? 0 : seconds,
                       secure ? "; Secure" : "");
}

}  // namespace helix::api
