#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "api/text_codec.h"
#include "core/protocol/messages.h"

namespace helix::api {

// Log-probabilities of the tokens of one chunk or of the whole answer, as the JSON of OpenAI's
// endpoints.
class LogprobText {
  public:
    enum class Form { chat, completions };
    // codec must outlive it.
    LogprobText(Form form, const TextCodec& codec) : form_(form), codec_(&codec) {}
    void add(const core::ProducedToken& token);
    // Adds the first token of a prompt, which has no log-probability. For Form::completions only.
    void add_first(Token token);
    bool empty() const { return tokens_ == 0; }
    // About how many bytes take() would return.
    std::size_t bytes() const {
        return content_.size() + texts_.size() + logprobs_.size() + tops_.size() + offsets_.size();
    }
    // The value of "logprobs": an object, or null when there is nothing. Starts anew for the next
    // chunk.
    std::string take();

  private:
    void add_chat(const core::ProducedToken& token);
    void add_plain(const core::ProducedToken& token);
    void add_place(Token token);  // the token's text, and where that begins

    Form form_;
    const TextCodec* codec_;
    std::int64_t tokens_ = 0;
    std::int64_t text_offset_ = 0;  // of the next token in the answer, in bytes
    std::string content_;           // chat: items of content
    std::string texts_;             // completions: items of the four arrays
    std::string logprobs_;
    std::string tops_;
    std::string offsets_;
};

}  // namespace helix::api
