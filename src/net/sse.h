#pragma once

#include <functional>
#include <string>
#include <string_view>

// Server-sent events as OpenAI's clients read them: only data lines and comments, with LF line
// ends; event: only in the protocols that want it, never retry:. There is id: only for clients that
// ask for it, since others keep an id and then choke on the empty lines behind comments.

namespace helix::net {

constexpr std::string_view kSseContentType = "text/event-stream";
constexpr std::string_view kSseDone = "data: [DONE]\n\n";
constexpr std::string_view kSsePing = ": ping\n\n";

// data must be one line.
void append_sse_event(std::string& out, std::string_view data);

// The reading side, for our own clients. Takes a stream in any pieces and hands out the data of
// each event (several data lines joined by LF). Comments and other fields are dropped; LF, CRLF and
// CR end lines.
class SseParser {
  public:
    using OnEvent = std::function<void(std::string_view data)>;
    explicit SseParser(OnEvent on_event) : on_event_(std::move(on_event)) {}
    void push(std::string_view bytes);

  private:
    void end_line();

    OnEvent on_event_;
    std::string line_;
    std::string data_;
    bool has_data_ = false;
    bool after_cr_ = false;
};

}  // namespace helix::net
