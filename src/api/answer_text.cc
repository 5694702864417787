#include "api/answer_text.h"

#include <utility>

#include "api/json_text.h"

namespace helix::api {
namespace {

void append_usage(std::string& out, const Usage& usage) {
    out += "{\"prompt_tokens\":";
    append_json_number(out, usage.prompt_tokens);
    out += ",\"completion_tokens\":";
    append_json_number(out, usage.completion_tokens);
    out += ",\"total_tokens\":";
    append_json_number(out, usage.prompt_tokens + usage.completion_tokens);
    out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
    append_json_number(out, usage.cached_tokens);
    out += "},\"completion_tokens_details\":{\"reasoning_tokens\":0}}";
}

void append_comma(std::string& out) {
    if (!out.empty()) out += ',';
}

// Writes "token":"...","logprob":x,"bytes":[...]
void append_token_fields(std::string& out, const std::string& bytes, float logprob) {
    out += "\"token\":";
    append_json_string(out, bytes);
    out += ",\"logprob\":";
    append_json_number(out, logprob);
    out += ",\"bytes\":[";
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i > 0) out += ',';
        append_json_number(out, static_cast<std::int64_t>(static_cast<unsigned char>(bytes[i])));
    }
    out += ']';
}

}  // namespace

void LogprobText::add(const core::ProducedToken& token) {
    if (endpoint_ == Endpoint::chat) {
        add_chat(token);
    } else {
        add_plain(token);
    }
    ++tokens_;
}

void LogprobText::add_first(Token token) {
    add_place(token);
    append_comma(logprobs_);
    logprobs_ += "null";
    append_comma(tops_);
    tops_ += "null";
    ++tokens_;
}

void LogprobText::add_chat(const core::ProducedToken& token) {
    append_comma(content_);
    content_ += '{';
    append_token_fields(content_, codec_->token_bytes(token.token), token.logprob);
    content_ += ",\"top_logprobs\":[";
    for (std::size_t i = 0; i < token.top.size(); ++i) {
        content_ += i > 0 ? ",{" : "{";
        append_token_fields(content_, codec_->token_bytes(token.top[i].token),
                            token.top[i].logprob);
        content_ += '}';
    }
    content_ += "]}";
}

void LogprobText::add_place(Token token) {
    const std::string bytes = codec_->token_bytes(token);
    append_comma(texts_);
    append_json_string(texts_, bytes);
    append_comma(offsets_);
    append_json_number(offsets_, text_offset_);
    text_offset_ += static_cast<std::int64_t>(bytes.size());
}

void LogprobText::add_plain(const core::ProducedToken& token) {
    add_place(token.token);
    append_comma(logprobs_);
    append_json_number(logprobs_, token.logprob);
    append_comma(tops_);
    tops_ += '{';
    for (std::size_t i = 0; i < token.top.size(); ++i) {
        if (i > 0) tops_ += ',';
        append_json_string(tops_, codec_->token_bytes(token.top[i].token));
        tops_ += ':';
        append_json_number(tops_, token.top[i].logprob);
    }
    tops_ += '}';
}

std::string LogprobText::take() {
    if (tokens_ == 0) return "null";
    tokens_ = 0;
    if (endpoint_ == Endpoint::chat) {
        return "{\"content\":[" + std::exchange(content_, {}) + "],\"refusal\":null}";
    }
    return "{\"tokens\":[" + std::exchange(texts_, {}) + "],\"token_logprobs\":[" +
           std::exchange(logprobs_, {}) + "],\"top_logprobs\":[" + std::exchange(tops_, {}) +
           "],\"text_offset\":[" + std::exchange(offsets_, {}) + "]}";
}

