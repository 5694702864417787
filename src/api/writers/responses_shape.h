#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "api/writers/answer_writer.h"

// What the streamed and the whole answers of OpenAI's /v1/responses have in common. An answer has
// one choice, and its output is a list of items: thoughts, messages, calls of tools.

namespace helix::api {

constexpr std::string_view kResponseIdPrefix = "resp_";

// How far a response or one of its items is.
enum class ResponseStatus { in_progress, completed, incomplete, failed };
std::string_view name_of(ResponseStatus status);
ResponseStatus status_of(const ChoiceEnd& end);

// Gets the object of a response that is whole; empty = nobody wants it.
using OnResponse = std::function<void(const std::string& object)>;

// Writes the object of one response.
class ResponseObject {
  public:
    // settings: what it repeats of its request, as members of a JSON object.
    ResponseObject(const AnswerHead& head, std::string settings);

    // output: the items, with commas between them. usage and error: null = none.
    void append(std::string& out, ResponseStatus status, std::string_view output,
                const Usage* usage, const ApiError* error) const;
    // The id of the item at this place. prefix: "msg_" and so on.
    std::string item_id(std::string_view prefix, std::int64_t output_index) const;

  private:
    std::string head_;  // up to the value of status
    std::string tail_;  // model and settings, each with the comma before it
    std::string word_;  // of its id
};

// The items. Those in progress have no text yet.
void append_message_item(std::string& out, std::string_view id, ResponseStatus status,
                         std::string_view text);
void append_reasoning_item(std::string& out, std::string_view id, ResponseStatus status,
                           std::string_view text);
void append_call_item(std::string& out, std::string_view id, ResponseStatus status,
                      const text::ToolCallDelta& call);
// The one part of the content of a message, or of thoughts.
void append_text_part(std::string& out, bool thoughts, std::string_view text);

}  // namespace helix::api
