#include "net/http_message.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/check.h"
#include "net/spooled_body.h"

namespace helix::net {
namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

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
    switch (status) {
        case 200:
            return "OK";
        case 204:
            return "No Content";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 413:
            return "Payload Too Large";
        case 415:
            return "Unsupported Media Type";
        case 421:
            return "Misdirected Request";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 500:
            return "Internal Server Error";
        case 501:
            return "Not Implemented";
        case 503:
            return "Service Unavailable";
        default:
            return "Unknown";
    }
}

std::string percent_decode(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            const int high = hex_digit(text[i + 1]);
            const int low = hex_digit(text[i + 2]);
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
    if (head.framing == Framing::length && head.status != 204) {
        append_header(out, "content-length", std::to_string(head.content_length));
    }
    append_header(out, "x-request-id", head.request_id);
    if (!head.allow_origin.empty()) {
        append_header(out, "access-control-allow-origin", head.allow_origin);
        append_header(out, "vary", "origin");
        append_header(out, "access-control-expose-headers", "x-request-id, retry-after");
    }
    if (head.headers != nullptr) {
        for (const auto& [name, value] : *head.headers) append_header(out, name, value);
    }
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
