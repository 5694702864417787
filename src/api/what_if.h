#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "api/error.h"
#include "base/result.h"
#include "base/time.h"
#include "net/http_server.h"

// POST /helix/what-if: what changes of the machines would do. Here are the questions, who is
// answered and when that ends; the answers are worked out by the program around the API.

namespace helix::api {

struct ApiContext;

// A change of the cluster, in the words of the API.
struct WhatIfAdd {
    std::string type;
    std::int32_t count = 1;
    std::string region;
    // Of its links to everybody, each way; without it as the others there have.
    struct Network {
        double bandwidth_bytes_per_s = 0;
        double latency_s = 0;
    };
    std::optional<Network> network;
};
struct WhatIfRemove {
    std::string name;
};
struct WhatIfSlow {
    std::string name;
    double factor = 1;  // so many times as long
};
struct WhatIfLink {
    std::string from;
    std::string to;
    double bandwidth_bytes_per_s = 0;
    std::optional<double> latency_s;
};
using WhatIfChange = std::variant<WhatIfAdd, WhatIfRemove, WhatIfSlow, WhatIfLink>;

struct WhatIfQuestion {
    std::vector<WhatIfChange> changes;
    double seconds = 10;   // for the searches
    bool suggest = false;  // say which machines and links would help most
    bool stream = false;   // tell how far it is
};
// Errors name the field, like changes[1].factor.
std::optional<ApiError> read_what_if(std::string_view body, WhatIfQuestion& question);

// What the one who works it out tells and asks meanwhile; from its own threads.
struct WhatIfWatch {
    std::function<void(const std::string& phase, double share_done)> progress;
    std::function<bool()> stopped;  // nobody waits any more
};
// Returns a JSON object. Called on a thread of its own, one call at a time; it is to end soon after
// stopped() says so.
using WhatIfFunction = std::function<base::Result<std::string>(const WhatIfQuestion& question,
                                                               const WhatIfWatch& watch)>;

// Has one question at a time answered. On the HTTP server's thread only, but for its own thread.
class WhatIfDesk {
  public:
    ~WhatIfDesk();

    // Answers, or begins to: with the JSON, or with events where the question wants them. 409 while
    // another question is worked on. When the client goes away the work is stopped.
    void ask(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
             WhatIfQuestion question);
    void on_tick(ApiContext& context);
    // Ends the answer under way.
    void shut_down(ApiContext& context);
    // Waits for the thread. The server's thread must not run any more.
    void stop();

  private:
    struct Job {
        std::shared_ptr<net::HttpExchange> exchange;
        WhatIfQuestion question;
        std::atomic<bool> stopped{false};
        std::atomic<bool> over{false};
        base::TimePoint written;
    };
    void begin(ApiContext& context, const std::shared_ptr<Job>& job);
    static void conclude(ApiContext& context, Job& job, const base::Result<std::string>& answer);
    static void tell(ApiContext& context, Job& job, const std::string& text);

    std::shared_ptr<Job> job_;  // the last one
    std::thread thread_;        // that works on it, or did
};

}  // namespace helix::api
