#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/call_object.h"
#include "text/tool_calls/call_parser.h"
#include "text/tool_calls/marker_search.h"

namespace helix::text {

// Finds the end of a call that is written as in Python: name(...).
class PythonCallScan {
  public:
    CallProgress push(char byte);
    const std::string& text() const { return text_; }

  private:
    std::string text_;
    std::string open_;  // brackets
    char quote_ = 0;    // of the string that it is in
    bool escaped_ = false;
};

// Lists of calls in Python's notation: LLaMA 3.2 and 4, LFM2. A call is told when it is complete.
struct PythonicForm {
    std::string_view opener;  // "" = only an answer that is nothing but calls of known tools
    std::string_view closer;
};

class PythonicCalls final : public CallParser {
  public:
    PythonicCalls(CallContext context, const PythonicForm& form);
    void push(char byte) override;
    void finish(bool cut) override;

  private:
    enum class State : std::uint8_t { begin, outside, list, call, after_call };

    void outside(char byte);
    void in_list(char byte);
    void in_call(char byte);
    void after_call(char byte);
    void give_up(char byte);

    CallContext context_;
    PythonicForm form_;
    MarkerSearch search_;
    State state_;
    std::string raw_;  // since the last complete call
    PythonCallScan scan_;
};

// LLaMA's built-in tools: <|python_tag|>name.call(key="value").
class BuiltinCall {
  public:
    explicit BuiltinCall(CallContext context) : context_(context) {}
    CallProgress push(char byte);

  private:
    CallContext context_;
    PythonCallScan scan_;
};

// Calls between two markers in Gemma's notation. A call is told when it is complete.
class GemmaCalls final : public CallParser {
  public:
    explicit GemmaCalls(CallContext context);
    void push(char byte) override;
    void finish(bool cut) override;

  private:
    CallContext context_;
    MarkerSearch openers_;
    MarkerSearch closers_;
    bool inside_ = false;
    std::string raw_;
    std::string call_;
};

}  // namespace helix::text
