#include "net/http_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "net/http_text.h"

namespace helix::net {
namespace {

// RFC 9110, 5.6.2.
bool is_token(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return letter || (c >= '0' && c <= '9') ||
               std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
    });
}

bool is_control(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
}

// The number that all of text is; nothing when it is none, or does not fit.
std::optional<std::uint64_t> number(std::string_view text, int base) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value, base);
    if (read.ec != std::errc() || read.ptr != end) return {};
    return value;
}

}  // namespace

bool HttpParser::refuse(int status, std::string why) {
    state_ = State::refused;
    refusal_ = {status, std::move(why)};
    return false;
}

HttpParser::Step HttpParser::step(std::string_view& data) {
    while (true) {
        switch (state_) {
            case State::refused:
                return Step::refused;
            case State::done:
                return Step::done;
            case State::begin_body:
                if (chunked_) {
                    state_ = State::chunk_line;
                    break;
                }
                left_ = content_length_.value_or(0);
                body_bytes_ = left_;
                if (left_ > body_limit_) {
                    refuse(413, fmt::format("at most {} bytes are taken here", body_limit_));
                } else {
                    state_ = left_ > 0 ? State::length_body : State::done;
                }
                break;
            case State::length_body:
                return take_piece(data, State::done);
            case State::chunk_body:
                return take_piece(data, State::chunk_end);
            case State::request_line:
            case State::header:
            case State::chunk_line:
            case State::chunk_end:
            case State::trailer:
                if (const auto step = on_line(data)) return *step;
                break;
        }
    }
}

HttpParser::Step HttpParser::take_piece(std::string_view& data, State after) {
    if (data.empty()) return Step::more;
    piece_ = data.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left_, data.size())));
    data.remove_prefix(piece_.size());
    left_ -= piece_.size();
    if (left_ == 0) state_ = after;
    return Step::body;
}

HttpParser::Line HttpParser::take_line(std::string_view& data, std::size_t most,
                                       const Refusal& too_long) {
    const std::size_t end = data.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view part = whole ? data.substr(0, end + 1) : data;
    if (part.size() > most - std::min(most, line_.size())) {
        refuse(too_long.status, too_long.why);
        return Line::refused;
    }
    line_ += part;
    data.remove_prefix(part.size());
    if (!whole && line_.size() >= most) {
        refuse(too_long.status, too_long.why);
        return Line::refused;
    }
    if (!whole) return Line::more;
    // A line ends with CR LF, and neither may stand anywhere else, since others may see two lines
    // there.
    if (!line_.ends_with("\r\n") || line_.find('\r') != line_.size() - 2) {
        refuse(400, "a line must end with CR LF, and hold neither of them elsewhere");
        return Line::refused;
    }
    line_.resize(line_.size() - 2);
    return Line::whole;
}

std::optional<HttpParser::Step> HttpParser::on_line(std::string_view& data) {
    std::size_t most = 2;
    Refusal too_long{400, "a chunk must end where its size says"};
    if (state_ == State::request_line || state_ == State::header) {
        most = limits_.max_header_bytes - header_bytes_;
        too_long = {431, fmt::format("the request line and the headers have more than {} bytes",
                                     limits_.max_header_bytes)};
    } else if (state_ == State::chunk_line) {
        most = limits_.max_chunk_line_bytes;
        too_long = {400, fmt::format("a chunk's size and extensions have more than {} bytes",
                                     limits_.max_chunk_line_bytes)};
    } else if (state_ == State::trailer) {
        most = limits_.max_trailer_bytes - trailer_bytes_;
        too_long = {431,
                    fmt::format("the trailers have more than {} bytes", limits_.max_trailer_bytes)};
    }
    switch (take_line(data, most, too_long)) {
        case Line::more:
            return Step::more;
        case Line::refused:
            return Step::refused;
        case Line::whole:
            break;
    }
    const std::string line = std::exchange(line_, {});
    switch (state_) {
        case State::request_line:
            header_bytes_ += line.size() + 2;
            // Empty lines before a request are passed over, but count as its bytes.
            if (!line.empty()) on_request_line(line);
            return {};
        case State::header:
            header_bytes_ += line.size() + 2;
            if (!line.empty()) {
                on_header(line);
                return {};
            }
            if (!read_framing()) return {};
            state_ = State::begin_body;
            return Step::head;
        case State::chunk_line:
            on_chunk_line(line);
            return {};
        case State::chunk_end:
            if (line.empty()) state_ = State::chunk_line;
            if (!line.empty()) refuse(400, too_long.why);
            return {};
        default:
            on_trailer(line);
            return {};
    }
}

