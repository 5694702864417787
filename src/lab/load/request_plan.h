#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/result.h"

// What a load consists of: how long requests are and when they come. Equal seeds give equal loads.

namespace helix::lab {

struct LoadRequest {
    double arrival_s = 0;  // after the load's start
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;
};

// "512", or "100-1000": every length in between equally often.
struct LengthRange {
    std::int32_t least = 0;
    std::int32_t most = 0;
};
base::Result<LengthRange> parse_length_range(const std::string& what, const std::string& text);

// Where the lengths of requests come from: two ranges, or rows of a file drawn at random.
class LengthSource {
  public:
    LengthSource(LengthRange prompt, LengthRange output) : prompt_(prompt), output_(output) {}
    // A trace file (sim/load/trace_file.h), of which only the lengths count.
    static base::Result<LengthSource> read(const std::string& path);

    // Of the request of this number; arrival_s is 0.
    LoadRequest draw(std::uint64_t seed, std::uint64_t number) const;
    // What no request exceeds, prompt and output together.
    std::int64_t longest() const;

  private:
    LengthSource() = default;
    LengthRange prompt_;
    LengthRange output_;
    std::vector<std::pair<std::int32_t, std::int32_t>> rows_;  // empty = the ranges
};

// The gaps between requests: mean 1 / rate, standard deviation cv / rate. cv 0 = even, 1 = Poisson;
// the gaps follow a gamma distribution.
struct ArrivalProcess {
    double rate_per_s = 1;
    double cv = 1;
};
// "even", "poisson", "gamma:CV".
base::Result<double> parse_arrivals(const std::string& text);

// The first `count` requests, or those before duration_s, whichever ends first.
std::vector<LoadRequest> draw_load(const ArrivalProcess& arrivals, const LengthSource& lengths,
                                   std::size_t count, double duration_s, std::uint64_t seed);

// A trace file with times of arrival (sim/load/trace_file.h).
base::Result<std::vector<LoadRequest>> read_arrivals(const std::string& path);

}  // namespace helix::lab
