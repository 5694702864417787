#include "api/elsewhere.h"

#include <fmt/format.h>

#include <cctype>
#include <string>

#include "api/error.h"
#include "api/guard.h"

namespace helix::api {
namespace {

// path itself, or what is below it.
bool is_below(std::string_view path, std::string_view root) {
    if (!path.starts_with(root)) return false;
    return path.size() == root.size() || path[root.size()] == '/';
}

bool is_kept_work(std::string_view path) {
    return is_below(path, "/files") || is_below(path, "/batches");
}

// As it stands in an address. What a client wrote into a path ends no header.
std::string encoded_path(std::string_view path) {
    std::string out;
    for (const char c : path) {
        const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                           std::string_view("-._~/:@").find(c) != std::string_view::npos;
        out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

}  // namespace

bool is_elsewhere(std::string_view path) {
    return path == "/" || is_below(path, "/assets") || is_below(path, "/helix") ||
           is_kept_work(path);
}

void point_elsewhere(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange) {
    const net::HttpRequest& request = exchange->request();
    const std::string url = context.options.coordinator_url();
    const bool kept = is_kept_work(without_version(request.path));
    const bool looks = request.method == "GET" || request.method == "HEAD";
    if (looks && !kept && !url.empty()) {
        const std::string query = request.query.empty() ? "" : "?" + request.query;
        net::HttpResponse response;
        response.status = 307;
        response.content_type = "text/plain; charset=utf-8";
        response.headers = {{"location", url + encoded_path(request.path) + query},
                            {"cache-control", "no-store"}};
        response.body = fmt::format("The coordinator has this page: {}\n", url);
        return context.respond(*exchange, response);
    }
    const std::string where = url.empty() ? "which is not known now" : url;
    const char* what = kept ? "files and batches are kept by its coordinator"
                            : "the cluster is looked after by its coordinator";
    context.refuse(*exchange, {501, fmt::format("This is a gateway; {}: {}.", what, where),
                               "invalid_request_error", "", "at_the_coordinator", 0});
}

}  // namespace helix::api
