#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/text_codec.h"

namespace helix::api {

constexpr Token kByteEnd = 256;      // ends a turn
constexpr Token kByteSpecial = 257;  // "<special>", hidden unless asked for

// A model of bytes: token 65 is "A". Characters of several bytes come out whole.
class ByteDetokenizer : public text::IncrementalDetokenizer {
  public:
    explicit ByteDetokenizer(bool skip_special) : skip_special_(skip_special) {}

    std::string push(Token token) override {
        if (token >= 256) {
            if (token == kByteSpecial && !skip_special_) waiting_ += "<special>";
        } else {
            waiting_ += static_cast<char>(token);
        }
        // At most three bytes of an unfinished character stay.
        std::size_t whole = waiting_.size();
        for (std::size_t back = 1; back <= 3 && back <= waiting_.size(); ++back) {
            const auto byte = static_cast<unsigned char>(waiting_[waiting_.size() - back]);
            if ((byte & 0xC0U) == 0x80U) continue;
            const std::size_t size = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
            if (size > back) whole = waiting_.size() - back;
            break;
        }
        std::string text = waiting_.substr(0, whole);
        waiting_.erase(0, whole);
        return text;
    }
    std::string flush() override { return std::exchange(waiting_, {}); }

  private:
    bool skip_special_;
    std::string waiting_;
};

class ByteCodec : public TextCodec {
  public:
    base::Result<std::vector<Token>> encode_chat(const ChatPrompt& prompt) const override {
        std::string text;
        if (prompt.tools != nullptr) text += "tools:" + prompt.tools->dump() + "\n";
        for (const nlohmann::ordered_json& message : *prompt.messages) {
            if (message["role"] == "function")
                return base::invalid("this template takes no functions");
            text += message["role"].get<std::string>() + ":";
            if (message["content"].is_string()) text += message["content"].get<std::string>();
            text += "\n";
        }
        if (prompt.add_generation_prompt) text += "assistant:";
        return encode(text, true);
    }
    std::vector<Token> encode(std::string_view text, bool) const override {
        std::vector<Token> tokens;
        for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
        return tokens;
    }
    std::vector<Token> encode_pieces(std::span<const PromptPiece> pieces) const override {
        std::string text;
        for (const PromptPiece& piece : pieces) text += piece.text;
        return encode(text, true);
    }
    base::Result<spec::OutputGrammar> grammar_of_calls(const nlohmann::ordered_json&,
                                                       ToolChoice) const override {
        return base::invalid("this model's form of calls cannot be demanded");
    }
    std::string decode(std::span<const Token> tokens, bool skip_special) const override {
        ByteDetokenizer detokenizer(skip_special);
        std::string text;
        for (const Token token : tokens) text += detokenizer.push(token);
        return text + detokenizer.flush();
    }
    std::string token_bytes(Token token) const override {
        if (token == kByteEnd) return "<end>";
        if (token == kByteSpecial) return "<special>";
        return std::string(1, static_cast<char>(token));
    }
    const std::vector<Token>& end_tokens() const override { return end_tokens_; }
    std::int32_t vocab_size() const override { return 258; }
    std::unique_ptr<text::IncrementalDetokenizer> detokenizer(bool skip_special) const override {
        return std::make_unique<ByteDetokenizer>(skip_special);
    }

  private:
    std::vector<Token> end_tokens_ = {kByteEnd};
};

}  // namespace helix::api
