#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/call_parser.h"
#include "text/tool_calls/marker_search.h"

namespace helix::text {

// Calls in which each argument has a tag of its own: Qwen3-Coder, Seed-OSS, MiniMax, DeepSeek V3.2,
// GLM. In the order in which they occur:
struct TaggedCallsForm {
    std::vector<std::string_view> fillers{};    // around calls, left out
    std::string_view call_open{};               // then the name,
    std::vector<std::string_view> name_ends{};  // up to one of these; kept if it begins a parameter
    std::string_view parameter_open{};          // then the parameter's name and what is said of it,
    std::string_view parameter_name_end{};      // then
    std::string_view value_open{};              // after blanks; "" = the value begins at once
    std::vector<std::string_view> value_ends{};
    std::vector<std::string_view> call_closes{};
    bool strips_line_ends = false;  // one on each side of a value
};

class TaggedCalls final : public CallParser {
  public:
    TaggedCalls(CallContext context, const TaggedCallsForm& form);

    void push(char byte) override;
    void finish(bool cut) override;

  private:
    enum class State : std::uint8_t { outside, name, between, parameter, before_value, value };

    void step(char byte);
    void outside(char byte);
    void in_name(char byte);
    void between(char byte);
    void in_parameter(char byte);
    void before_value(char byte);
    void in_value(char byte);
    void name_ends();
    bool begin_parameter();
    void pass_value(std::string_view text);
    void end_value();
    void end_call();
    void replay(std::string_view text);
    void give_up();

    CallContext context_;
    TaggedCallsForm form_;
    MarkerSearch outside_;
    MarkerSearch name_end_;
    MarkerSearch between_;
    MarkerSearch parameter_end_;
    MarkerSearch value_open_;
    MarkerSearch value_end_;
    State state_ = State::outside;
    std::string raw_;   // of the call that is read
    std::string name_;  // of the tool
    bool begun_ = false;
    bool first_ = true;       // no parameter was there yet
    std::string parameter_;   // its name, and what is said of it
    std::uint8_t types_ = 0;  // that it may have
    bool streams_ = false;    // it can only be a string
    bool opened_ = false;     // something of the value has come
    std::string value_;       // of one that may be another type
};

}  // namespace helix::text
