#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/layer_range.h"
#include "spec/sampling_params.h"

// All that the API asks of a model's tokenizer and chat template.

namespace helix::api {

using spec::Token;

// The text of one answer, as it grows. What push() and finish() return, joined, is whole UTF-8
// characters and never holds a stop string or anything after it.
class TextOutput {
  public:
    virtual ~TextOutput() = default;
    // What may be shown now that token is known; often "" (half a character, or perhaps the
    // beginning of a stop string). Stop strings count only where may_stop.
    virtual std::string push(Token token, bool may_stop) = 0;
    // The answer ends here: what was held back.
    virtual std::string finish() = 0;
    // A stop string was found; push() returned all that came before it.
    virtual bool stopped() const = 0;
};

// What the choices of a request share to put out their text. Any thread.
class TextOutputs {
  public:
    virtual ~TextOutputs() = default;
    // For one more choice. The maker must live as long.
    virtual std::unique_ptr<TextOutput> make() const = 0;
};

// Values outlive the call. messages: array of objects with role and content (a string or null), and
// for tools tool_calls (arguments as objects) and tool_call_id.
struct ChatPrompt {
    const nlohmann::ordered_json* messages = nullptr;
    const nlohmann::ordered_json* tools = nullptr;  // null = none
    const nlohmann::ordered_json* kwargs =
        nullptr;  // null = none; an object: more names for the template
    bool add_generation_prompt = true;
};

// Any thread, several at once.
class TextCodec {
  public:
    virtual ~TextCodec() = default;
    // An error is the caller's: the template refused the messages.
    virtual base::Result<std::vector<Token>> encode_chat(const ChatPrompt& prompt) const = 0;
    // A raw prompt: control tokens written out in it are control tokens, for whoever writes the
    // whole prompt speaks for every role. add_special: begin it as the model's file says.
    virtual std::vector<Token> encode(std::string_view text, bool add_special) const = 0;
    // Whether some token may begin an answer under the grammar, which compiles. An error is the
    // caller's, and names the limit where one is hit. Without a vocabulary there is nothing to say.
    virtual base::Status check_grammar(const spec::OutputGrammar& /*grammar*/) const {
        return base::Ok{};
    }
    virtual std::string decode(std::span<const Token> tokens, bool skip_special) const = 0;
    virtual std::string token_bytes(Token token) const = 0;
    virtual const std::vector<Token>& end_tokens() const = 0;
    virtual std::int32_t vocab_size() const = 0;
    virtual std::shared_ptr<const TextOutputs> outputs(std::vector<std::string> stop_strings,
                                                       bool skip_special) const = 0;
};

}  // namespace helix::api
