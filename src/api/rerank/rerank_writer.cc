#include "api/rerank/rerank_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "api/json_text.h"

namespace helix::api {
namespace {

constexpr std::int64_t kHeadBytes = 4096;
constexpr std::int64_t kRowBytes = 128;       // besides the document's text
constexpr std::int64_t kMostEscapeBytes = 6;  // of a byte of text: "\u001f"

std::string usage_json(std::int64_t prompt_tokens) {
    return fmt::format(R"("usage":{{"prompt_tokens":{0},"total_tokens":{0}}})", prompt_tokens);
}

std::string score_json(const PooledAnswerHead& head, const std::vector<std::vector<float>>& values,
                       std::int64_t created) {
    std::string out = "{\"id\":";
    append_json_string(out, head.id);
    out += fmt::format(R"(,"object":"list","created":{},"model":)", created);
    append_json_string(out, head.model);
    out += ",\"data\":[";
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i > 0) out += ',';
        out += fmt::format(R"({{"index":{},"object":"score","score":)", i);
        append_json_number(out, values[i].front());
        out += '}';
    }
    return out + "]," + usage_json(head.prompt_tokens) + "}";
}

// The documents that are shown, best first; of equal scores the earlier document.
std::vector<std::size_t> best_first(const RerankRequest& request,
                                    const std::vector<std::vector<float>>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return values[a].front() > values[b].front();
    });
    if (request.top_n > 0) {
        order.resize(std::min(order.size(), static_cast<std::size_t>(request.top_n)));
    }
    return order;
}

}  // namespace

std::int64_t most_rerank_bytes(const RerankRequest& request) {
    std::int64_t bytes = kHeadBytes;
    const bool shows = request.form == RerankForm::rerank && request.return_documents;
    for (const std::string& document : request.documents) {
        bytes += kRowBytes;
        if (shows) bytes += kMostEscapeBytes * static_cast<std::int64_t>(document.size());
    }
    return bytes;
}

std::string rerank_json(const RerankRequest& request, const PooledAnswerHead& head,
                        const std::vector<std::vector<float>>& values, std::int64_t created) {
    if (request.form == RerankForm::score) return score_json(head, values, created);
    std::string out = "{\"id\":";
    append_json_string(out, head.id);
    out += ",\"model\":";
    append_json_string(out, head.model);
    out += "," + usage_json(head.prompt_tokens) + ",\"results\":[";
    bool first = true;
    for (const std::size_t index : best_first(request, values)) {
        if (!first) out += ',';
        first = false;
        out += fmt::format(R"({{"index":{})", index);
        if (request.return_documents) {
            out += R"(,"document":{"text":)";
            append_json_string(out, request.documents[index]);
            out += '}';
        }
        out += R"(,"relevance_score":)";
        append_json_number(out, values[index].front());
        out += '}';
    }
    return out + "]}";
}

}  // namespace helix::api
