#include "api/web_page.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "net/http_text.h"

namespace helix::api {
namespace {

// What a model writes is shown by this page: nothing from elsewhere is loaded, whatever it says,
// and nothing runs but the page's own script.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'";

// All other answers are for programs. A browser may be led to one all the same, and it may hold
// what a stranger wrote (a file, the name of a machine in a picture): it runs nothing, loads
// nothing, and is of no origin, so that it cannot use the session of who looks at it.
constexpr const char* kOtherPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
    "sandbox allow-downloads";

constexpr std::array<std::pair<std::string_view, const char*>, 6> kPageTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".txt", "text/plain; charset=utf-8"},
}};

const char* page_type(std::string_view path) {
    for (const auto& [ending, type] : kPageTypes) {
        if (path.ends_with(ending)) return type;
    }
    CHECK(false);  // a type that has no row above
    return "";
}

bool equal_words(std::string_view a, std::string_view b) {
    const auto lower = [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](char x, char y) { return lower(x) == lower(y); });
}

// Whether a list like "gzip, br;q=0.5" names the word, and not with q=0.
bool takes(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        const std::string_view one = list.substr(0, comma);
        list.remove_prefix(std::min(comma + 1, list.size()));
        const std::size_t semicolon = std::min(one.find(';'), one.size());
        if (!equal_words(net::trim(one.substr(0, semicolon)), word)) continue;
        const std::size_t quality = one.find("q=", semicolon);
        if (quality == std::string_view::npos) return true;
        return one.substr(quality + 2).find_first_of("123456789") != std::string_view::npos;
    }
    return false;
}

// Whether the client says that it has what this tag names.
bool has_tag(std::string_view list, std::string_view tag) {
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        std::string_view one = net::trim(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
        if (one.starts_with("W/")) one.remove_prefix(2);
        if (one == tag || one == "*") return true;
    }
    return false;
}

}  // namespace

const PageFile* find_page_file(std::string_view path) {
    for (const PageFile& file : page_files()) {
        if (file.path == path) return &file;
    }
    return nullptr;
}

bool wants_page(const net::HttpRequest& request) {
    return takes(request.header("accept"), "text/html");
}

net::HttpHeaders guarding_headers(std::string_view path) {
    const bool page = path == "/" || path.starts_with("/assets/");
    return {{"x-content-type-options", "nosniff"},
            {"referrer-policy", "no-referrer"},
            {"content-security-policy", page ? kPagePolicy : kOtherPolicy}};
}

net::HttpResponse page_response(const PageFile& file, const net::HttpRequest& request) {
    const bool packed = takes(request.header("accept-encoding"), "gzip");
    const bool named_by_content = file.path.starts_with("/assets/");
    const std::string tag = "\"" +
                            base::to_hex(base::hash128(std::as_bytes(std::span(file.plain)))) +
                            (packed ? "-gzip\"" : "\"");
    net::HttpResponse response;
    response.content_type = page_type(file.path);
    response.headers = {
        {"cache-control", named_by_content ? "public, max-age=31536000, immutable" : "no-cache"},
        {"etag", tag},
        {"vary", named_by_content ? "Accept-Encoding" : "Accept, Accept-Encoding"},
    };
    if (has_tag(request.header("if-none-match"), tag)) {
        response.status = 304;
        response.content_type.clear();
        return response;
    }
    if (packed) response.headers.emplace_back("content-encoding", "gzip");
    response.body = packed ? file.gzip : file.plain;
    return response;
}

}  // namespace helix::api
