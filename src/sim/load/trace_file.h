#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// Request traces as comma-separated files with a header line, told apart by its columns (in any
// order, others are skipped):
//
//     arrival_s,prompt_tokens,output_tokens        ours; seconds from the start
//     TIMESTAMP,ContextTokens,GeneratedTokens      the Azure LLM inference traces; arrivals count
//                                                  from the first row's time
//     prompt_tokens,output_tokens                  lengths only
//
// Arrivals must not go back in time. Errors name file, line and what was expected.

namespace helix::sim {

struct TraceRequest {
    double arrival_s = 0;
    std::int32_t prompt_tokens = 0;  // 1 .. kMostTokens
    std::int32_t output_tokens = 0;  // 1 .. kMostTokens

    bool operator==(const TraceRequest&) const = default;
};
constexpr std::int32_t kMostTokens = 10'000'000;

enum class TraceFormat { timed, azure, lengths };

struct Trace {
    TraceFormat format = TraceFormat::timed;  // lengths: all arrivals are 0
    std::vector<TraceRequest> requests;       // never empty
};

base::Result<Trace> parse_trace(std::string_view text, const std::string& file);
base::Result<Trace> read_trace(const std::string& path);

// timed and lengths read back exactly; azure to 100 ns, as the public files have it.
std::string format_trace(const std::vector<TraceRequest>& requests, TraceFormat format);
base::Status write_trace(const std::string& path, const std::vector<TraceRequest>& requests,
                         TraceFormat format);

// Arrivals in consecutive intervals of 3 s: interval_index (0, 1, 2 ...), requests_in_3s.
base::Result<std::vector<std::int64_t>> parse_interval_counts(std::string_view text,
                                                              const std::string& file);
base::Result<std::vector<std::int64_t>> read_interval_counts(const std::string& path);
std::string format_interval_counts(const std::vector<std::int64_t>& counts);
// Of requests in order of arrival; up to the interval of the last one.
std::vector<std::int64_t> count_intervals(const std::vector<TraceRequest>& requests);

}  // namespace helix::sim
