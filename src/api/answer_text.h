#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/completion_request.h"
#include "core/protocol/messages.h"

// The bytes of answers, streamed and whole, in the shapes that OpenAI's clients expect. Each
// request has a writer of its own, so that what is constant in its chunks is put together once.

namespace helix::api {

struct Usage {
    std::int64_t prompt_tokens = 0;
    std::int64_t cached_tokens = 0;  // prompt tokens that came from the prefix cache
    std::int64_t completion_tokens = 0;
};

// Log-probabilities of the tokens of one chunk or of the whole answer, as JSON.
class LogprobText {
  public:
    LogprobText(Endpoint endpoint, const TextCodec& codec) : endpoint_(endpoint), codec_(&codec) {}
    void add(const core::ProducedToken& token);
    // Adds the first token of a prompt, which has no log-probability. For /v1/completions only.
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

    Endpoint endpoint_;
    const TextCodec* codec_;
    std::int64_t tokens_ = 0;
    std::int64_t text_offset_ = 0;  // of the next token in the answer, in bytes
    std::string content_;           // chat: items of content
    std::string texts_;             // completions: items of the four arrays
    std::string logprobs_;
    std::string tops_;
    std::string offsets_;
};

// One choice of an answer that is sent whole, as it came.
struct WholeChoice {
    std::shared_ptr<const std::string> echo;  // of the prompt, before text; null = none
    std::string text;
    // If log-probabilities are asked for: those of the prompt, whose first token has none, and
    // those of the answer.
    std::optional<Token> first;
    std::shared_ptr<const std::vector<core::ProducedToken>> scored;  // null = none
    std::vector<core::ProducedToken> tokens;
    const char* finish_reason = "";
};

class AnswerText {
  public:
    AnswerText(const CompletionRequest& request, std::string id, std::int64_t created,
               std::string_view model);

    // Each appends one event to out. usage, where it is asked for in every chunk, is what was
    // produced so far.
    void first_chunk(std::string& out, std::size_t choice, const Usage& usage) const;
    void text_chunk(std::string& out, std::size_t choice, std::string_view text,
                    std::string_view logprobs, const Usage& usage) const;
    void last_chunk(std::string& out, std::size_t choice, std::string_view finish_reason,
                    const Usage& usage) const;
    void usage_chunk(std::string& out, const Usage& usage) const;

    // The whole answer, which is long where there are many choices or log-probabilities. For any
    // thread, like all of this class.
    std::string whole(const std::vector<WholeChoice>& choices, const TextCodec& codec,
                      const Usage& usage) const;

    const std::string& id() const { return id_; }

  private:
    void open_choice(std::string& out, std::size_t choice) const;
    void close_chunk(std::string& out, std::string_view logprobs, std::string_view finish_reason,
                     const Usage& usage) const;

    bool chat_;
    bool include_usage_;
    bool continuous_usage_;
    std::string id_;
    std::string chunk_head_;  // data: {"id":..., up to the value of choices
    std::string whole_head_;
};

}  // namespace helix::api
