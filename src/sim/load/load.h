#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/load/load_random.h"
#include "sim/load/trace_file.h"

// What a simulated cluster is asked to do: how long requests are and when they come.

namespace helix::sim {

struct RequestLength {
    std::int32_t prompt_tokens = 0;  // at least 1
    std::int32_t output_tokens = 0;  // decode passes after the prompt's; at least 1
};

// sampled: rows are drawn at random with replacement, as the reference draws from its trace.
// recorded: rows are taken in the file's order, from the top again when they run out.
enum class LengthOrder { sampled, recorded };

class LengthSource {
  public:
    LengthSource() = default;
    // rows must not be empty.
    LengthSource(std::vector<RequestLength> rows, LengthOrder order);
    // A trace file (sim/load/trace_file.h), of which only the lengths count.
    static base::Result<LengthSource> read(const std::string& path, LengthOrder order);

    RequestLength next(PythonRandom& random);
    bool empty() const { return rows_.empty(); }
    const std::vector<RequestLength>& rows() const { return rows_; }
    std::int32_t longest_prompt() const;
    std::int64_t longest_context() const;  // prompt and output together
    double mean_tokens() const;            // prompt and output

  private:
    std::vector<RequestLength> rows_;
    LengthOrder order_ = LengthOrder::sampled;
    std::size_t next_ = 0;
};

// Requests are fed so that the cluster is always saturated: some at the start, then one more
// `delay_s` after every finished prompt and every finished request while the scheduler has room.
struct OfflineLoad {
    std::int32_t initial = 20;
    double spacing_s = 0.1;
    double delay_s = 0.1;
    // Max-flow scheduler: room is where the KV estimate of the fullest layer is at most this.
    // The others know no estimate and keep `initial` requests in the cluster.
    double feed_below = 0.8;
};

// poisson: exponential gaps. gamma: gaps of the same mean that vary more or less. recorded: counts
// per 3 s in the file's order. shuffled: each 3 s takes the count of a random interval, as the
// reference does. Counts are scaled to the wanted rate, what rounding leaves is carried on, and
// arrivals lie uniformly inside their 3 s. listed: as they are given.
enum class ArrivalProcess { poisson, gamma, recorded, shuffled, listed };

struct Arrival {
    double at_s = 0;  // of the simulated clock; of a listed one, since the load's beginning
    RequestLength length;
    std::int32_t priority = 0;  // of listed ones; higher goes first
};

struct OnlineLoad {
    ArrivalProcess process = ArrivalProcess::shuffled;
    // Prompt and output, on the mean of the lengths; for listed, of all over the time of the last.
    double tokens_per_s = 0;
    std::vector<double> counts_per_3s{};  // for recorded and shuffled
    double burstiness = 1;  // gamma: coefficient of variation of the gaps; 1 = poisson, 0 = even
    // For listed, in the order of at_s; the lengths of the load must be long enough for all.
    std::vector<Arrival> listed{};
};

// The requests of a trace with times of arrival. Errors: all come at once, so that there is no
// rate.
base::Result<OnlineLoad> listed_load(const std::vector<TraceRequest>& requests);
// Makes a load faster or slower; listed ones are stretched in time. tokens_per_s is above 0, and
// that of a listed load as listed_load() left it.
void set_rate(OnlineLoad& load, double tokens_per_s);

// The column requests_in_3s of a CSV.
base::Result<std::vector<double>> read_arrival_counts(const std::string& path);

// All arrivals of [start_s, start_s + duration_s), in order. Draws from random what the reference
// draws, in its order: with shuffled counts, the reference's seed and lengths sampled, its very
// arrivals.
base::Result<std::vector<Arrival>> make_arrivals(const OnlineLoad& load, LengthSource& lengths,
                                                 double start_s, double duration_s,
                                                 PythonRandom& random);

}  // namespace helix::sim
