#pragma once

#include "api/writers/openai_shape.h"

namespace helix::api {

// A stream of OpenAI's endpoints for completions: an event for each chunk, which has text of one
// choice, and [DONE].
class OpenAiStream final : public StreamWriter {
  public:
    struct Options {
        std::size_t choices_of_prompt = 1;
        bool include_usage = false;     // in a chunk of its own at the end
        bool continuous_usage = false;  // in every chunk, and a chunk for every token
    };
    // codec must outlive it; echoes has one for each prompt.
    OpenAiStream(const OpenAiShape& shape, const AnswerHead& head, const TextCodec& codec,
                 Options options, const std::vector<PromptEcho>& echoes);

    std::string_view content_type() const override;
    std::string_view ping() const override;
    void begin(std::string& out, const Usage& usage) override;
    void add_tokens(std::size_t choice, std::span<const core::ProducedToken> tokens) override;
    void add_parts(std::string& out, std::size_t choice, std::vector<text::OutputPart> parts,
                   const Progress& progress) override;
    void finish(std::string& out, std::size_t choice, const ChoiceEnd& end,
                const Progress& progress) override;
    void end(std::string& out, const Usage& usage) override;
    void error(std::string& out, const ApiError& error) override;

  private:
    struct Choice {
        LogprobText logprobs;                     // for its next chunk
        std::shared_ptr<const std::string> echo;  // goes before its first text; null = nothing
        std::int64_t told_tokens = 0;             // when the last chunk was made
        bool started = false;                     // its first chunk is out
        bool calls = false;                       // a tool, with a whole call
    };

    void start(std::string& out, std::size_t choice, const Usage& usage);
    void chunk(std::string& out, std::size_t choice, const text::OutputPart& part,
               const Usage& usage);
    void open(std::string& out, std::size_t choice) const;
    void close(std::string& out, std::string_view logprobs, std::string_view finish_reason,
               const Usage& usage) const;

    const OpenAiShape& shape_;
    Options options_;
    std::string chunk_head_;  // data: {"id":..., up to the value of choices
    std::vector<Choice> choices_;
};

}  // namespace helix::api
