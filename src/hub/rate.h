#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/time.h"

namespace helix::hub {

// How fast a transfer is, over its last ten seconds.
class RateMeter {
  public:
    // done: bytes that are there in all; it may also fall, when a transfer begins anew.
    void at(base::TimePoint now, std::uint64_t done);
    // Absent until a second of it has been seen.
    std::optional<double> bytes_per_s() const;

  private:
    struct Sample {
        base::TimePoint time;
        std::uint64_t done = 0;
    };
    std::deque<Sample> samples_;
};

// "1.2 GB of 4.66 GB, 38 MB/s, 1 min 31 s left"; without a rate only the first part.
std::string describe_transfer(std::uint64_t done, std::uint64_t total,
                              std::optional<double> bytes_per_s);

}  // namespace helix::hub
