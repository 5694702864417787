#pragma once

#include <cstdint>

namespace helix::core {

// How many tokens to draft ahead for one request: as many as are likely enough to be right.
//
// A drafted token is only of use when all before it were right. With r the share of those that came
// true among those that were put to the test (a running mean over about eight, at first 0.75), the
// k-th is right with probability r^k, and is drafted while that is at least 0.3: below, the row it
// costs is better spent on others. So r = 0.9 allows eleven, 0.75 four, 0.5 one; below 0.3 there
// are none, but for one in every sixteen steps that could have some, to notice when the text has
// become easier.
class DraftLength {
  public:
    // For this step, most at most.
    std::int32_t next(std::int32_t most);
    // Of so many drafted tokens that were sent the first were right.
    void note(std::int32_t sent, std::int32_t right);

    double rate() const { return rate_; }

  private:
    double rate_ = 0.75;
    std::int32_t steps_without_ = 0;
};

}  // namespace helix::core
