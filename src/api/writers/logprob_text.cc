#include "api/writers/logprob_text.h"

#include <utility>

#include "api/json_text.h"

namespace helix::api {
namespace {

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
    if (form_ == Form::chat) {
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
    if (form_ == Form::chat) {
        return "{\"content\":[" + std::exchange(content_, {}) + "],\"refusal\":null}";
    }
    return "{\"tokens\":[" + std::exchange(texts_, {}) + "],\"token_logprobs\":[" +
           std::exchange(logprobs_, {}) + "],\"top_logprobs\":[" + std::exchange(tops_, {}) +
           "],\"text_offset\":[" + std::exchange(offsets_, {}) + "]}";
}

}  // namespace helix::api
