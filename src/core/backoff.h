#pragma once

#include <algorithm>

#include "core/types.h"

namespace helix::core {

// What failed is tried again later and later.
class Backoff {
  public:
    // The next try is after a pause: first, then twice as long each time, at most longest.
    void failed(TimePoint now, Duration first, Duration longest) {
        pause_ = std::min(pause_.ns == 0 ? first : pause_ + pause_, longest);
        next_ = now + pause_;
    }
    bool may_try(TimePoint now) const { return now >= next_; }
    void clear() { *this = {}; }

  private:
    Duration pause_;  // 0: it has not failed
    TimePoint next_;
};

}  // namespace helix::core
