#pragma once

#include <algorithm>

#include "base/time.h"

namespace helix::base {

// When to try again what failed: later and later.
class Backoff {
  public:
    // The next try comes after a pause, which is `first` and then twice as long each time, at most
    // `longest`.
    void failed(TimePoint now, Duration first, Duration longest) {
        pause_ = std::min(pause_.ns == 0 ? first : pause_ + pause_, longest);
        next_ = now + pause_;
    }
    // It could not even be tried: the next try comes after the same pause, or after `first`.
    void not_tried(TimePoint now, Duration first) { next_ = now + std::max(pause_, first); }
    bool may_try(TimePoint now) const { return now >= next_; }
    TimePoint next() const { return next_; }
    void clear() { *this = {}; }

  private:
    Duration pause_;  // 0: it has not failed
    TimePoint next_;
};

}  // namespace helix::base
