#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/text_codec.h"
#include "base/result.h"
#include "model/gguf.h"
#include "text/grammar/output_grammar.h"
#include "text/infill_tokens.h"
#include "text/special_matcher.h"
#include "text/template/call_history.h"
#include "text/template/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_calls/drawn_forms.h"

namespace helix::api {

// The template for models that were not trained to chat: what was said so far, one message a line,
// to be continued.
constexpr const char* kPlainTemplate =
    "{% for message in messages %}{{ message.content }}{% if not loop.last %}{{ '\\n' }}{% endif %}"
    "{% endfor %}";

// The tokenizer and chat template of a model's file.
//
// What a user writes is never read as a control token: where a message spells one out
// ("<|eot_id|>"), the spelling is broken with a mark before the template is rendered and encoded in
// two pieces, so that it comes out as ordinary text.
class ModelCodec final : public TextCodec {
  public:
    // chat_template is Jinja source in place of the file's own; "" means the file's, or
    // kPlainTemplate where that has none. tool_parser names the form in which the model writes
    // calls of tools (text::tool_formats()); "auto" means by the template. Error invalid: no usable
    // vocabulary, a template that cannot be parsed, or no such form.
    static base::Result<std::unique_ptr<const TextCodec>> create(
        const model::GgufFile& file, const std::string& chat_template = "",
        std::string_view tool_parser = "auto");

    base::Result<std::vector<Token>> encode_chat(const ChatPrompt& prompt) const override;
    std::vector<Token> encode(std::string_view text, bool add_special) const override;
    std::vector<Token> encode_pieces(std::span<const PromptPiece> pieces) const override;
    std::optional<std::vector<Token>> encode_infill(std::string_view before,
                                                    std::string_view after) const override;
    std::optional<std::vector<Token>> encode_pair(std::string_view query,
                                                  std::string_view document) const override;
    base::Status check_grammar(const spec::OutputGrammar& grammar) const override;
    std::string decode(std::span<const Token> tokens, bool skip_special) const override;
    std::string token_bytes(Token token) const override;
    const std::vector<Token>& end_tokens() const override { return end_tokens_; }
    std::int32_t vocab_size() const override { return tokenizer_->vocab_size(); }
    std::string_view chat_template() const override { return template_source_; }
    std::string_view rerank_template() const override {
        return tokenizer_->vocabulary().rerank_template;
    }
    std::unique_ptr<text::IncrementalDetokenizer> detokenizer(bool skip_special) const override;
    text::AnswerFormat answer_format() const override { return answer_format_; }
    base::Result<spec::OutputGrammar> grammar_of_calls(const nlohmann::ordered_json& tools,
                                                       ToolChoice choice) const override;
    std::unique_ptr<text::IncrementalDetokenizer> marked_detokenizer(
        const text::AnswerFormat& reads, bool skip_special) const override;

  private:
    ModelCodec() = default;
    std::string break_control_text(std::string_view written) const;
    nlohmann::ordered_json guarded(nlohmann::ordered_json value) const;
    std::vector<Token> encode_marked(std::string_view rendered) const;
    base::Status choose_answer_format(std::string_view source, std::string_view tool_parser);

    std::shared_ptr<const text::Tokenizer> tokenizer_;
    std::shared_ptr<const text::ChatTemplate> template_;
    std::string template_source_;
    // If false, a developer's message goes to the template as the system's, which is the older name
    // of the role.
    bool knows_developers_ = false;
    text::AnswerFormat answer_format_;
    std::optional<text::DrawnForm> drawn_form_;  // of calls under a grammar; nothing: none are read
    text::CallStyle call_style_;  // in which the template takes calls of earlier turns
    std::vector<Token> end_tokens_;
    bool keeps_ends_ = false;  // an encoder's: texts are whole, and nothing continues them
    std::optional<text::InfillTokens> infill_tokens_;
    mutable std::mutex mutex_;
    mutable std::unique_ptr<text::grammar::GrammarMasks> masks_;  // set once, under mutex_
    text::SpecialMatcher control_texts_;
};

}  // namespace helix::api
