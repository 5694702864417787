#include "lab/load/api_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "net/sse.h"
#include "spec/bounded_json.h"

namespace helix::lab {
namespace {

using base::Errc;
using base::Error;
using net::HttpCall;
using Json = nlohmann::json;

// Everyday words: most vocabularies have them whole, with the space before them.
constexpr std::string_view kText =
    "the people went to the river in the morning and they said that it was good to see the water "
    "there because all of them had come from a long way over the hills with their friends and now "
    "they could have time for work or play on the green land under the sun until the night came";
constexpr std::array<std::string_view, 24> kWords = {
    "the", "a",   "of", "to", "in", "it", "and", "was", "he", "she", "on",   "at",
    "we",  "you", "is", "I",  "b",  "c",  "d",   "e",   "x",  "up",  "time", "day"};
constexpr std::size_t kEnoughWords = 8;
// Ids of ordinary tokens in vocabularies that we know nothing of.
constexpr std::int32_t kFirstBlindId = 300;
constexpr std::int32_t kBlindIds = 600;

const Json* find(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

std::int32_t integer_or_zero(const Json& object, const char* key) {
    const Json* value = find(object, key);
    return value != nullptr && value->is_number_integer() ? value->get<std::int32_t>() : 0;
}

std::string shorten(std::string text) {
    constexpr std::size_t kShown = 400;
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    return text;
}

// The message of an error body, or the body.
std::string error_text(const std::string& body) {
    const Json parsed = spec::bounded_json_or_discarded(body);
    const Json* error = find(parsed, "error");
    if (error == nullptr) error = find(parsed, "detail");
    if (error != nullptr && error->is_string()) return shorten(error->get<std::string>());
    const Json* message = error == nullptr ? nullptr : find(*error, "message");
    if (message != nullptr && message->is_string()) return shorten(message->get<std::string>());
    return shorten(body);
}

const char* kind_of(const Error& error) {
    switch (error.code) {
        case Errc::unavailable:
            return "connect";
        case Errc::overloaded:
            return "timeout";
        default:
            return "cut off";
    }
}

// One streamed answer while it comes.
class Stream {
  public:
    explicit Stream(StreamEvents events)
        : events_(std::move(events)), parser_([this](std::string_view data) { on_event(data); }) {}

    void on_head(int status) { status_ = status; }
    void on_body(std::string_view bytes) {
        if (status_ == 200) {
            parser_.push(bytes);
        } else if (body_.size() < (std::size_t{64} << 10U)) {
            body_ += bytes;
        }
    }
    void on_end(const base::Status& status) {
        const auto at = StreamEvents::Clock::now();
        if (failure_) {
            // The server said itself what went wrong.
        } else if (!status.ok()) {
            failure_ = StreamFailure{kind_of(status.error()), status.error().message};
        } else if (status_ != 200) {
            failure_ = StreamFailure{fmt::format("http {}", status_), error_text(body_)};
        } else if (!done_) {
            failure_ = StreamFailure{"cut off", "the stream ended without [DONE]"};
        }
        events_.on_end(at, prompt_tokens_, failure_);
    }

  private:
    void on_event(std::string_view data) {
        if (data == "[DONE]") {
            done_ = true;
            return;
        }
        const Json event = spec::bounded_json_or_discarded(data);
        if (find(event, "error") != nullptr) {
            failure_ = StreamFailure{"stream error", error_text(std::string(data))};
            return;
        }
        std::int32_t tokens = tokens_;
        const Json* usage = find(event, "usage");
        if (usage != nullptr && usage->is_object()) {
            prompt_tokens_ = integer_or_zero(*usage, "prompt_tokens");
            tokens = std::max(tokens, integer_or_zero(*usage, "completion_tokens"));
        } else if (has_text(event)) {
            ++tokens;  // a server that counts only at the end: one token a chunk
        }
        if (tokens == tokens_) return;
        tokens_ = tokens;
        events_.on_tokens(StreamEvents::Clock::now(), tokens);
    }
    static bool has_text(const Json& event) {
        const Json* choices = find(event, "choices");
        if (choices == nullptr || !choices->is_array() || choices->empty()) return false;
        const Json* delta = find(choices->front(), "delta");
        const Json* text = delta != nullptr ? find(*delta, "content") : nullptr;
        if (text == nullptr) text = find(choices->front(), "text");
        return text != nullptr && text->is_string() && !text->get_ref<const std::string&>().empty();
    }

    StreamEvents events_;
    net::SseParser parser_;
    int status_ = 0;
    std::string body_;
    std::int32_t tokens_ = 0;
    std::int32_t prompt_tokens_ = 0;
    bool done_ = false;
    std::optional<StreamFailure> failure_;
};

}  // namespace

ApiClient::ApiClient(const ApiTarget& target, std::unique_ptr<net::HttpClient> http)
    : target_(target), http_(std::move(http)) {}

base::Result<std::unique_ptr<ApiClient>> ApiClient::connect(const ApiTarget& target) {
    TRY(net::HttpTarget place, net::parse_http_url(target.url));
    if (place.prefix.ends_with("/v1")) place.prefix.resize(place.prefix.size() - 3);
    TRY(auto http, net::HttpClient::create(std::move(place)));
    std::unique_ptr<ApiClient> client(new ApiClient(target, std::move(http)));
    TRY_VOID(client->choose_model());
    if (target.endpoint == LoadEndpoint::chat) {
        TRY_VOID(client->choose_words());
    } else {
        TRY_VOID(client->choose_ids());
    }
    TRY_VOID(client->check_exact());
    return client;
}

HttpCall ApiClient::call(std::string method, std::string path, std::string body) const {
    HttpCall call;
    call.method = std::move(method);
    call.path = std::move(path);
    call.body = std::move(body);
    call.limit = target_.limit;
    if (!target_.api_key.empty()) {
        call.headers.emplace_back("authorization", "Bearer " + target_.api_key);
    }
    return call;
}

// The body of a 200; anything else as an error that says who was asked for what.
base::Result<std::string> ApiClient::ask(std::string method, std::string path, std::string body) {
    const std::string asked = method + " " + path;
    const auto answer = net::http_call(*http_, call(std::move(method), path, std::move(body)));
    if (!answer.ok()) {
        return Error{answer.error().code,
                     fmt::format("{}: no answer to {} ({}); is a server running there?",
                                 target_.url, asked, answer.error().message)};
    }
    if (answer->status == 200) return answer->body;
    std::string hint;
    if (answer->status == 401) hint = " (give the key with --api-key)";
    return Error{answer->status == 404 ? Errc::not_found : Errc::unavailable,
                 fmt::format("{}: {} was answered with {}: {}{}", target_.url, asked,
                             answer->status, error_text(answer->body), hint)};
}

base::Status ApiClient::choose_model() {
    TRY(const std::string body, ask("GET", "/v1/models", ""));
    const Json parsed = spec::bounded_json_or_discarded(body);
    const Json* data = find(parsed, "data");
    if (data == nullptr || !data->is_array() || data->empty()) {
        return base::invalid(
            fmt::format("{}: GET /v1/models names no model: {}", target_.url, shorten(body)));
    }
    const Json* chosen = nullptr;
    std::string known;
    for (const Json& model : *data) {
        const Json* id = find(model, "id");
        if (id == nullptr || !id->is_string()) continue;
        known += (known.empty() ? "" : ", ") + id->get<std::string>();
        if (chosen == nullptr && (target_.model.empty() || *id == target_.model)) chosen = &model;
    }
    if (chosen == nullptr) {
        return base::invalid(fmt::format("--served-model: {} serves no '{}'; it serves {}",
                                         target_.url, target_.model, known));
    }
    model_ = chosen->at("id").get<std::string>();
    context_length_ = integer_or_zero(*chosen, "max_model_len");
    if (const Json* meta = find(*chosen, "meta")) {
        vocab_size_ = integer_or_zero(*meta, "n_vocab");
        hidden_size_ = integer_or_zero(*meta, "n_embd");
    }
    return base::Ok{};
}

std::vector<std::int32_t> ApiClient::tokenize(const std::string& body) {
    std::vector<std::int32_t> ids;
    const auto answer = ask("POST", "/tokenize", body);
    if (!answer.ok()) return ids;
    const Json parsed = spec::bounded_json_or_discarded(*answer);
    const Json* tokens = find(parsed, "tokens");
    if (tokens == nullptr || !tokens->is_array()) return ids;
    for (const Json& token : *tokens) {
        if (token.is_number_integer()) ids.push_back(token.get<std::int32_t>());
    }
    return ids;
}

// vLLM calls the text "prompt", llama-server "content"; Helix takes either.
base::Status ApiClient::choose_ids() {
    const Json question = {{"model", model_}, {"prompt", kText}, {"add_special_tokens", false}};
    ids_ = tokenize(question.dump());
    if (ids_.empty()) ids_ = tokenize(Json{{"content", kText}, {"add_special", false}}.dump());
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    if (!ids_.empty()) return base::Ok{};
    // No such /tokenize here: any ids do, as long as the vocabulary has them.
    const std::int32_t last = vocab_size_ > 0 ? vocab_size_ : kFirstBlindId + kBlindIds;
    const std::int32_t first = std::min(kFirstBlindId, last / 2);
    for (std::int32_t id = first; id < std::min(last, first + kBlindIds); ++id) ids_.push_back(id);
    return base::Ok{};
}

// usage.prompt_tokens of this prompt.
base::Result<std::int32_t> ApiClient::count_prompt(const std::string& prompt_field) {
    const bool chat = target_.endpoint == LoadEndpoint::chat;
    TRY(const std::string body,
        ask("POST", chat ? "/v1/chat/completions" : "/v1/completions",
            fmt::format("{{\"model\":{},\"max_tokens\":1,\"temperature\":0,{}}}",
                        Json(model_).dump(), prompt_field)));
    const Json parsed = spec::bounded_json_or_discarded(body);
    const Json* usage = find(parsed, "usage");
    const std::int32_t count = usage == nullptr ? 0 : integer_or_zero(*usage, "prompt_tokens");
    if (count > 0) return count;
    return base::invalid(
        fmt::format("{}: the answer has no usage.prompt_tokens: {}", target_.url, shorten(body)));
}

// Words that are one token each, and the tokens that a chat has without any.
base::Status ApiClient::choose_words() {
    constexpr std::int32_t kFew = 4;
    constexpr std::int32_t kMore = 20;
    for (const std::string_view word : kWords) {
        if (words_.size() == kEnoughWords) break;
        const std::vector<std::string> before = std::exchange(words_, {std::string(word)});
        const std::int32_t own_before = std::exchange(own_tokens_, 0);
        TRY(const std::int32_t few, count_prompt(prompt_field(0, kFew)));
        TRY(const std::int32_t more, count_prompt(prompt_field(0, kMore)));
        const std::int32_t own = few - kFew;
        const bool fits = more - few == kMore - kFew && own >= 0;
        words_ = before;
        own_tokens_ = before.empty() && fits ? own : own_before;
        if (fits && own == own_tokens_) words_.emplace_back(word);
    }
    if (!words_.empty()) return base::Ok{};
    return base::invalid(fmt::format(
        "{}: no word of ours is one token of {}, so chats of an exact length cannot be written; "
        "use --endpoint completions",
        target_.url, model_));
}

base::Status ApiClient::check_exact() {
    const std::int32_t wanted = own_tokens_ + 24;
    TRY(const std::int32_t counted, count_prompt(prompt_field(1, wanted)));
    if (counted == wanted) return base::Ok{};
    return base::invalid(
        fmt::format("{}: a prompt made of {} tokens was counted as {}; exact lengths need {}",
                    target_.url, wanted, counted,
                    target_.endpoint == LoadEndpoint::chat
                        ? "--endpoint completions here"
                        : "a server that takes token ids as a prompt (or --endpoint chat)"));
}

std::string ApiClient::prompt_field(std::uint64_t seed, std::int32_t prompt_tokens) const {
    base::Random random(base::hash_pair(seed, 0x70726f6d7074ULL));
    std::string text;
    if (target_.endpoint == LoadEndpoint::chat) {
        for (std::int32_t i = own_tokens_; i < prompt_tokens; ++i) {
            if (i > own_tokens_) text += ' ';
            text += words_[random.below(words_.size())];
        }
        return "\"messages\":[{\"role\":\"user\",\"content\":" + Json(text).dump() + "}]";
    }
    for (std::int32_t i = 0; i < prompt_tokens; ++i) {
        if (i > 0) text += ',';
        text += std::to_string(ids_[random.below(ids_.size())]);
    }
    return "\"prompt\":[" + text + "]";
}

void ApiClient::stream(std::uint64_t seed, std::int32_t prompt_tokens, std::int32_t output_tokens,
                       StreamEvents events) {
    const bool chat = target_.endpoint == LoadEndpoint::chat;
    HttpCall call = this->call(
        "POST", chat ? "/v1/chat/completions" : "/v1/completions",
        fmt::format("{{\"model\":{},\"stream\":true,\"stream_options\":{{\"include_usage\":true,"
                    "\"continuous_usage_stats\":true}},\"max_tokens\":{},\"min_tokens\":{},"
                    "\"ignore_eos\":true,\"temperature\":0,{}}}",
                    Json(model_).dump(), output_tokens, output_tokens,
                    prompt_field(seed, prompt_tokens)));
    const auto stream = std::make_shared<Stream>(std::move(events));
    call.on_head = [stream](int status) { stream->on_head(status); };
    call.on_body = [stream](std::string_view bytes) { stream->on_body(bytes); };
    call.on_end = [stream](const base::Status& status) { stream->on_end(status); };
    http_->start(std::move(call));
}

}  // namespace helix::lab
