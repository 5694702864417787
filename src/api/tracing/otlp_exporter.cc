#include "api/tracing/otlp_exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/backoff.h"
#include "base/log.h"
#include "net/http_client.h"
#include "net/http_message.h"
#include "net/http_text.h"

namespace helix::api {
namespace {

using OtlpClock = std::chrono::steady_clock;

constexpr std::uint64_t kMostAnswerBytes = std::uint64_t{64} << 10U;
constexpr base::Duration kStopLook = base::from_ms(50);  // between two looks, during a call

base::TimePoint otlp_time(OtlpClock::time_point time) {
    return {std::chrono::nanoseconds(time.time_since_epoch()).count()};
}
OtlpClock::time_point clock_time(base::TimePoint time) {
    return OtlpClock::time_point(std::chrono::nanoseconds(time.ns));
}
base::TimePoint otlp_now() {
    return otlp_time(OtlpClock::now());
}

bool may_send_again(int status) {
    return status == 429 || status == 502 || status == 503 || status == 504;
}

// Seconds of a Retry-After; nothing where it is a date.
std::optional<base::Duration> parse_retry_after(std::string_view text) {
    std::int32_t seconds = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || seconds < 0) return {};
    return base::from_seconds(seconds);
}

// Spans that the collector took the request without: {"partialSuccess":{"rejectedSpans":"2"}}.
std::uint64_t rejected_spans(const std::string& answer) {
    const auto body = nlohmann::json::parse(answer, nullptr, false);
    if (!body.is_object()) return 0;
    const auto partial = body.find("partialSuccess");
    if (partial == body.end() || !partial->is_object()) return 0;
    const auto rejected = partial->find("rejectedSpans");
    if (rejected == partial->end()) return 0;
    if (rejected->is_number_unsigned()) return rejected->get<std::uint64_t>();
    std::uint64_t count = 0;
    if (const auto* text = rejected->get_ptr<const std::string*>()) {
        std::from_chars(text->data(), text->data() + text->size(), count);
    }
    return count;
}

// What came of one POST.
struct PostOutcome {
    int status = 0;  // 0: no answer
    std::string problem;
    std::uint64_t rejected = 0;
    std::optional<base::Duration> pause = {};  // that the collector wants
    bool cut_short = false;                    // the time of stop() was over
};

}  // namespace

struct OtlpExporter::Impl {
    explicit Impl(OtlpOptions given) : options(std::move(given)) {}

    void run();
    std::vector<Span> next_batch();
    void send(const std::vector<Span>& spans);
    PostOutcome post(const std::string& body);
    void wait_for_collector(base::TimePoint until);
    void taken(std::uint64_t spans, std::uint64_t rejected);
    void refused(std::uint64_t spans, const std::string& problem);
    void tell_trouble(const std::string& problem);
    bool time_is_over() const { return otlp_now().ns >= stop_at.load(); }

    OtlpOptions options;
    net::HttpTarget target;
    std::atomic<std::uint64_t> exported{0};
    std::atomic<std::uint64_t> dropped{0};
    std::atomic<std::int64_t> stop_at{std::numeric_limits<std::int64_t>::max()};

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::vector<Span>> queue;  // a request's spans each
    std::size_t queued_spans = 0;
    base::TimePoint oldest;  // when the first of them came
    bool stopping = false;

    // ---- the thread's own
    std::unique_ptr<net::HttpClient> client;  // null before the first call
    bool in_trouble = false;
    std::thread thread;
};

// Waits until there is a batch; empty: stopping, and nothing is left.
std::vector<Span> OtlpExporter::Impl::next_batch() {
    std::vector<Span> batch;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stopping || !queue.empty(); });
    changed.wait_until(lock, clock_time(oldest + options.delay),
                       [&] { return stopping || queued_spans >= options.max_batch_spans; });
    while (!queue.empty() && batch.size() < options.max_batch_spans) {
        std::move(queue.front().begin(), queue.front().end(), std::back_inserter(batch));
        queue.pop_front();
    }
    queued_spans -= batch.size();
    oldest = otlp_now();
    return batch;
}

void OtlpExporter::Impl::run() {
    while (true) {
        const std::vector<Span> batch = next_batch();
        if (batch.empty()) return;
        send(batch);
    }
}

