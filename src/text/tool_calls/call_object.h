#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/tool_calls/call_parser.h"
#include "text/tool_calls/json_reader.h"

namespace helix::text {

// How far a reader has come with a byte.
enum class CallProgress : std::uint8_t {
    more,
    done,         // the call is complete
    done_before,  // it was complete without this byte, which belongs to what follows
    bad,          // this is no call
};

// How a model writes calls as JSON.
struct CallObjectForm {
    bool name_is_key = false;  // {"f": {...}} in place of {"name": "f", "arguments": {...}}
    // Only names of the request's tools are calls, and only objects that say little else.
    bool known_only = false;
};

// Reads one call that is a JSON object, with its name under name or tool_name and its arguments
// under arguments or parameters, in any order, among other members. Arguments are passed on as they
// come once the name is known. They may also be a string that holds the object.
class CallObject {
  public:
    CallObject(CallContext context, CallObjectForm form) : context_(context), form_(form) {}

    // The first byte must be {.
    CallProgress push(char byte);
    // Whether the call has been told whole, though its object may go on.
    bool ended() const { return ended_; }

  private:
    enum class Member : std::uint8_t { other, name, arguments };

    CallProgress step(char byte, const std::string& text, JsonReader::At before);
    bool begin_value(char byte);
    bool value_ends();
    bool arguments_end();
    bool begin_call();
    CallProgress object_ends();
    void pass(const std::string& text);

    CallContext context_;
    CallObjectForm form_;
    JsonReader reader_;
    std::string key_;
    std::string value_;  // of the member that is read, as far as it is kept
    Member member_ = Member::other;
    bool in_value_ = false;
    char first_ = 0;  // byte of the value
    std::optional<std::string> name_;
    std::optional<std::string> held_;  // arguments that came before the name
    bool begun_ = false;
    bool ended_ = false;
};

// Reads one call, or a list of them in brackets.
class CallList {
  public:
    CallList(CallContext context, CallObjectForm form) : context_(context), form_(form) {}

    CallProgress push(char byte);
    // The text since the last complete call.
    const std::string& raw() const { return raw_; }

  private:
    enum class At : std::uint8_t { begin, list_begin, item, object, after_item };

    CallProgress step(char byte);
    CallProgress in_object(char byte);

    CallContext context_;
    CallObjectForm form_;
    At at_ = At::begin;
    bool list_ = false;
    std::optional<CallObject> object_;
    std::string raw_;
};

}  // namespace helix::text
