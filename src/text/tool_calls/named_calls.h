#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/call_object.h"
#include "text/tool_calls/call_parser.h"
#include "text/tool_calls/json_reader.h"
#include "text/tool_calls/marker_search.h"

namespace helix::text {

// Who is called, read from what stands between a call's marker and its arguments.
struct CallHead {
    std::string name;
    std::string id;  // "" = the model says none
};

// Calls whose name stands before the arguments, which are a JSON object: DeepSeek, Kimi, Mistral.
struct NamedCallsForm {
    std::vector<std::string_view> openers{};  // each begins a call
    std::vector<std::string_view> fillers{};  // around and behind calls, left out
    std::optional<CallHead> (*read_head)(std::string_view head) = nullptr;
    // The answer begins in the head of a call; the prompt has the marker.
    bool begins_in_head = false;
    // A head of this word and a line end means that content follows; "" = there is none.
    std::string_view content_head{};
};

std::optional<CallHead> read_deepseek_head(std::string_view head);
std::optional<CallHead> read_kimi_head(std::string_view head);
std::optional<CallHead> read_mistral_head(std::string_view head);
// f> before the arguments.
std::optional<CallHead> read_tag_head(std::string_view head);
// f and a line end before the arguments.
std::optional<CallHead> read_line_head(std::string_view head);

class NamedCalls final : public CallParser {
  public:
    NamedCalls(CallContext context, const NamedCallsForm& form);

    void push(char byte) override;
    void finish(bool cut) override;

  private:
    enum class State : std::uint8_t { outside, head, arguments, list };

    void outside(char byte);
    void in_head(char byte);
    void in_arguments(char byte);
    void in_list(char byte);
    void begin_arguments();
    void give_up(char byte);

    CallContext context_;
    NamedCallsForm form_;
    MarkerSearch search_;
    State state_;
    std::string raw_;  // of the call that is read
    std::string head_;
    JsonReader reader_;
    std::optional<CallList> list_;  // Mistral's older form
};

}  // namespace helix::text
