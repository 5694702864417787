#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/worker_watch.h"
#include "base/time.h"
#include "core/coordinator/coordinator.h"

// The last hours of a server, for GET /helix/history: a sample every ten seconds, and what happened
// to its workers. It is kept in memory alone. docs/api.md says what the columns mean.

namespace helix::api {

class History {
  public:
    static constexpr std::size_t kColumns = 14;
    static const std::array<std::string_view, kColumns> kColumnNames;
    static constexpr base::Duration kEvery = base::from_seconds(10);
    static constexpr std::int64_t kKept_s = 6 * 3600;
    static constexpr std::size_t kMostEvents = 2000;  // the oldest go

    // What requests are told of.
    void prompt(std::int64_t tokens) { counts_.prompt_tokens += tokens; }
    void first_token(double ttft_s);
    void token() { ++counts_.tokens; }
    // tpot_s: between two tokens of the answer, on average; below 0: it had fewer than two.
    void ended(bool failed, double tpot_s);

    // Whether see() is to be called: a second has gone by.
    bool due(base::TimePoint now) const { return !seen_ || now - *seen_ >= kLookEvery; }
    void see(base::TimePoint now, std::int64_t unix_s, const core::ClusterView& view);

    // What is newer than since, in seconds of Unix time.
    nlohmann::json to_json(double since) const;
    // The samples alone, with a line of names first; what was not measured is empty.
    std::string to_csv(double since) const;

  private:
    static constexpr base::Duration kLookEvery = base::from_seconds(1);
    static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    using Sample = std::array<double, kColumns>;
    struct Counts {
        std::int64_t tokens = 0;
        std::int64_t prompt_tokens = 0;
        std::int64_t finished = 0;
        std::int64_t failed = 0;
        std::vector<double> ttft_s;
        std::vector<double> tpot_s;
    };
    struct Event {
        std::int64_t unix_s = 0;
        ClusterEvent event;
    };
    void take_sample(base::TimePoint now, std::int64_t unix_s, const core::ClusterView& view);

    Counts counts_;  // since the last sample
    std::optional<base::TimePoint> seen_;
    std::optional<base::TimePoint> sampled_;
    core::ClusterView before_;  // at the last sample, of which only what workers computed counts
    WorkerWatch watch_;
    std::deque<Sample> samples_;
    std::deque<Event> events_;
};

}  // namespace helix::api
