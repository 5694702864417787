#pragma once

#include <algorithm>
#include <map>

#include "sim/faults/client_watch.h"

namespace helix::sim {

// The longest time between two tokens of a request, as clients see them, and how many requests
// failed.
class ClientGaps final : public ClientWatch {
  public:
    void submitted(core::TimePoint, const core::Request&) override {}
    void cancelled(core::TimePoint, core::RequestId) override {}
    void accepted(core::TimePoint, core::RequestId) override {}
    void rejected(core::TimePoint, const core::RejectRequest&) override { ++failed; }
    void scored(core::TimePoint, const core::ScoreTokens&) override {}
    void choice_finished(core::TimePoint, const core::FinishChoice&) override {}
    void cut_off(core::TimePoint, core::RequestId) override { ++failed; }
    void finished(core::TimePoint, const core::FinishRequest& what) override {
        failed += what.reason == core::FinishReason::error ? 1 : 0;
    }
    void token(core::TimePoint now, const core::StreamToken& token) override {
        const auto [last, first] = last_.emplace(token.id, now);
        if (!first) longest_s = std::max(longest_s, (now - last->second).seconds());
        last->second = now;
    }

    double longest_s = 0;
    int failed = 0;

  private:
    std::map<core::RequestId, core::TimePoint> last_;
};

}  // namespace helix::sim
