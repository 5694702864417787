#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/error.h"

// What the protocols share that are read by writing their bodies anew as bodies of
// /v1/chat/completions, so that limits, sampling, tools and formats are read in one place.

namespace helix::api {

// The error that something is wrong with a field; it names the field.
ApiError wrong_field(const std::string& field, const std::string& message);
// A field of the chat body, and what the protocol calls it.
struct RenamedField {
    std::string_view chat;
    std::string_view own;
};
// The error in the protocol's words: with its name of the field, also for parts of that.
ApiError renamed(ApiError error, std::span<const RenamedField> names);

// The member of an object, or nullptr when it is absent or null.
nlohmann::ordered_json* member(nlohmann::ordered_json& object, std::string_view name);
// Moves a member that is a string into text. The error names the field, where + "." + name, or name
// alone where `where` is "": it is no string, or, with required, missing or null.
std::optional<ApiError> take_text(const std::string& where, nlohmann::ordered_json& object,
                                  std::string_view name, bool required, std::string& text);
// Whether it is a text without characters.
bool is_empty_text(const nlohmann::ordered_json& value);
// Moves a member, if there is one, from one object into another under a name that this does not
// have yet.
void move_member(nlohmann::ordered_json& from, std::string_view name, nlohmann::ordered_json& to,
                 std::string_view new_name);

// A message of chat, with text or, for null, none.
nlohmann::ordered_json chat_message(std::string_view role, nlohmann::ordered_json content);
// A call of a tool in an assistant's message. arguments: the text of an object.
nlohmann::ordered_json chat_tool_call(const std::string& id, const std::string& name,
                                      std::string arguments);
// An item of tools. What is null is left out.
nlohmann::ordered_json chat_tool(std::string name, nlohmann::ordered_json description,
                                 nlohmann::ordered_json parameters);
// Asks the template of the model to let it think, or not to.
void set_thinking(nlohmann::ordered_json& chat, bool on);
// Asks for an answer that satisfies a JSON schema.
void set_schema(nlohmann::ordered_json& chat, nlohmann::ordered_json schema);

}  // namespace helix::api
