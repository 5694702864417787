#include "api/embedding/embedding_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "api/json_text.h"
#include "base/base64.h"

namespace helix::api {
namespace {

void append_values(std::string& out, std::span<const float> values) {
    out += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i > 0) out += ',';
        append_json_number(out, values[i]);
    }
    out += ']';
}

std::string openai_json(const EmbeddingRequest& request, const PooledAnswerHead& head,
                        const std::vector<std::vector<float>>& values) {
    std::string out = R"({"object":"list","data":[)";
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i > 0) out += ',';
        out += fmt::format(R"({{"object":"embedding","index":{},"embedding":)", i);
        if (request.base64) {
            out += '"' + base64_of(values[i]) + '"';
        } else {
            append_values(out, values[i]);
        }
        out += '}';
    }
    out += "],\"model\":";
    append_json_string(out, head.model);
    out +=
        fmt::format(R"(,"usage":{{"prompt_tokens":{0},"total_tokens":{0}}}}})", head.prompt_tokens);
    return out;
}

std::string ollama_json(const PooledAnswerHead& head,
                        const std::vector<std::vector<float>>& values) {
    std::string out = "{\"model\":";
    append_json_string(out, head.model);
    out += ",\"embeddings\":[";
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i > 0) out += ',';
        append_values(out, values[i]);
    }
    out += fmt::format(R"(],"total_duration":{},"load_duration":0,"prompt_eval_count":{}}})",
                       head.took.ns, head.prompt_tokens);
    return out;
}

}  // namespace

std::int64_t most_value_bytes(bool base64) {
    return base64 ? 6 : 17;  // 16/3; "-1.1754943508e-38,"
}

std::vector<float> shortened(std::span<const float> values, std::int32_t dimensions) {
    const std::size_t width = dimensions > 0
                                  ? std::min(values.size(), static_cast<std::size_t>(dimensions))
                                  : values.size();
    std::vector<float> out(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(width));
    if (width == values.size()) return out;
    double squares = 0;
    for (const float value : out)
        squares += static_cast<double>(value) * static_cast<double>(value);
    const double length = std::sqrt(squares);
    if (!(length > 0)) return out;
    for (float& value : out) value = static_cast<float>(static_cast<double>(value) / length);
    return out;
}

std::string base64_of(std::span<const float> values) {
    std::string bytes;
    bytes.reserve(values.size() * sizeof(float));
    for (const float value : values) {
        const auto bits = std::bit_cast<std::uint32_t>(value);
        for (unsigned shift = 0; shift < 32; shift += 8)
            bytes.push_back(static_cast<char>(bits >> shift & 0xffU));
    }
    return base::to_base64(bytes);
}

std::string embedding_json(const EmbeddingRequest& request, const PooledAnswerHead& head,
                           const std::vector<std::vector<float>>& values) {
    switch (request.form) {
        case EmbeddingForm::ollama:
            return ollama_json(head, values);
        case EmbeddingForm::ollama_single: {
            std::string out = "{\"embedding\":";
            append_values(out, values.empty() ? std::vector<float>() : values.front());
            return out + '}';
        }
        case EmbeddingForm::openai:
            break;
    }
    return openai_json(request, head, values);
}

}  // namespace helix::api
