#pragma once

#include <cmath>

#include "core/protocol/types.h"

namespace helix::core {

// BatchLoad is what a worker has had to do lately: a mean over the last seconds, in which later
// ones weigh more.
class BatchLoad {
  public:
    // A batch that began `took` ago has ended now. A row counts as the share of the worker's layers
    // that it ran; prompts_s is what prompts took of the batch.
    void add(TimePoint now, Duration took, double decode_rows, double prompts_s) {
        if (since_s_ == 0) last_ = now - took;
        const double passed_s = (now - last_).seconds();
        const double keep = std::exp(-passed_s / kMeanOver_s);
        since_s_ = keep * since_s_ + passed_s;
        decode_rows_ = keep * decode_rows_ + decode_rows;
        prompts_s_ = keep * prompts_s_ + prompts_s;
        last_ = now;
    }
    // Says whether the figures are of more than a moment.
    bool known() const { return since_s_ > kKnown_s; }
    double decode_rows_per_s() const { return decode_rows_ / since_s_; }
    double prompts_share() const { return prompts_s_ / since_s_; }  // of the time

  private:
    static constexpr double kMeanOver_s = 10;
    static constexpr double kKnown_s = 2;

    TimePoint last_;
    double since_s_ = 0;  // weights of the seconds that count
    double decode_rows_ = 0;
    double prompts_s_ = 0;
};

}  // namespace helix::core