AnswerText::AnswerText(const CompletionRequest& request, std::string id, std::int64_t created,
                       std::string_view model)
    : chat_(request.endpoint == Endpoint::chat),
      include_usage_(request.include_usage),
      continuous_usage_(request.continuous_usage),
      id_(std::move(id)) {
    const auto head = [&](std::string_view object) {
        std::string out = "{\"id\":";
        append_json_string(out, id_);
        out += ",\"object\":";
        append_json_string(out, object);
        out += ",\"created\":";
        append_json_number(out, created);
        out += ",\"model\":";
        append_json_string(out, model);
        out += ",\"system_fingerprint\":\"fp_helix\",\"choices\":";
        return out;
    };
    whole_head_ = head(chat_ ? "chat.completion" : "text_completion");
    chunk_head_ = "data: " + (chat_ ? head("chat.completion.chunk") : whole_head_);
}

void AnswerText::open_choice(std::string& out, std::size_t choice) const {
    out += chunk_head_;
    out += "[{\"index\":";
    append_json_number(out, static_cast<std::int64_t>(choice));
}

void AnswerText::close_chunk(std::string& out, std::string_view logprobs,
                             std::string_view finish_reason, const Usage& usage) const {
    out += ",\"logprobs\":";
    out += logprobs;
    if (finish_reason.empty()) {
        out += ",\"finish_reason\":null}]";
    } else {
        out += ",\"finish_reason\":\"";
        out += finish_reason;
        out += "\"}]";
    }
    if (continuous_usage_) {
        out += ",\"usage\":";
        append_usage(out, usage);
    } else if (include_usage_) {
        out += ",\"usage\":null";
    }
    out += "}\n\n";
}

void AnswerText::first_chunk(std::string& out, std::size_t choice, const Usage& usage) const {
    if (!chat_) return;
    open_choice(out, choice);
    out += ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}";
    close_chunk(out, "null", "", usage);
}

void AnswerText::text_chunk(std::string& out, std::size_t choice, std::string_view text,
                            std::string_view logprobs, const Usage& usage) const {
    open_choice(out, choice);
    out += chat_ ? ",\"delta\":{\"content\":" : ",\"text\":";
    append_json_string(out, text);
    if (chat_) out += '}';
    close_chunk(out, logprobs, "", usage);
}

void AnswerText::last_chunk(std::string& out, std::size_t choice, std::string_view finish_reason,
                            const Usage& usage) const {
    open_choice(out, choice);
    out += chat_ ? ",\"delta\":{}" : ",\"text\":\"\"";
    close_chunk(out, "null", finish_reason, usage);
}

void AnswerText::usage_chunk(std::string& out, const Usage& usage) const {
    if (!include_usage_) return;
    out += chunk_head_;
    out += "[],\"usage\":";
    append_usage(out, usage);
    out += "}\n\n";
}

std::string AnswerText::whole(const std::vector<WholeChoice>& choices, const TextCodec& codec,
                              const Usage& usage) const {
    std::string out = whole_head_;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const WholeChoice& choice = choices[i];
        out += i > 0 ? ",{\"index\":" : "[{\"index\":";
        append_json_number(out, static_cast<std::int64_t>(i));
        out += chat_ ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"text\":";
        if (choice.echo != nullptr) {
            append_json_string(out, *choice.echo + choice.text);
        } else {
            append_json_string(out, choice.text);
        }
        if (chat_) out += ",\"refusal\":null}";
        LogprobText logprobs(chat_ ? Endpoint::chat : Endpoint::completions, codec);
        if (choice.first) logprobs.add_first(*choice.first);
        if (choice.scored != nullptr) {
            for (const core::ProducedToken& token : *choice.scored) logprobs.add(token);
        }
        for (const core::ProducedToken& token : choice.tokens) logprobs.add(token);
        out += ",\"logprobs\":";
        out += logprobs.take();
        out += ",\"finish_reason\":\"";
        out += choice.finish_reason;
        out += "\"}";
    }
    out += "],\"usage\":";
    append_usage(out, usage);
    out += '}';
    return out;
}

}  // namespace helix::api
