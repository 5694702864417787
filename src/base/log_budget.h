#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace helix::base {

// Limits how many lines a minute strangers may cause in the log, and counts the rest. For one
// thread.
//     if (budget.take(now)) LOG_WARN("refused {}", who);
//     if (const auto more = budget.take_summary(now); !more.empty()) LOG_WARN("refused: {}", more);
class LogBudget {
  public:
    explicit LogBudget(std::int64_t lines_per_minute) : lines_per_minute_(lines_per_minute) {}

    // Whether a line may be written now. If not, it is counted.
    bool take(TimePoint now);
    // A text like "and 1,234 more in the last minute" once the minute is over in which lines were
    // held back; "" otherwise. Call it now and then, even when nothing happens.
    std::string take_summary(TimePoint now);

  private:
    void begin_minute(TimePoint now);

    std::int64_t lines_per_minute_;
    TimePoint began_ = {};
    bool running_ = false;      // a minute has been running since began_
    std::int64_t written_ = 0;  // lines in this minute
    std::int64_t held_back_ = 0;
    std::int64_t to_tell_ = 0;  // lines held back in minutes that are over
};

}  // namespace helix::base
