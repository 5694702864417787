#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/sampling_params.h"
#include "text/output/part_sink.h"
#include "text/tool_calls/marker_search.h"
#include "text/tool_calls/tool_format.h"

namespace helix::text {

// How a family of models marks what it thinks before it answers.
struct ReasoningFormat {
    std::string_view name;
    std::string_view open;
    std::string_view close;
    // A thought may begin anywhere; otherwise only where nothing but blanks came before.
    bool anywhere = false;
};

// Null if none has this name.
const ReasoningFormat* find_reasoning_format(std::string_view name);
// Null if neither the template nor the vocabulary knows of thoughts.
const ReasoningFormat* detect_reasoning_format(std::string_view chat_template,
                                               const HasToken& has_token);

// What is to be read out of a model's answers.
struct AnswerFormat {
    const ToolFormat* tools = nullptr;           // null = no calls
    const ReasoningFormat* reasoning = nullptr;  // null = no thoughts

    bool reads_anything() const { return tools != nullptr || reasoning != nullptr; }
    // The same for a request, which may have no tools.
    AnswerFormat with_tools(bool any) const;
    // Whether an answer to a prompt that ends like this begins inside a thought.
    bool begins_in_thought(std::string_view prompt_tail) const;
    // The thought that may come first in an answer to a prompt that ends like this. may_call: calls
    // may come behind it, where models say otherwise who is spoken to.
    spec::Thought thought_behind(std::string_view prompt_tail, bool may_call = false) const;
    // Texts of control tokens that have to be seen in an answer.
    std::vector<std::string_view> markers() const;
};

// Reads calls and thoughts out of the text of one answer. The parts are the same however the text
// is cut, when those of all calls are joined.
class AnswerParser {
  public:
    struct Options {
        AnswerFormat format;
        bool in_thought = false;                   // the answer begins inside one
        std::shared_ptr<const ToolSchemas> tools;  // null = none
        std::uint64_t id_seed = 0;                 // of calls
    };
    explicit AnswerParser(const Options& options);

    void push(std::string_view text, std::vector<OutputPart>& parts);
    // The text ends; cut: because of its length (CallParser::finish).
    void finish(bool cut, std::vector<OutputPart>& parts);
    bool in_thought() const { return in_thought_; }

  private:
    void push(char byte);
    void think(char byte);
    void answer(std::string_view text);

    std::shared_ptr<const ToolSchemas> tools_;
    PartSink sink_;
    std::unique_ptr<CallParser> calls_;  // null = none are read
    const ReasoningFormat* reasoning_;
    std::optional<MarkerSearch> open_;
    std::optional<MarkerSearch> close_;  // and what else ends a thought
    bool in_thought_ = false;
    bool may_open_ = false;
};

}  // namespace helix::text
