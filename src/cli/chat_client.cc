#include "cli/chat_client.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/escape.h"
#include "net/sse.h"
#include "spec/bounded_json.h"

namespace helix::cli {
namespace {

constexpr std::chrono::milliseconds kStopsWithin{100};
constexpr std::size_t kMostErrorBytes = 1U << 16U;

// An answer as it comes, event by event.
class AnswerReader {
  public:
    AnswerReader(const ChatEvents& events, std::chrono::steady_clock::time_point asked)
        : events_(events), asked_(asked) {}

    void status(int status) { status_ = status; }
    void bytes(std::string_view bytes) {
        if (status_ / 100 == 2) return parser_.push(bytes);
        if (error_body_.size() < kMostErrorBytes) error_body_ += bytes;
    }
    void ended(base::Status status) {
        end_ = std::move(status);
        over_ = true;
    }
    bool over() const { return over_; }

    // stopped: by us, so that it has no end.
    base::Result<ChatAnswer> answer(const std::string& url, bool stopped) {
        if (status_ != 0 && status_ / 100 != 2) {
            std::string message =
                ServerClient::error_message(spec::bounded_json_or_discarded(error_body_));
            if (message.empty()) message = fmt::format("answered with {}", status_);
            if (status_ == 401) message += " Give a key with --api-key or HELIX_API_KEY.";
            return base::invalid(fmt::format("{}: {}", url, base::escaped(message)));
        }
        if (!failed_.empty()) {
            return base::invalid(fmt::format("{}: {}", url, base::escaped(failed_)));
        }
        if (!stopped && !end_.ok()) {
            return base::Error{end_.error().code, fmt::format("{}: {}", url, end_.error().message)};
        }
        if (!stopped && !done_) {
            return base::Error{base::Errc::io, url + ": the answer broke off"};
        }
        const double answer_s = std::chrono::duration<double>(last_ - first_).count();
        if (answer_.answer_tokens > 1 && answer_s > 0) {
            answer_.tokens_per_s = static_cast<double>(answer_.answer_tokens - 1) / answer_s;
        }
        return std::move(answer_);
    }

  private:
    void event(std::string_view data) {
        if (data == "[DONE]") {
            done_ = true;
            return;
        }
        const nlohmann::json said = spec::bounded_json_or_discarded(data);
        if (!said.is_object()) return;
        if (const std::string message = ServerClient::error_message(said); !message.empty())
            failed_ = message;
        usage(said);
        const nlohmann::json::json_pointer choice("/choices/0");
        if (!said.contains(choice) || !said[choice].is_object()) return;
        const nlohmann::json& one = said[choice];
        if (one.contains("delta") && one["delta"].is_object()) delta(one["delta"]);
        if (one.contains("finish_reason") && one["finish_reason"].is_string()) {
            answer_.finish_reason = one["finish_reason"].get<std::string>();
        }
    }

    void delta(const nlohmann::json& delta) {
        const auto text = [&delta](const char* name) {
            const auto found = delta.find(name);
            return found != delta.end() && found->is_string() ? found->get<std::string>()
                                                              : std::string();
        };
        const std::string content = text("content");
        const std::string reasoning = text("reasoning_content");
        if (content.empty() && reasoning.empty()) return;
        last_ = std::chrono::steady_clock::now();
        if (first_ == std::chrono::steady_clock::time_point{}) {
            first_ = last_;
            answer_.ttft_s = std::chrono::duration<double>(first_ - asked_).count();
        }
        answer_.content += content;
        answer_.reasoning += reasoning;
        if (!reasoning.empty() && events_.on_reasoning) events_.on_reasoning(reasoning);
        if (!content.empty() && events_.on_content) events_.on_content(content);
    }

    void usage(const nlohmann::json& said) {
        const auto found = said.find("usage");
        if (found == said.end() || !found->is_object()) return;
        const auto number = [&](const char* name) {
            const auto value = found->find(name);
            return value != found->end() && value->is_number_integer() ? value->get<std::int64_t>()
                                                                       : 0;
        };
        answer_.prompt_tokens = number("prompt_tokens");
        answer_.answer_tokens = number("completion_tokens");
    }

    const ChatEvents& events_;
    std::chrono::steady_clock::time_point asked_;
    std::chrono::steady_clock::time_point first_;
    std::chrono::steady_clock::time_point last_;
    net::SseParser parser_{[this](std::string_view data) { event(data); }};
    int status_ = 0;
    std::string error_body_;
    std::string failed_;  // what an event said
    base::Status end_ = base::Ok{};
    bool over_ = false;
    bool done_ = false;
    ChatAnswer answer_;
};

}  // namespace

std::string Conversation::body(const std::string& question) const {
    nlohmann::json messages = nlohmann::json::array();
    const auto add = [&messages](const char* role, const std::string& content) {
        messages.push_back({{"role", role}, {"content", content}});
    };
    if (!settings_.system.empty()) add("system", settings_.system);
    for (const Turn& turn : turns_) add(turn.role, turn.content);
    add("user", question);
    nlohmann::json body = {{"messages", std::move(messages)},
                           {"stream", true},
                           {"stream_options", {{"include_usage", true}}}};
    if (!settings_.model.empty()) body["model"] = settings_.model;
    if (settings_.temperature) body["temperature"] = *settings_.temperature;
    if (settings_.top_p) body["top_p"] = *settings_.top_p;
    if (settings_.seed) body["seed"] = *settings_.seed;
    if (settings_.max_tokens > 0) body["max_tokens"] = settings_.max_tokens;
    // What a terminal gave need not be UTF-8.
    return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

base::Result<ChatAnswer> Conversation::ask(const std::string& question, const ChatEvents& events) {
    // A connection for each answer: that it closes is how a server learns that nobody waits.
    TRY(ServerClient server, ServerClient::connect(server_));
    AnswerReader reader(events, std::chrono::steady_clock::now());
    net::HttpCall call;
    call.method = "POST";
    call.path = "/v1/chat/completions";
    call.headers = server.headers();
    call.body = body(question);
    call.on_head = [&reader](int status) { reader.status(status); };
    call.on_body = [&reader](std::string_view bytes) { reader.bytes(bytes); };
    call.on_end = [&reader, &server](const base::Status& status) {
        reader.ended(status);
        server.http().stop_running();
    };
    server.http().start(std::move(call));
    bool stopped = false;
    while (!reader.over() && !stopped) {
        server.http().run_until(std::chrono::steady_clock::now() + kStopsWithin);
        stopped = !reader.over() && events.stops && events.stops();
    }
    TRY(ChatAnswer answer, reader.answer(server.url(), stopped));
    turns_.push_back({"user", question});
    turns_.push_back({"assistant", answer.content});
    return answer;
}

}  // namespace helix::cli
