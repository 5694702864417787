#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/worker_watch.h"
#include "base/time.h"
#include "core/coordinator/coordinator.h"
#include "net/http_server.h"

// GET /helix/events: the cluster as server-sent events. A reader gets the whole state first, then
// what changes, at most twice a second, and with ?requests=1 the last requests as well: docs/api.md
// has the events. Nothing is decided or measured here: the state is that of /helix/cluster, and
// what happened is told by two states in a row.

namespace helix::api {

struct ApiContext;

// What turns one object into another, as RFC 7396 has it: members that changed, null for those that
// are gone. A member that is null counts as not there. Empty when they are alike.
nlohmann::json merge_patch_between(const nlohmann::json& before, const nlohmann::json& after);

// On the HTTP server's thread only. It works only while it has readers.
class ClusterFeed {
  public:
    ~ClusterFeed();

    // Begins to answer with the feed, or refuses when there are too many readers.
    void add(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);
    // A request that ran on one pipeline goes on on another.
    void moved(const std::string& request, const core::Pipeline& from,
               const core::RequestRouted& routed);
    void on_tick(ApiContext& context);
    // Ends the answer of every reader.
    void shut_down();
    std::size_t readers() const { return readers_.size(); }

  private:
    struct Reader {
        std::shared_ptr<net::HttpExchange> exchange;
        base::TimePoint written;
        bool requests = false;  // it wants those, too
        // It did not take what was written: it is told nothing more until it has, and then
        // everything.
        bool behind = false;
    };
    void look(ApiContext& context);
    bool wants_requests() const;
    void tell(ApiContext& context, const std::string& news, const std::string& requests_news);
    std::string requests_news(ApiContext& context);
    std::string workers_news(const core::ClusterView& view);
    std::string moves_news();
    std::string whole_state(bool requests) const;
    void ping(ApiContext& context);
    void drop_gone();

    std::vector<Reader> readers_;
    nlohmann::json state_;     // what readers know
    nlohmann::json requests_;  // what those who want requests know
    base::TimePoint taken_;
    base::TimePoint looked_;
    WorkerWatch watch_;
    std::vector<nlohmann::json> moves_;
    std::size_t moves_left_out_ = 0;
};

}  // namespace helix::api
