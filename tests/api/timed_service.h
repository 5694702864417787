#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/model_registry.h"
#include "api/service.h"
#include "byte_codec.h"

namespace helix::api {

// A cluster of one that says a fixed text, a byte each interval, over and over until max_tokens
// when the end token may not end it. For clients and load generators; its tokens are those of
// ByteCodec.
class TimedService : public Service {
  public:
    TimedService(std::chrono::microseconds interval, std::string reply)
        : interval_(interval), reply_(std::move(reply)), thread_([this] { run(); }) {}
    ~TimedService() override {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    TimedService(const TimedService&) = delete;
    TimedService& operator=(const TimedService&) = delete;

    core::RequestId submit(core::Request request, std::shared_ptr<TokenSink> sink) override {
        const std::lock_guard lock(mutex_);
        const core::RequestId id{++last_id_};
        sink->on_accepted();
        sink->on_routed({id, {{core::WorkerId{0}, {0, 4}}}, 1});
        if (request.wants_embedding()) {
            sink->on_embedding(embedding(request));
            sink->on_finish(core::FinishReason::stop, {});
            return id;
        }
        if (request.score_prompt) sink->on_scored(scored(request));
        const std::int32_t limit = request.max_tokens > 0 ? request.max_tokens : kContext;
        const bool may_end = !request.stop_tokens.empty();
        running_[id.value] = {std::move(sink), 0, limit, may_end, request.sampling.n_logprobs,
                              request.n};
        due_.push({Clock::now() + interval_, id.value});
        changed_.notify_all();
        return id;
    }
    void end(core::RequestId id, core::FinishReason) override {
        const std::lock_guard lock(mutex_);
        running_.erase(id.value);
    }
    // Going on to the end costs nothing, so nothing is done here.
    void end_choice(core::RequestId, std::int32_t, core::FinishReason) override {}
    core::ClusterView view() override {
        const std::lock_guard lock(mutex_);
        core::ClusterView view;
        view.serving = true;
        view.epoch = 1;
        view.running = static_cast<std::int64_t>(running_.size());
        return view;
    }

    static constexpr std::int32_t kContext = 4096;

  private:
    using Clock = std::chrono::steady_clock;
    using Due = std::pair<Clock::time_point, std::uint64_t>;
    struct Running {
        std::shared_ptr<TokenSink> sink;
        std::int32_t said = 0;
        std::int32_t limit = 0;
        bool may_end = true;
        std::int32_t n_logprobs = -1;
        std::int32_t n = 1;  // choices, which all say the same
    };

    void run() {
        std::unique_lock lock(mutex_);
        while (!stopping_) {
            if (due_.empty()) {
                changed_.wait(lock);
                continue;
            }
            const Due next = due_.top();
            if (next.first > Clock::now()) {
                // One wake-up serves all that is due within a millisecond.
                changed_.wait_until(lock, next.first + std::chrono::milliseconds(1));
                continue;
            }
            due_.pop();
            const auto found = running_.find(next.second);
            if (found == running_.end()) continue;
            if (say_one(found->second)) {
                due_.push({next.first + interval_, next.second});
            } else {
                running_.erase(found);
            }
        }
    }

    static std::vector<core::ProducedToken> scored(const core::Request& request) {
        std::vector<core::ProducedToken> tokens;
        for (std::size_t i = 1; i < request.prompt.size(); ++i) {
            core::ProducedToken& token = tokens.emplace_back();
            token.position = static_cast<std::int32_t>(i);
            token.token = request.prompt[i];
            token.logprob = -0.5F;
            if (request.sampling.n_logprobs > 0) token.top = {{token.token, -0.5F}};
        }
        return tokens;
    }

    // Four values of length 1 that the prompt's first token decides.
    static std::vector<float> embedding(const core::Request& request) {
        const bool odd = request.prompt.front() % 2 == 1;
        return odd ? std::vector<float>{0.5F, 0.5F, -0.5F, 0.5F}
                   : std::vector<float>{0.1F, -0.7F, 0.7F, 0.1F};
    }

    // Says one token; false if that was the end.
    bool say_one(Running& r) {
        core::ProducedToken token;
        const auto at = static_cast<std::size_t>(r.said) % (reply_.size() + 1);
        const bool end = at == reply_.size();
        token.token = end ? (r.may_end ? kByteEnd : '\n') : static_cast<unsigned char>(reply_[at]);
        token.logprob = -0.25F;
        if (r.n_logprobs > 0) token.top = {{token.token, -0.25F}};
        ++r.said;
        for (std::int32_t i = 0; i < r.n; ++i) r.sink->on_token(i, token);
        const bool stop = end && r.may_end;
        if (!stop && r.said < r.limit) return true;
        const auto reason = stop ? core::FinishReason::stop : core::FinishReason::length;
        for (std::int32_t i = 0; r.n > 1 && i < r.n; ++i) r.sink->on_choice_finish(i, reason);
        r.sink->on_finish(reason, {});
        return false;
    }

    std::chrono::microseconds interval_;
    std::string reply_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint64_t, Running> running_;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
    std::uint64_t last_id_ = 0;
    bool stopping_ = false;
    std::thread thread_;
};

// The registry of a server whose one model is that of ByteCodec.
inline ModelRegistry byte_model(Service& service) {
    ModelInfo info;
    info.name = "byte-model";
    info.context_length = TimedService::kContext;
    ModelRegistry models;
    models.add({info, std::make_unique<ByteCodec>(), &service});
    return models;
}

}  // namespace helix::api
