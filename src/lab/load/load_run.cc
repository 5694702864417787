#include "lab/load/load_run.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/check.h"

namespace helix::lab {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

class LoadRun {
  public:
    LoadRun(ApiClient& client, const LoadPlan& plan, const std::atomic<bool>& interrupted)
        : client_(client), plan_(plan), interrupted_(interrupted), began_(Clock::now()) {}

    LoadResult run(const std::function<void(const LoadProgress&)>& on_progress) {
        constexpr double kTick_s = 0.2;
        double tick_s = kTick_s;
        send_due();
        while (!interrupted_ && (more_to_send() || open_ > 0)) {
            client_.http().run_until(began_ + std::chrono::duration_cast<Clock::duration>(
                                                  Seconds(std::min(tick_s, next_due_s()))));
            send_due();
            if (seconds_at(Clock::now()) < tick_s) continue;
            tick_s = seconds_at(Clock::now()) + kTick_s;
            on_progress(progress());
        }
        result_.seconds = seconds_at(Clock::now());
        result_.interrupted = interrupted_;
        *over_ = true;
        for (const auto& request : requests_) result_.requests.push_back(*request);
        for (RequestRecord& request : result_.requests) {
            if (request.end_s >= 0) continue;
            request.end_s = result_.seconds;
            request.failure = StreamFailure{"unfinished", "the run was interrupted"};
        }
        return std::move(result_);
    }

  private:
    double seconds_at(Clock::time_point at) const { return Seconds(at - began_).count(); }

    bool closed_loop() const { return plan_.concurrency > 0; }

    bool more_to_send() const {
        if (!closed_loop()) return requests_.size() < plan_.arrivals.size();
        return requests_.size() < plan_.count && seconds_at(Clock::now()) < plan_.duration_s;
    }

    double next_due_s() const {
        if (closed_loop() || !more_to_send()) return 1e9;
        return plan_.arrivals[requests_.size()].arrival_s;
    }

    void send_due() {
        if (closed_loop()) {
            while (open_ < static_cast<std::size_t>(plan_.concurrency) && more_to_send()) {
                LoadRequest next = plan_.lengths->draw(plan_.seed, requests_.size());
                next.arrival_s = seconds_at(Clock::now());
                send(next);
            }
            return;
        }
        while (more_to_send() && next_due_s() <= seconds_at(Clock::now())) {
            send(plan_.arrivals[requests_.size()]);
        }
    }

    void send(const LoadRequest& asked) {
        const auto number = static_cast<std::uint64_t>(requests_.size());
        requests_.push_back(std::make_shared<RequestRecord>());
        const std::shared_ptr<RequestRecord>& record = requests_.back();
        record->asked = asked;
        record->scheduled_s = asked.arrival_s;
        record->sent_s = seconds_at(Clock::now());
        ++open_;
        StreamEvents events;
        // An interrupted run leaves calls behind that outlive it.
        events.on_tokens = [this, record, over = over_](Clock::time_point at, std::int32_t tokens) {
            if (!*over) on_tokens(*record, seconds_at(at), tokens);
        };
        events.on_end = [this, record, over = over_](Clock::time_point at,
                                                     std::int32_t prompt_tokens,
                                                     const std::optional<StreamFailure>& failure) {
            if (!*over) on_end(*record, seconds_at(at), prompt_tokens, failure);
        };
        client_.stream(base::hash_pair(plan_.seed, number), asked.prompt_tokens,
                       asked.output_tokens, std::move(events));
    }

    void on_tokens(RequestRecord& record, double at_s, std::int32_t tokens) {
        const std::int32_t more = tokens - record.output_tokens;
        const bool first = record.first_s < 0;
        if (first) record.first_s = at_s;
        TokenArrival arrival;
        arrival.at_s = static_cast<float>(at_s);
        if (!first) arrival.gap_s = static_cast<float>((at_s - record.last_s) / more);
        for (std::int32_t i = 0; i < more; ++i) result_.tokens.push_back(arrival);
        record.output_tokens = tokens;
        record.last_s = at_s;
    }

    void on_end(RequestRecord& record, double at_s, std::int32_t prompt_tokens,
                const std::optional<StreamFailure>& failure) {
        record.end_s = at_s;
        record.prompt_tokens = prompt_tokens;
        record.failure = failure;
        if (failure) ++failed_;
        --open_;
        if (closed_loop() || open_ == 0) client_.http().stop_running();
    }

    LoadProgress progress() const {
        return {seconds_at(Clock::now()), requests_.size(), open_, failed_, result_.tokens.size()};
    }

    ApiClient& client_;
    const LoadPlan& plan_;
    const std::atomic<bool>& interrupted_;
    Clock::time_point began_;
    std::vector<std::shared_ptr<RequestRecord>> requests_;
    std::size_t open_ = 0;
    std::size_t failed_ = 0;
    std::shared_ptr<bool> over_ = std::make_shared<bool>(false);
    LoadResult result_;
};

}  // namespace

LoadResult run_load(ApiClient& client, const LoadPlan& plan, const std::atomic<bool>& interrupted,
                    const std::function<void(const LoadProgress&)>& on_progress) {
    CHECK(plan.concurrency == 0 || plan.lengths.has_value());
    return LoadRun(client, plan, interrupted).run(on_progress);
}

}  // namespace helix::lab