void OtlpExporter::Impl::send(const std::vector<Span>& spans) {
    const std::string body = otlp_json(spans, options.program_version);
    const base::TimePoint give_up = otlp_now() + options.give_up_after;
    base::Backoff again;
    while (true) {
        if (time_is_over()) return refused(spans.size(), "the server stops");
        const PostOutcome outcome = post(body);
        if (outcome.status >= 200 && outcome.status < 300) {
            return taken(spans.size(), outcome.rejected);
        }
        const bool may = outcome.status == 0 || may_send_again(outcome.status);
        again.failed(otlp_now(), options.first_pause, options.longest_pause);
        const base::TimePoint next =
            outcome.pause ? std::max(again.next(), otlp_now() + *outcome.pause) : again.next();
        if (!may || outcome.cut_short || next > give_up) {
            return refused(spans.size(), outcome.problem);
        }
        tell_trouble(outcome.problem);
        wait_for_collector(next);
    }
}

// Ends before if the time of stop() is over.
void OtlpExporter::Impl::wait_for_collector(base::TimePoint until) {
    std::unique_lock lock(mutex);
    while (otlp_now() < until && !time_is_over()) {
        const base::TimePoint end = std::min(until, base::TimePoint{stop_at.load()});
        changed.wait_until(lock, clock_time(end));
    }
}

PostOutcome OtlpExporter::Impl::post(const std::string& body) {
    PostOutcome outcome;
    if (client == nullptr) {
        auto made = net::HttpClient::create(target);
        if (!made.ok()) {
            outcome.problem = made.error().message;
            return outcome;
        }
        client = std::move(made).value();
    }
    bool over = false;
    std::string answer;
    net::HttpCall call;
    call.method = "POST";
    call.path = "/v1/traces";
    call.body = body;
    call.most_body_bytes = kMostAnswerBytes;
    call.limit = std::chrono::milliseconds(options.call_limit.ns / 1'000'000);
    call.on_head = [&](int status) { outcome.status = status; };
    call.on_header = [&](std::string_view name, std::string_view value) {
        if (net::lower(name) == "retry-after") outcome.pause = parse_retry_after(value);
    };
    call.on_body = [&](std::string_view bytes) { answer += bytes; };
    call.on_end = [&](const base::Status& end) {
        over = true;
        if (!end.ok()) {
            outcome.status = 0;
            outcome.problem = end.error().message;
        }
        client->stop_running();
    };
    client->start(std::move(call));
    while (!over && !time_is_over()) client->run_until(clock_time(otlp_now() + kStopLook));
    if (!over) {
        client.reset();  // ends the call, which refers to what is here
        return {0, "it does not answer", 0, {}, true};
    }
    if (outcome.status >= 300) {
        outcome.problem =
            fmt::format("it answered {} {}", outcome.status, net::status_text(outcome.status));
    } else if (outcome.status > 0) {
        outcome.rejected = rejected_spans(answer);
    }
    return outcome;
}

void OtlpExporter::Impl::taken(std::uint64_t spans, std::uint64_t rejected) {
    rejected = std::min(rejected, spans);
    exported += spans - rejected;
    dropped += rejected;
    if (std::exchange(in_trouble, false)) {
        LOG_INFO("--otlp-endpoint {}: it takes traces again", options.endpoint);
    }
}

void OtlpExporter::Impl::refused(std::uint64_t spans, const std::string& problem) {
    dropped += spans;
    tell_trouble(problem);
}

void OtlpExporter::Impl::tell_trouble(const std::string& problem) {
    if (std::exchange(in_trouble, true)) return;
    LOG_WARN("--otlp-endpoint {}: {} (/metrics counts the spans that are lost until that is over)",
             options.endpoint, problem);
}

base::Result<std::unique_ptr<OtlpExporter>> OtlpExporter::create(OtlpOptions options) {
    auto target = net::parse_http_url(options.endpoint);
    if (!target.ok()) return target.error();
    auto impl = std::make_unique<Impl>(std::move(options));
    impl->target = std::move(target).value();
    impl->thread = std::thread([raw = impl.get()] { raw->run(); });
    return std::unique_ptr<OtlpExporter>(new OtlpExporter(std::move(impl)));
}

OtlpExporter::OtlpExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

OtlpExporter::~OtlpExporter() {
    stop({});
}

void OtlpExporter::add(std::vector<Span> spans) {
    if (spans.empty()) return;
    {
        const std::lock_guard lock(impl_->mutex);
        const std::size_t more = impl_->queued_spans + spans.size();
        if (impl_->stopping || more > impl_->options.max_queued_spans) {
            impl_->dropped += spans.size();
            return;
        }
        if (impl_->queue.empty()) impl_->oldest = otlp_now();
        impl_->queued_spans = more;
        impl_->queue.push_back(std::move(spans));
    }
    impl_->changed.notify_one();
}

OtlpCounts OtlpExporter::counts() const {
    return {impl_->exported.load(), impl_->dropped.load()};
}

void OtlpExporter::stop(base::Duration grace) {
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->stopping = true;
        impl_->stop_at = (otlp_now() + grace).ns;
    }
    impl_->changed.notify_all();
    if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace helix::api
