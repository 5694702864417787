#include "api/batch_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "api/completion_request.h"
#include "api/field_reader.h"
#include "api/json_text.h"
#include "base/hash.h"

namespace helix::api {
namespace {

constexpr std::array<std::string_view, 2> kEndpoints = {"/v1/chat/completions", "/v1/completions"};
constexpr std::size_t kMaxCustomId = 512;
// vLLM's field, where less is sooner. What a line brings orders the lines among themselves.
constexpr std::int64_t kBatchPriority = 1000;

base::Hash128 hash_of(std::string_view batch, std::string_view id) {
    std::string text(batch);
    text += '\0';
    text += id;
    return base::hash128(std::as_bytes(std::span(text)));
}

BatchProblem wrong(std::string code, std::string param, std::string message) {
    return {std::move(code), std::move(message), std::move(param), 0};
}

std::string line_head(std::string_view batch, std::int64_t line, std::string_view custom_id) {
    std::string out = "{\"id\":\"batch_req_" + base::to_hex(hash_of(batch, std::to_string(line))) +
                      "\",\"custom_id\":";
    append_json_string(out, custom_id);
    return out;
}

}  // namespace

nlohmann::json to_json(const BatchProblem& problem) {
    nlohmann::json out = {{"code", problem.code}, {"message", problem.message}};
    out["param"] = problem.param.empty() ? nlohmann::json() : nlohmann::json(problem.param);
    out["line"] = problem.line == 0 ? nlohmann::json() : nlohmann::json(problem.line);
    return out;
}

bool is_batch_endpoint(std::string_view path) {
    return std::find(kEndpoints.begin(), kEndpoints.end(), path) != kEndpoints.end();
}

std::string list_batch_endpoints() {
    return fmt::format("{}", fmt::join(kEndpoints, ", "));
}

std::optional<BatchProblem> read_line(std::string_view text, std::string_view endpoint,
                                      LineRequest& request) {
    nlohmann::ordered_json line;
    if (const auto error = parse_json_object(text, line)) {
        return wrong("invalid_json_line", "",
                     "This line is not a JSON object that can be read: " + error->message);
    }
    FieldReader fields(line);
    std::string method;
    std::string url;
    fields.text("custom_id", request.custom_id);
    fields.text("method", method);
    fields.text("url", url);
    if (fields.failed()) {
        return wrong("invalid_json_line", fields.error()->param, fields.error()->message);
    }
    if (request.custom_id.empty()) {
        return wrong("missing_required_parameter", "custom_id",
                     "'custom_id' is missing: every line needs one of its own.");
    }
    if (request.custom_id.size() > kMaxCustomId) {
        return wrong("invalid_custom_id", "custom_id",
                     fmt::format("'custom_id' is longer than {} bytes.", kMaxCustomId));
    }
    if (method != "POST") {
        return wrong("invalid_method", "method",
                     fmt::format("'method' must be POST, got '{:.40}'.", method));
    }
    if (url != endpoint) {
        return wrong(
            "mismatched_url", "url",
            fmt::format("'url' must be the batch's endpoint {}, got '{:.100}'.", endpoint, url));
    }
    const auto* body = fields.find("body");
    if (body == nullptr || !body->is_object()) {
        return wrong("missing_required_parameter", "body", "'body' must be a JSON object.");
    }
    request.body = *body;
    request.model.clear();
    FieldReader inner(request.body, "body.");
    inner.text("model", request.model);
    if (inner.failed()) {
        return wrong("invalid_json_line", inner.error()->param, inner.error()->message);
    }
    return {};
}

std::optional<ApiError> prepare_line(std::string_view batch, LineRequest& request) {
    nlohmann::ordered_json& body = request.body;
    FieldReader fields(body);
    bool stream = false;
    std::int64_t priority = 0;
    fields.boolean("stream", stream);
    fields.integer("priority", -kBatchPriority, kBatchPriority - 1, priority);
    if (fields.failed()) return fields.error();
    if (stream) return bad_field("stream", "'stream': the answers of a batch are not streamed");
    body["priority"] = kBatchPriority + priority;
    if (fields.find("seed") == nullptr) {
        // 53 bits: whole also for readers that know only floating point.
        body["seed"] = hash_of(batch, request.custom_id).low >> 11U;
    }
    return {};
}

std::string answer_line(std::string_view batch, std::int64_t line, std::string_view custom_id,
                        int status, std::string_view request_id, std::string_view body) {
    std::string out = line_head(batch, line, custom_id);
    out += ",\"response\":{\"status_code\":" + std::to_string(status) + ",\"request_id\":";
    append_json_string(out, request_id);
    out += ",\"body\":";
    const std::size_t begin = out.size();
    out += body;
    // Between the tokens of JSON a line end is as good as a blank.
    std::replace(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), '\n', ' ');
    out += "},\"error\":null}";
    return out;
}

std::string not_run_line(std::string_view batch, std::int64_t line, std::string_view custom_id,
                         std::string_view code, std::string_view message) {
    std::string out = line_head(batch, line, custom_id) + ",\"response\":null,\"error\":{\"code\":";
    append_json_string(out, code);
    out += ",\"message\":";
    append_json_string(out, message);
    out += "}}";
    return out;
}

}  // namespace helix::api
