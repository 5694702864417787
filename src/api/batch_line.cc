#include "api/batch_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "api/completion_request.h"
#include "api/field_reader.h"
#include "api/json_text.h"
#include "api/preparation.h"
#include "base/hash.h"

namespace helix::api {
namespace {

constexpr std::array<std::string_view, 3> kEndpoints = {"/v1/chat/completions", "/v1/completions",
                                                        "/v1/embeddings"};
constexpr std::size_t kMaxCustomId = 512;
// The priority in vLLM's field, where a lower number goes first. What a line brings orders the
// lines among themselves.
constexpr std::int64_t kBatchPriority = 1000;
constexpr BodyField kLinePriority{"priority", FieldShape::integer, 0,
                                  "",         -kBatchPriority,     kBatchPriority - 1};

base::Hash128 hash_of(std::string_view batch, std::string_view id) {
    std::string text(batch);
    text += '\0';
    text += id;
    return base::hash128(std::as_bytes(std::span(text)));
}

BatchProblem wrong(std::string code, std::string param, std::string message) {
    return {std::move(code), std::move(message), std::move(param), 0};
}

// Reads the head of a line and skips its body.
class HeadScanner final : public nlohmann::json_sax<nlohmann::json> {
  public:
    struct Field {
        std::string text;    // "" = absent, or null
        bool wrong = false;  // neither a string nor null
    };
    Field custom_id;
    Field method;
    Field url;
    Field model;  // of the body
    bool is_object = false;
    bool has_body = false;
    std::string error;  // of the JSON; "" = none

    bool null() override { return other(true); }
    bool boolean(bool) override { return other(); }
    bool number_integer(number_integer_t) override { return other(); }
    bool number_unsigned(number_unsigned_t) override { return other(); }
    bool number_float(number_float_t, const string_t&) override { return other(); }
    bool binary(binary_t&) override { return other(); }
    bool string(string_t& value) override {
        if (field_ != nullptr) field_->text = value;
        field_ = nullptr;
        begins_body_ = false;
        return true;
    }
    bool start_object(std::size_t) override {
        is_object = is_object || depth_ == 0;
        if (begins_body_) {
            has_body = true;
            in_body_ = true;
        }
        other();
        ++depth_;
        return true;
    }
    bool end_object() override {
        if (--depth_ == 1) in_body_ = false;
        return true;
    }
    bool start_array(std::size_t) override {
        other();
        ++depth_;
        return true;
    }
    bool end_array() override {
        --depth_;
        return true;
    }
    bool key(string_t& name) override {
        field_ = nullptr;
        begins_body_ = false;
        if (depth_ == 1 && is_object) {
            if (name == "custom_id") field_ = &custom_id;
            if (name == "method") field_ = &method;
            if (name == "url") field_ = &url;
            begins_body_ = name == "body";
            if (begins_body_) has_body = false;
            if (begins_body_) model = {};
        } else if (depth_ == 2 && in_body_ && name == "model") {
            field_ = &model;
        }
        if (field_ != nullptr) *field_ = {};
        return true;
    }
    bool parse_error(std::size_t, const std::string&,
                     const nlohmann::detail::exception& what) override {
        error = what.what();
        return false;
    }

  private:
    // Takes a value that is no string.
    bool other(bool is_null = false) {
        if (field_ != nullptr && !is_null) field_->wrong = true;
        field_ = nullptr;
        begins_body_ = false;
        return true;
    }

    std::int64_t depth_ = 0;
    Field* field_ = nullptr;    // the field of the name that was read last
    bool begins_body_ = false;  // that name is "body"
    bool in_body_ = false;
};

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

std::optional<BatchProblem> read_head(std::string_view text, std::string_view endpoint,
                                      LineHead& head) {
    HeadScanner scanner;
    nlohmann::json::sax_parse(text, &scanner);
    if (!scanner.error.empty() || !scanner.is_object) {
        return wrong("invalid_json_line", "",
                     fmt::format("This line is not a JSON object that can be read{}{:.300}",
                                 scanner.error.empty() ? "." : ": ", scanner.error));
    }
    for (const auto& [name, field] :
         {std::pair("custom_id", &scanner.custom_id), std::pair("method", &scanner.method),
          std::pair("url", &scanner.url), std::pair("body.model", &scanner.model)}) {
        if (!field->wrong) continue;
        return wrong("invalid_json_line", name, fmt::format("'{}': expected a string", name));
    }
    head.custom_id = scanner.custom_id.text;
    head.model = scanner.model.text;
    if (head.custom_id.empty()) {
        return wrong("missing_required_parameter", "custom_id",
                     "'custom_id' is missing: every line needs one of its own.");
    }
    if (head.custom_id.size() > kMaxCustomId) {
        return wrong("invalid_custom_id", "custom_id",
                     fmt::format("'custom_id' is longer than {} bytes.", kMaxCustomId));
    }
    if (scanner.method.text != "POST") {
        return wrong("invalid_method", "method",
                     fmt::format("'method' must be POST, got '{:.40}'.", scanner.method.text));
    }
    if (scanner.url.text != endpoint) {
        return wrong("mismatched_url", "url",
                     fmt::format("'url' must be the batch's endpoint {}, got '{:.100}'.", endpoint,
                                 scanner.url.text));
    }
    if (!scanner.has_body) {
        return wrong("missing_required_parameter", "body", "'body' must be a JSON object.");
    }
    return {};
}

std::optional<ApiError> read_line(std::string_view text, const RequestLimits& limits,
                                  LineRequest& request) {
    std::int64_t bytes = 0;
    if (auto error = measure_json(text, limits, bytes)) return error;
    nlohmann::ordered_json line;
    if (auto error = parse_json_object(text, line)) return error;
    request.body = std::move(line["body"]);
    return {};
}

std::optional<ApiError> prepare_line(std::string_view batch, LineRequest& request) {
    nlohmann::ordered_json& body = request.body;
    FieldReader fields(body);
    bool stream = false;
    std::int64_t priority = 0;
    fields.boolean(field::kStream, stream);
    fields.integer(kLinePriority, priority);
    if (fields.failed()) return fields.error();
    if (stream) return bad_field("stream", "'stream': the answers of a batch are not streamed");
    body["priority"] = kBatchPriority + priority;
    if (fields.find(field::kSeed) == nullptr) {
        // The seed has 53 bits, so that readers which only know floating point read it exactly.
        body["seed"] = hash_of(batch, request.head.custom_id).low >> 11U;
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
