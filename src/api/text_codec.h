#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/layer_range.h"
#include "spec/sampling_params.h"
#include "text/detokenizer.h"
#include "text/output/answer_parser.h"

// All that the API asks of a model's tokenizer and chat template.

namespace helix::api {

using spec::Token;

// The values must outlive the call. messages is an array of objects with role and content (a string
// or null), and for tools tool_calls (arguments as objects) and tool_call_id.
struct ChatPrompt {
    const nlohmann::ordered_json* messages = nullptr;
    const nlohmann::ordered_json* tools = nullptr;  // null = none
    const nlohmann::ordered_json* kwargs =
        nullptr;  // null = none; an object: more names for the template
    bool add_generation_prompt = true;
};

// A part of a prompt that is not a chat.
struct PromptPiece {
    std::string_view text;
    // What it writes out of control tokens is text and no such token.
    bool by_user = false;
};

// What tool_choice and parallel_tool_calls say beyond which tools there are.
struct ToolChoice {
    bool demanded = false;  // the answer has to be calls
    bool several = true;    // of which more than one may come
};

// For any thread, and several at once.
class TextCodec {
  public:
    virtual ~TextCodec() = default;
    // An error is the caller's: the template refused the messages.
    virtual base::Result<std::vector<Token>> encode_chat(const ChatPrompt& prompt) const = 0;
    // Encodes a raw prompt. Control tokens written out in it are control tokens, since whoever
    // writes the whole prompt speaks for every role. With add_special it begins as the model's file
    // says.
    virtual std::vector<Token> encode(std::string_view text, bool add_special) const = 0;
    // Encodes a prompt that is put together, as one text. It begins as the model's file says.
    virtual std::vector<Token> encode_pieces(std::span<const PromptPiece> pieces) const = 0;
    // Encodes the prompt that asks what belongs between two texts, or returns nothing if the model
    // was not made to fill in. What they write out of control tokens is text.
    virtual std::optional<std::vector<Token>> encode_infill(std::string_view /*before*/,
                                                            std::string_view /*after*/) const {
        return {};
    }
    // Encodes a query and a document as the one text that a cross-encoder reads, its ends and what
    // stands between the two included; nothing if the vocabulary has no tokens for these. What they
    // write out of control tokens is text.
    virtual std::optional<std::vector<Token>> encode_pair(std::string_view /*query*/,
                                                          std::string_view /*document*/) const {
        return {};
    }
    // Checks that some token may begin an answer under the grammar, which compiles, and that it can
    // end within the grammar's tokens. An error is the caller's fault, and names the limit if one
    // was hit. Without a vocabulary nothing is checked.
    virtual base::Status check_grammar(const spec::OutputGrammar& /*grammar*/) const {
        return base::Ok{};
    }
    virtual std::string decode(std::span<const Token> tokens, bool skip_special) const = 0;
    virtual std::string token_bytes(Token token) const = 0;
    virtual const std::vector<Token>& end_tokens() const = 0;
    virtual std::int32_t vocab_size() const = 0;
    // The source of the template that encode_chat() renders; "" = not known.
    virtual std::string_view chat_template() const { return {}; }
    // The model's own prompt for ranking a {document} by a {query}; "" = its file has none.
    virtual std::string_view rerank_template() const { return {}; }
    // For the text of one answer, which continues a prompt. The codec must outlive it.
    virtual std::unique_ptr<text::IncrementalDetokenizer> detokenizer(bool skip_special) const = 0;
    // What is to be read out of this model's answers in chats.
    virtual text::AnswerFormat answer_format() const { return {}; }
    // The grammar of answers in which tools (OpenAI's array) are called as choice says, in the form
    // that answer_format() reads. Error invalid: the form cannot be held to a grammar.
    virtual base::Result<spec::OutputGrammar> grammar_of_calls(const nlohmann::ordered_json& tools,
                                                               ToolChoice choice) const = 0;
    // For an answer out of which this is read: the control tokens that mark it are text there.
    virtual std::unique_ptr<text::IncrementalDetokenizer> marked_detokenizer(
        const text::AnswerFormat& /*reads*/, bool skip_special) const {
        return detokenizer(skip_special);
    }
};

}  // namespace helix::api
