#include "net/http_message.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>

#include "base/check.h"
#include "base/hex.h"
#include "net/spooled_body.h"

namespace helix::net {
namespace {

struct StatusText {
    int status;
    std::string_view text;
};
// From RFC 9110 and the registry of status codes.
constexpr auto kStatusTexts = std::to_array<StatusText>({
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {511, "Network Authentication Required"},
});
// Texts for all others, by their class.
constexpr std::array<std::string_view, 5> kClassTexts = {"Informational", "Success", "Redirection",
                                                         "Client Error", "Server Error"};

void append_header(std::string& out, std::string_view name, std::string_view value) {
    out += name;
    out += ": ";
    out += value;
    out += "\r\n";
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
        if (key == name) return value;
    }
    return {};
}

std::string_view HttpRequest::body_text() const {
    return body_file == nullptr ? std::string_view(body) : body_file->text();
}

std::string_view status_text(int status) {
    for (const auto& [code, text] : kStatusTexts) {
        if (code == status) return text;
    }
    CHECK(status >= 100 && status < 600);
    return kClassTexts[static_cast<std::size_t>(status / 100 - 1)];
}

std::string percent_decode(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            const int high = base::hex_digit(text[i + 1]);
            const int low = base::hex_digit(text[i + 2]);
            if (high >= 0 && low >= 0) {
                out += static_cast<char>(high * 16 + low);
                i += 2;
                continue;
            }
        }
        out += text[i];
    }
    return out;
}

bool is_plain_word(std::string_view text) {
    return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("-_.:/").find(c) != std::string_view::npos;
    });
}

std::string format_head(const ResponseHead& head) {
    std::string out;
    out.reserve(384);
    out += "HTTP/1.1 ";
    out += std::to_string(head.status);
    out += ' ';
    out += status_text(head.status);
    out += "\r\n";
    if (!head.content_type.empty()) append_header(out, "content-type", head.content_type);
    if (head.framing == Framing::chunked) append_header(out, "transfer-encoding", "chunked");
    if (head.framing == Framing::length && head.status != 204 && head.status != 304) {
        append_header(out, "content-length", std::to_string(head.content_length));
    }
    if (!head.date.empty()) append_header(out, "date", head.date);
    if (!head.request_id.empty()) append_header(out, "x-request-id", head.request_id);
    const auto headers = head.headers != nullptr ? std::span(*head.headers)
                                                 : std::span<const HttpHeaders::value_type>();
    if (!head.allow_origin.empty()) {
        append_header(out, "access-control-allow-origin", head.allow_origin);
        append_header(out, "vary", "origin");
        std::string exposed = "x-request-id";
        for (const auto& [name, value] : headers) exposed += ", " + name;
        append_header(out, "access-control-expose-headers", exposed);
    }
    for (const auto& [name, value] : headers) append_header(out, name, value);
    append_header(out, "connection", head.keep_alive ? "keep-alive" : "close");
    out += "\r\n";
    return out;
}

void append_chunk(std::string& out, std::string_view data) {
    CHECK(!data.empty());
    std::array<char, 16> size{};
    const auto end = std::to_chars(size.data(), size.data() + size.size(), data.size(), 16);
    out.append(size.data(), end.ptr);
    out += "\r\n";
    out += data;
    out += "\r\n";
}

}  // namespace helix::net
