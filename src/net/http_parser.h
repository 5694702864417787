#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "net/http_message.h"

namespace helix::net {

// What the parser holds or passes over for one request, in bytes.
struct HttpParserLimits {
    std::size_t max_header_bytes = std::size_t{32} << 10U;  // request line and headers together
    std::size_t max_headers = 128;
    std::size_t max_chunk_line_bytes = 1024;  // a chunk's size and its extensions
    std::size_t max_chunk_extension_bytes = std::size_t{16} << 10U;  // all extensions of a body
    std::size_t max_trailer_bytes = std::size_t{8} << 10U;
};

// Reads one HTTP/1.x request out of bytes as they come. Pure: no socket, no clock. It keeps the
// head and at most one line of the body's framing; the body is handed on piece by piece. Whatever
// two servers might understand differently (RFC 9112, 11.2) is refused.
class HttpParser {
  public:
    // peer is the client's address, for head().
    explicit HttpParser(const HttpParserLimits& limits, std::string peer = {}) : limits_(limits) {
        head_.peer = std::move(peer);
    }

    enum class Step {
        more,     // all was taken, and the request goes on
        head,     // head() is whole: call allow_body() next
        body,     // piece() is the next part of the body
        done,     // the request has ended; the bytes left over are the next one's
        refused,  // refusal() says why; nothing more is read
    };
    // Takes from the front of data what belongs to the next step.
    Step step(std::string_view& data);

    struct Refusal {
        int status = 0;
        std::string why;  // names the limit or the rule
    };
    const Refusal& refusal() const { return refusal_; }

    // The request without body and request_id; it is whole after Step::head.
    const HttpRequest& head() const { return head_; }
    HttpRequest take_head() { return std::move(head_); }
    // The body's length, if it was announced.
    std::optional<std::uint64_t> content_length() const { return content_length_; }
    bool http_1_0() const { return http_1_0_; }
    bool keep_alive() const { return keep_alive_; }
    bool expects_continue() const { return expects_continue_; }

    // To be called after Step::head: a longer body is refused with 413.
    void allow_body(std::uint64_t bytes) { body_limit_ = bytes; }
    // The part of the body after Step::body. It lies in the data that step() was given.
    std::string_view piece() const { return piece_; }

    // Bytes kept besides head(): at most the largest of the limits.
    std::size_t held_bytes() const { return line_.size(); }

  private:
    enum class State {
        request_line,
        header,
        begin_body,
        length_body,
        chunk_line,
        chunk_body,
        chunk_end,
        trailer,
        done,
        refused,
    };
    enum class Line { whole, more, refused };

    // Moves data up to the end of a line into line_, which may come to have `most` bytes.
    Line take_line(std::string_view& data, std::size_t most, const Refusal& too_long);
    Step take_piece(std::string_view& data, State after);
    // Takes a line; nothing means that the state is to be looked at again.
    std::optional<Step> on_line(std::string_view& data);
    // Each of these is false when it refused.
    bool on_request_line(std::string_view line);
    bool on_target(std::string_view target);
    bool on_header(std::string_view line);
    bool on_trailer(std::string_view line);
    bool on_chunk_line(std::string_view line);
    bool check_field(std::string_view line);
    bool read_framing();
    bool refuse(int status, std::string why);

    HttpParserLimits limits_;
    State state_ = State::request_line;
    HttpRequest head_;
    std::string line_;
    std::string_view piece_;
    Refusal refusal_;
    std::size_t header_bytes_ = 0;
    std::size_t extension_bytes_ = 0;
    std::size_t trailer_bytes_ = 0;
    std::optional<std::uint64_t> content_length_;
    std::uint64_t body_limit_ = 0;
    std::uint64_t body_bytes_ = 0;  // announced or received, against the limit
    std::uint64_t left_ = 0;        // of the body or of its chunk
    std::string authority_;         // that the target names, in place of the host header
    bool chunked_ = false;
    bool http_1_0_ = false;
    bool keep_alive_ = true;
    bool expects_continue_ = false;
};

}  // namespace helix::net
