#pragma once

#include "api/writers/anthropic_shape.h"

namespace helix::api {

// A message of Anthropic's protocol that is streamed: blocks of text, of thoughts and of calls, one
// after another, each begun, continued and ended by events.
class AnthropicStream final : public StreamWriter {
  public:
    explicit AnthropicStream(AnswerHead head) : head_(std::move(head)) {}

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
    enum class Block { none, text, thinking, call };

    void start(std::string& out, const Usage& usage);
    void add(std::string& out, const text::ContentText& content);
    void add(std::string& out, const text::ReasoningText& reasoning);
    void add(std::string& out, const text::ToolCallDelta& call);
    // Ends the block that is open, and begins one whose content_block is this JSON.
    void open(std::string& out, Block block, std::string_view content_block);
    void close(std::string& out);
    void append_delta(std::string& out, std::string_view type, std::string_view field,
                      std::string_view text) const;

    AnswerHead head_;
    Block block_ = Block::none;
    std::int64_t index_ = 0;       // of the block that is open, or comes next
    std::int32_t call_index_ = 0;  // of the call that is open
    bool started_ = false;
    bool calls_ = false;
};

}  // namespace helix::api
