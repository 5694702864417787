#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/call_object.h"
#include "text/tool_calls/call_parser.h"
#include "text/tool_calls/marker_search.h"
#include "text/tool_calls/written_calls.h"

namespace helix::text {

// Calls that are JSON behind a marker, as Hermes and many others write them.
struct JsonCallsForm {
    std::vector<std::string_view> openers{};
    std::vector<std::string_view> closers{};  // may follow a call and are left out then
    CallObjectForm object{};
    // An answer that is nothing but calls needs no marker, if they name known tools.
    bool bare = false;
    bool builtins = false;  // behind a marker there may be a call of a built-in tool of LLaMA
};

class JsonCalls final : public CallParser {
  public:
    JsonCalls(CallContext context, const JsonCallsForm& form);

    void push(char byte) override;
    void finish(bool cut) override;

  private:
    enum class State : std::uint8_t { begin, outside, inside, builtin };

    void begin(std::string_view raw, bool known_only);
    void outside(char byte);
    void inside(char byte);
    void in_builtin(char byte);

    CallContext context_;
    JsonCallsForm form_;
    MarkerSearch search_;
    State state_;
    std::optional<CallList> calls_;
    std::optional<BuiltinCall> builtin_;
    std::string marker_;       // that opened them, until one is complete
    std::string blanks_;       // before the first text
    bool after_call_ = false;  // a closer may follow
    bool bare_ = false;        // what is read now had no marker
};

}  // namespace helix::text