bool HttpParser::on_request_line(std::string_view line) {
    const std::size_t first = line.find(' ');
    const std::size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) {
        return refuse(400, "the request line is not METHOD TARGET HTTP/1.1");
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    const bool printable = std::none_of(target.begin(), target.end(),
                                        [](char c) { return c == ' ' || is_control(c); });
    if (!is_token(method) || target.empty() || !printable || !version.starts_with("HTTP/")) {
        return refuse(400, "the request line is not METHOD TARGET HTTP/1.1");
    }
    if (version != "HTTP/1.1" && version != "HTTP/1.0") {
        return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    http_1_0_ = version == "HTTP/1.0";
    head_.method = method;
    if (!on_target(target)) return false;
    state_ = State::header;
    return true;
}

// A path, or a whole URL as clients of proxies send it, or the "*" of OPTIONS (RFC 9112, 3.2).
bool HttpParser::on_target(std::string_view target) {
    const std::string start = lower(target.substr(0, std::string_view("https://").size()));
    if (start.starts_with("http://") || start == "https://") {
        target.remove_prefix(start.starts_with("http://") ? 7 : 8);
        authority_ = target.substr(0, target.find_first_of("/?#"));
        target.remove_prefix(authority_.size());
        if (authority_.empty() || authority_.find_first_of("@\\\"<>") != std::string::npos) {
            return refuse(400, "the URL in the request line names no host, or a user");
        }
    } else if (target.front() != '/' && !(target == "*" && head_.method == "OPTIONS")) {
        return refuse(400, "the request line asks for no path: it has neither /... nor http://...");
    }
    const std::size_t question = target.find('?');
    head_.path = percent_decode(target.substr(0, question));
    if (head_.path.empty()) head_.path = "/";
    if (question != std::string_view::npos) head_.query = target.substr(question + 1);
    return true;
}

// A field is "name: value" and nothing else: no space before the colon, and no line that goes on
// from the one before.
bool HttpParser::check_field(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
        return refuse(400, "a header is not NAME: VALUE");
    }
    const std::string_view value = line.substr(colon + 1);
    const bool printable =
        std::none_of(value.begin(), value.end(), [](char c) { return c != '\t' && is_control(c); });
    return printable || refuse(400, "a header's value has a control character");
}

bool HttpParser::on_header(std::string_view line) {
    if (!check_field(line)) return false;
    if (head_.headers.size() == limits_.max_headers) {
        return refuse(431, fmt::format("more than {} headers", limits_.max_headers));
    }
    const std::size_t colon = line.find(':');
    head_.headers.emplace_back(lower(line.substr(0, colon)), trim(line.substr(colon + 1)));
    return true;
}

bool HttpParser::on_trailer(std::string_view line) {
    trailer_bytes_ += line.size() + 2;
    if (!line.empty()) return check_field(line);
    state_ = State::done;
    return true;
}

bool HttpParser::on_chunk_line(std::string_view line) {
    const std::size_t digits =
        std::min(line.find_first_not_of("0123456789abcdefABCDEF"), line.size());
    const std::string_view extension = line.substr(digits);
    if (digits == 0 || (!extension.empty() && extension.front() != ';') ||
        std::any_of(extension.begin(), extension.end(),
                    [](char c) { return c != '\t' && is_control(c); })) {
        return refuse(400, "a chunk does not begin with its size");
    }
    extension_bytes_ += extension.size();
    if (extension_bytes_ > limits_.max_chunk_extension_bytes) {
        return refuse(400, fmt::format("the chunk extensions have more than {} bytes",
                                       limits_.max_chunk_extension_bytes));
    }
    const auto size = number(line.substr(0, digits), 16);
    if (!size || *size > body_limit_ - body_bytes_) {
        return refuse(413, fmt::format("at most {} bytes are taken here", body_limit_));
    }
    body_bytes_ += *size;
    left_ = *size;
    state_ = left_ > 0 ? State::chunk_body : State::trailer;
    return true;
}

// It must be plain where the body ends: there is one content-length, or one transfer-encoding that
// is "chunked", or neither.
bool HttpParser::read_framing() {
    std::optional<std::string_view> length;
    std::optional<std::string_view> encoding;
    bool host = false;
    keep_alive_ = !http_1_0_;
    for (const auto& [name, value] : head_.headers) {
        if (name == "host" && std::exchange(host, true)) {
            return refuse(400, "more than one host header");
        }
        if (name == "content-length") {
            if (length) return refuse(400, "more than one content-length header");
            length = value;
        }
        if (name == "transfer-encoding") {
            if (encoding) return refuse(400, "more than one transfer-encoding header");
            encoding = value;
        }
        if (name == "expect") expects_continue_ = !http_1_0_ && lower(value) == "100-continue";
        if (name != "connection") continue;
        for (std::string_view rest = value; !rest.empty();) {
            const std::string_view word = rest.substr(0, rest.find(','));
            rest.remove_prefix(std::min(rest.size(), word.size() + 1));
            if (lower(trim(word)) == "close") keep_alive_ = false;
        }
    }
    if (!authority_.empty()) {
        std::erase_if(head_.headers, [](const auto& header) { return header.first == "host"; });
        head_.headers.emplace_back("host", authority_);
    }
    if (encoding && length) {
        return refuse(400, "both content-length and transfer-encoding are given");
    }
    if (encoding && (http_1_0_ || lower(*encoding) != "chunked")) {
        return refuse(400, "the transfer-encoding must be 'chunked' alone, in HTTP/1.1");
    }
    chunked_ = encoding.has_value();
    if (!length) return true;
    const bool digits =
        !length->empty() && length->find_first_not_of("0123456789") == std::string_view::npos;
    if (!digits) return refuse(400, "the content-length is not a number");
    content_length_ = number(*length, 10);
    if (!content_length_) return refuse(413, "the content-length is beyond any limit");
    return true;
}

}  // namespace helix::net
