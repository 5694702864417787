#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "api/service.h"

namespace helix::api {

// A request that reached the service; the test plays the cluster by calling the sink.
struct FakeRequest {
    core::RequestId id;
    core::Request request;
    std::shared_ptr<TokenSink> sink;

    std::string prompt() const {
        std::string text;
        for (const core::Token token : request.prompt) text += static_cast<char>(token);
        return text;
    }
    void accept() { sink->on_accepted(); }
    void route(std::int32_t cached_tokens = 0, std::uint32_t attempt = 1,
               core::RouteReason reason = core::RouteReason::first) {
        sink->on_routed({id,
                         {{core::WorkerId{1}, {0, 2}}, {core::WorkerId{2}, {2, 4}}},
                         attempt,
                         cached_tokens,
                         reason});
    }
    void token(core::Token token, std::int32_t choice = 0, float logprob = -0.5F) {
        core::ProducedToken produced;
        produced.key.request = id;
        produced.token = token;
        produced.logprob = logprob;
        if (request.sampling.n_logprobs > 0) produced.top = {{token, -0.5F}, {'?', -1.25F}};
        sink->on_token(choice, produced);
    }
    // The prompt's log-probabilities: -1 for position 1, -2 for the next.
    void score() {
        std::vector<core::ProducedToken> tokens;
        for (std::size_t i = 1; i < request.prompt.size(); ++i) {
            const core::Token token = request.prompt[i];
            const auto position = static_cast<std::int32_t>(i);
            tokens.push_back({{id}, position, token, -static_cast<float>(i), {}});
            if (request.sampling.n_logprobs > 0) tokens.back().top = {{token, -0.25F}};
        }
        sink->on_scored(tokens);
    }
    // Says text, with a token for each byte.
    void say(std::string_view text, std::int32_t choice = 0, float logprob = -0.5F) {
        for (const char c : text) token(static_cast<unsigned char>(c), choice, logprob);
    }
    // Answers the prompt's embedding, which ends it.
    void embed(const std::vector<float>& values) {
        sink->on_embedding(values);
        finish(core::FinishReason::stop);
    }
    void finish_choice(std::int32_t choice, core::FinishReason reason) {
        sink->on_choice_finish(choice, reason);
    }
    void finish(core::FinishReason reason, const std::string& error = {}) {
        sink->on_finish(reason, error);
    }
};

class FakeService : public Service {
  public:
    core::RequestId submit(core::Request request, std::shared_ptr<TokenSink> sink) override {
        const std::lock_guard lock(mutex_);
        const core::RequestId id{++last_id_};
        if (reject_) {
            core::RejectRequest rejection = *reject_;
            rejection.id = id;
            sink->on_reject(rejection);
            return id;
        }
        waiting_.push_back({id, std::move(request), std::move(sink)});
        changed_.notify_all();
        return id;
    }
    void end(core::RequestId id, core::FinishReason reason) override {
        const std::lock_guard lock(mutex_);
        ended_[id.value] = reason;
        changed_.notify_all();
    }
    void end_choice(core::RequestId id, std::int32_t choice, core::FinishReason reason) override {
        const std::lock_guard lock(mutex_);
        ended_choices_[{id.value, choice}] = reason;
        changed_.notify_all();
    }
    void drain(const core::DrainWorker& event) override {
        const std::lock_guard lock(mutex_);
        drains_.push_back(event);
    }
    std::vector<core::DrainWorker> drains() {
        const std::lock_guard lock(mutex_);
        return drains_;
    }
    base::Status place(const std::map<std::string, spec::LayerRange>& layers) override {
        const std::lock_guard lock(mutex_);
        placed_ = layers;
        return base::Ok{};
    }
    std::map<std::string, spec::LayerRange> placed() {
        const std::lock_guard lock(mutex_);
        return placed_;
    }
    void move(core::RequestId id) override {
        const std::lock_guard lock(mutex_);
        moves_.push_back(id);
    }
    std::vector<core::RequestId> moves() {
        const std::lock_guard lock(mutex_);
        return moves_;
    }
    void watch_stages(StageWatcher watcher) override {
        const std::lock_guard lock(mutex_);
        stage_watcher_ = std::move(watcher);
    }
    // What a stage did for a request that is timed.
    void tell_stage(const core::StageTimed& times) {
        const std::lock_guard lock(mutex_);
        if (stage_watcher_) stage_watcher_(times);
    }
    core::ClusterView view() override {
        const std::lock_guard lock(mutex_);
        return view_;
    }
    std::string why_not_ready() override {
        const std::lock_guard lock(mutex_);
        return waits_for_;
    }
    void wait_for(const std::string& what) {
        const std::lock_guard lock(mutex_);
        waits_for_ = what;
    }

    // The next request that nobody has taken yet; waits for up to ten seconds.
    std::optional<FakeRequest> next() {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::seconds(10),
                               [this] { return !waiting_.empty(); })) {
            return {};
        }
        FakeRequest request = std::move(waiting_.front());
        waiting_.pop_front();
        return request;
    }
    // How the API gave the request back; nothing after ten seconds without.
    std::optional<core::FinishReason> wait_ended(core::RequestId id) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::seconds(10),
                               [&] { return ended_.count(id.value) > 0; })) {
            return {};
        }
        return ended_[id.value];
    }
    std::optional<core::FinishReason> wait_choice_ended(core::RequestId id, std::int32_t choice) {
        std::unique_lock lock(mutex_);
        const std::pair key(id.value, choice);
        if (!changed_.wait_for(lock, std::chrono::seconds(10),
                               [&] { return ended_choices_.count(key) > 0; })) {
            return {};
        }
        return ended_choices_[key];
    }
    bool was_ended(core::RequestId id) {
        const std::lock_guard lock(mutex_);
        return ended_.count(id.value) > 0;
    }
    std::optional<PlanFigures> plan_figures() override {
        const std::lock_guard lock(mutex_);
        return plan_;
    }
    void set_plan(PlanFigures plan) {
        const std::lock_guard lock(mutex_);
        plan_ = std::move(plan);
    }
    void set_view(core::ClusterView view) {
        const std::lock_guard lock(mutex_);
        view_ = std::move(view);
    }
    // From now on every request is refused like this.
    void reject_all(std::optional<core::RejectRequest> rejection) {
        const std::lock_guard lock(mutex_);
        reject_ = std::move(rejection);
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<FakeRequest> waiting_;
    std::map<std::uint64_t, core::FinishReason> ended_;
    std::map<std::pair<std::uint64_t, std::int32_t>, core::FinishReason> ended_choices_;
    std::optional<core::RejectRequest> reject_;
    core::ClusterView view_;
    std::string waits_for_;
    std::optional<PlanFigures> plan_;
    StageWatcher stage_watcher_;
    std::vector<core::DrainWorker> drains_;
    std::vector<core::RequestId> moves_;
    std::map<std::string, spec::LayerRange> placed_;
    std::uint64_t last_id_ = 0;
};

}  // namespace helix::api
