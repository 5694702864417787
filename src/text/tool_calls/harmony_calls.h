#pragma once

#include <cstdint>
#include <string>

#include "text/tool_calls/call_parser.h"
#include "text/tool_calls/json_reader.h"
#include "text/tool_calls/marker_search.h"

namespace helix::text {

// gpt-oss: an answer is messages on channels. What is said on analysis is reasoning, what goes to a
// function is a call, all else without a recipient is content. What the model tells tools of its
// own, which nobody gave it, is part of its reasoning.
class HarmonyCalls final : public CallParser {
  public:
    explicit HarmonyCalls(CallContext context);
    void push(char byte) override;
    void finish(bool cut) override;

  private:
    enum class State : std::uint8_t { header, content, reasoning, call, called };

    void in_header(char byte);
    void begin_message();
    void begin_call(std::string_view name);
    void pass(std::string_view text);
    void end_message(bool cut);

    CallContext context_;
    MarkerSearch header_end_;
    MarkerSearch message_end_;
    State state_ = State::header;
    bool first_ = true;   // no message has begun
    std::string header_;  // raw
    std::string raw_;     // of the call that is read
    JsonReader reader_;
};

}  // namespace helix::text
