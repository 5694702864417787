#include "api/answer_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>

#include "api/preparation.h"

namespace helix::api {
namespace {

constexpr const char* kKeyHeader = "idempotency-key";
constexpr const char* kPlaceHeader = "last-event-id";
constexpr std::size_t kMostKeyBytes = 255;
// Each part of a fingerprint.
constexpr std::size_t kPartDigits = 12;
// Each event says how far all choices are.
constexpr std::size_t kMostNumberedChoices = 32;
// No count that a client can have reached has more.
constexpr std::size_t kMostCountDigits = 15;

base::Hash128 hash_of(std::string_view text) {
    return base::hash128(std::as_bytes(std::span(text)));
}

// Texts in a row, of which no two rows are equal.
void append_text(std::string& row, std::string_view text) {
    row += fmt::format("{}:", text.size());
    row += text;
}

const std::string* find_header(const net::HttpRequest& request, std::string_view name) {
    for (const auto& [key, value] : request.headers) {
        if (key == name) return &value;
    }
    return nullptr;
}

bool is_part(std::string_view text) {
    return text.size() == kPartDigits &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// What makes a model's tokens, and the text and parts that are read out of them.
std::string model_part(const ModelEntry& model) {
    const ModelInfo& info = model.info;
    std::string row;
    append_text(row, info.content_hash);
    if (info.content_hash.empty()) {
        for (const std::string& text : {info.name, info.architecture, info.quantization}) {
            append_text(row, text);
        }
        row +=
            fmt::format("{},{},{},{};", info.n_params, info.size_bytes, info.hidden, info.n_layers);
    }
    row += fmt::format("{};", info.context_length);
    append_text(row, info.kv_type);
    append_text(row, model.codec->chat_template());
    const text::AnswerFormat reads = model.codec->answer_format();
    append_text(row, reads.tools != nullptr ? reads.tools->name : std::string_view());
    append_text(row, reads.reasoning != nullptr ? reads.reasoning->name : std::string_view());
    return base::to_hex(hash_of(row));
}

// The prompts are hashed, too: a template may put the date into them.
std::string request_part(const AnswerKey& key, const base::Hash128& body,
                         const PreparedCompletion& prepared) {
    std::string row;
    append_text(row, key.key);
    row += fmt::format("{};{};", static_cast<int>(prepared.request.endpoint), base::to_hex(body));
    for (const std::vector<Token>& prompt : prepared.prompts) {
        row += base::to_hex(base::hash128(std::as_bytes(std::span(prompt)))) + ";";
    }
    return base::to_hex(hash_of(row));
}

bool has_events(const CompletionRequest& request) {
    const bool lines =
        request.endpoint == Endpoint::ollama_chat || request.endpoint == Endpoint::ollama_generate;
    return request.stream && !lines;
}

ApiError cannot_go_on(std::string message) {
    return bad_field("Last-Event-ID", "Last-Event-ID: " + std::move(message));
}

std::optional<ApiError> check_place(const StreamPlace& place, const std::string& model,
                                    const std::string& request, std::size_t choices) {
    const bool same_model = place.model == model;
    const bool same_request = place.request == request;
    if (same_model && same_request) {
        if (place.events.size() == choices) return {};
        return cannot_go_on(fmt::format("it counts the events of {} choices, and there are {}",
                                        place.events.size(), choices));
    }
    std::string message = "Last-Event-ID is of a stream ";
    if (!same_request) {
        message +=
            "of another request: to go on, the Idempotency-Key, the path, the body and the prompt "
            "that is made of it have to be the same, byte by byte";
    }
    if (!same_model) {
        message += same_request ? "" : ", and ";
        message +=
            "of another model: the one that is served here has another content, context length, "
            "KV type, chat template or tool parser";
    }
    return ApiError{409,
                    message + ". Ask without Last-Event-ID for an answer from its beginning.",
                    "invalid_request_error",
                    "Last-Event-ID",
                    same_model ? "another_request" : "another_model",
                    0};
}

}  // namespace

std::optional<StreamPlace> parse_stream_place(std::string_view text) {
    const std::size_t dot = text.find('.');
    const std::size_t dash = text.find('-');
    if (dot == std::string_view::npos || dash == std::string_view::npos || dash < dot) return {};
    StreamPlace place;
    place.model = text.substr(0, dot);
    place.request = text.substr(dot + 1, dash - dot - 1);
    if (!is_part(place.model) || !is_part(place.request)) return {};
    std::string_view counts = text.substr(dash + 1);
    while (true) {
        const std::string_view count = counts.substr(0, counts.find('.'));
        if (count.empty() || count.size() > kMostCountDigits) return {};
        std::int64_t events = 0;
        const auto read = std::from_chars(count.data(), count.data() + count.size(), events);
        if (read.ec != std::errc() || read.ptr != count.data() + count.size() || events < 0) {
            return {};
        }
        place.events.push_back(events);
        if (count.size() == counts.size()) return place;
        counts.remove_prefix(count.size() + 1);
    }
}

std::optional<ApiError> read_answer_key(const net::HttpRequest& request, AnswerKey& key) {
    const std::string* text = find_header(request, kKeyHeader);
    if (text == nullptr) return {};
    const bool printable =
        std::ranges::all_of(*text, [](char c) { return c >= 0x20 && c <= 0x7E; });
    if (text->empty() || text->size() > kMostKeyBytes || !printable) {
        return bad_field("Idempotency-Key",
                         fmt::format("Idempotency-Key: expected 1 to {} printable ASCII characters",
                                     kMostKeyBytes));
    }
    key.key = *text;
    const std::string* place = find_header(request, kPlaceHeader);
    if (place == nullptr) return {};
    key.place = parse_stream_place(*place);
    if (key.place) return {};
    return cannot_go_on(
        "expected the id of an event of a stream that this request has had, like "
        "\"0123456789ab.0123456789ab-7\"");
}

std::optional<ApiError> apply_answer_key(const AnswerKey& key, const base::Hash128& body,
                                         PreparedCompletion& prepared) {
    const CompletionRequest& request = prepared.request;
    const std::string asked = request_part(key, body, prepared);
    KeyedAnswer keyed;
    keyed.seed = hash_of("seed of " + key.key).low;
    keyed.id = hash_of("id of " + asked).low;
    const std::size_t choices = prepared.prompts.size() * static_cast<std::size_t>(request.made());
    const bool numbered = has_events(request) && choices <= kMostNumberedChoices;
    if (key.place && !has_events(request)) {
        return cannot_go_on("this answer is no stream of events, so there is none to go on from");
    }
    if (key.place && !numbered) {
        return cannot_go_on(
            fmt::format("the events of more than {} choices have no ids", kMostNumberedChoices));
    }
    if (numbered) {
        const std::string model = model_part(*prepared.model).substr(0, kPartDigits);
        const std::string part = asked.substr(0, kPartDigits);
        keyed.fingerprint = model + "." + part;
        if (key.place) {
            if (auto error = check_place(*key.place, model, part, choices)) return error;
            keyed.had = key.place->events;
        }
    }
    prepared.keyed = std::move(keyed);
    return {};
}

}  // namespace helix::api
