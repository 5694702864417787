#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "api/service.h"
#include "core/gateway/gateway_requests.h"
#include "model/gguf.h"
#include "node/gateway_link.h"
#include "node/request_sinks.h"
#include "node/weight_fetcher.h"

namespace helix::node {

struct GatewayOptions {
    GatewayLinkOptions link;
    core::GatewayRules rules;
    // Called once, on the gateway's thread, when it cannot go on (ended()): all that is open has
    // ended with an error, and so will what comes. Until wait_for_model() has returned a model that
    // says so instead.
    std::function<void()> on_end;
};

// Answers requests by way of a coordinator elsewhere, and outlives it: see core::GatewayRequests.
class GatewayServer final : public api::Service {
  public:
    // Error invalid: an address is none.
    static base::Result<std::unique_ptr<GatewayServer>> start(GatewayOptions options);
    // Open requests end with an error.
    ~GatewayServer() override;
    GatewayServer(const GatewayServer&) = delete;
    GatewayServer& operator=(const GatewayServer&) = delete;

    // What the first coordinator serves.
    struct Model {
        wire::GatewayWelcome welcome;
        std::shared_ptr<const model::GgufFile> file;  // the header alone
    };
    // Waits for it, however long that takes, or until stop_waiting(), which gives the error
    // unavailable. Any other error says what waiting does not mend.
    base::Result<Model> wait_for_model();
    // Any thread.
    void stop_waiting();

    core::RequestId submit(core::Request request, std::shared_ptr<api::TokenSink> sink) override;
    void end(core::RequestId id, core::FinishReason reason) override;
    void end_choice(core::RequestId id, std::int32_t choice, core::FinishReason reason) override;
    void move(core::RequestId id) override;
    void watch_stages(StageWatcher watcher) override;
    // Of workers it knows nothing. It serves while a coordinator is there that does, and the queue
    // of requests that wait for one has room.
    core::ClusterView view() override;
    std::string why_not_ready() override;
    std::int64_t capacity_tokens() override;
    // Any thread. Where the last coordinator has its pages, like "http://10.0.0.7:8080"; "" = not
    // known.
    std::string coordinator_url() const;
    // Any thread. Why it cannot go on and has to be started again, if that is so.
    std::optional<base::Error> ended() const;

  private:
    GatewayServer(GatewayOptions options, std::unique_ptr<GatewayLink> link);

    // ---- the loop's thread
    void run();
    void wait_for_events();
    void receive();
    base::Status on_message(GatewayLink::Arrived arrived);
    void on_welcome(const wire::GatewayWelcome& welcome);
    void note_link();
    void send();
    void tell();
    void tell(core::RequestEvent event);
    void end_for_good(const base::Error& error);

    GatewayOptions options_;
    std::unique_ptr<GatewayLink> link_;
    net::Wakeup wakeup_;
    WeightFetcher fetcher_{wakeup_};
    std::deque<wire::Message> to_send_;
    bool had_coordinator_ = false;  // the requests know of one
    base::TimePoint last_tick_;
    std::atomic<bool> stopping_{false};
    RequestSinks sinks_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    core::GatewayRequests requests_;
    bool there_ = false;
    std::uint64_t coordinators_ = 0;  // that have been there
    bool waiting_ended_ = false;
    std::optional<wire::GatewayWelcome> first_;  // of the coordinator that was there first
    std::optional<base::Error> ended_;           // it cannot go on
    bool model_known_ = false;                   // wait_for_model() has returned it
    wire::GatewayView view_;
    std::string url_;

    std::mutex watcher_mutex_;  // held while the watcher is called
    StageWatcher stage_watcher_;

    std::thread thread_;
};

}  // namespace helix::node
