#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/protocol/types.h"

namespace helix::core {

// Sequences that run on this worker alone come back to it: their tokens go to the coordinator, and
// the next rows are here a moment later. If a batch begins in that moment with what else there is,
// the sequences fall into two groups that take turns for good, and each pays the batch's fixed cost
// (an engine reads its weights) for itself. So a batch waits for those on their way back where that
// is much shorter than what it saves.
class RoundTrip {
  public:
    // A token of this batch was sent to the coordinator.
    void leaves(std::uint64_t batch, TimePoint now) {
        if (batch != batch_) {
            batch_ = batch;
            left_ = now;
            away_ = 0;
        }
        ++away_;
    }
    // The next rows have come of a sequence whose token was sent at `left`, with this batch.
    void comes_back(std::uint64_t batch, TimePoint left, TimePoint now) {
        const double took_s = (now - left).seconds();
        usual_s_ = usual_s_ > 0 ? usual_s_ + kNewest * (took_s - usual_s_) : took_s;
        ends(batch);
    }
    // The sequence of one of the batch's tokens ended: no rows will come back for it.
    void ends(std::uint64_t batch) {
        if (batch == batch_) --away_;
    }

    // Returns until when it is worth waiting for the newest batch's sequences that are away, if one
    // batch less saves this many seconds; none if it is not worth it.
    std::optional<TimePoint> worth_waiting(TimePoint now, double saved_s) const {
        if (away_ == 0 || usual_s_ <= 0 || 2 * usual_s_ > saved_s) return std::nullopt;
        const double most_s = std::min(kPatience * usual_s_, saved_s / 2);
        const TimePoint until = left_ + base::from_seconds(most_s);
        return now < until ? std::optional(until) : std::nullopt;
    }

  private:
    static constexpr double kNewest = 0.1;  // weight of the newest round trip in the usual one
    static constexpr double kPatience = 4;  // usual round trips

    std::uint64_t batch_ = 0;
    TimePoint left_;
    std::int32_t away_ = 0;  // of the newest batch's
    double usual_s_ = 0;     // 0: none has come back yet
};

}  // namespace helix::core
