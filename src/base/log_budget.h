#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace helix::base {

// How many lines a minute a stranger may cause in the log; the rest is counted. One thread.
//     if (budget.take(now)) LOG_WARN("refused {}", who);
//     if (const auto more = budget.take_summary(now); !more.empty()) LOG_WARN("refused: {}", more);
class LogBudget {
  public:
    explicit LogBudget(std::int64_t lines_per_minute) : lines_per_minute_(lines_per_minute) {}

    // May a line be written now? If not it is counted.
    bool take(TimePoint now);
    // "and 1,234 more in the last minute", once the minute is over in which lines were held back;
    // "" otherwise. To be asked now and then, also when nothing happens.
    std::string take_summary(TimePoint now);

  private:
    void begin_minute(TimePoint now);

    std::int64_t lines_per_minute_;
    TimePoint began_ = {};
    bool running_ = false;      // a minute, since began_
    std::int64_t written_ = 0;  // in it
    std::int64_t held_back_ = 0;
    std::int64_t to_tell_ = 0;  // held back in minutes that are over
};

}  // namespace helix::base
