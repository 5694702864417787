#include "lab/load/request_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "sim/load/gamma_variate.h"
#include "sim/load/trace_file.h"

namespace helix::lab {
namespace {

bool parse_count(std::string_view text, std::int32_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 1 &&
           value <= sim::kMostTokens;
}

std::int32_t draw_between(LengthRange range, base::Random& random) {
    return static_cast<std::int32_t>(random.between(range.least, range.most));
}

}  // namespace

base::Result<LengthRange> parse_length_range(const std::string& what, const std::string& text) {
    LengthRange range;
    const std::size_t dash = text.find('-');
    const bool good = dash == std::string::npos
                          ? parse_count(text, range.least)
                          : parse_count(std::string_view(text).substr(0, dash), range.least) &&
                                parse_count(std::string_view(text).substr(dash + 1), range.most);
    if (dash == std::string::npos) range.most = range.least;
    if (good && range.least <= range.most) return range;
    return base::invalid(what + ": '" + text +
                         "': expected a number of tokens, like 512, or a range, like 100-1000");
}

base::Result<LengthSource> LengthSource::read(const std::string& path) {
    TRY(const sim::Trace trace, sim::read_trace(path));
    LengthSource source;
    for (const sim::TraceRequest& request : trace.requests) {
        source.rows_.emplace_back(request.prompt_tokens, request.output_tokens);
    }
    return source;
}

LoadRequest LengthSource::draw(std::uint64_t seed, std::uint64_t number) const {
    base::Random random(base::hash_pair(seed, number));
    LoadRequest request;
    if (rows_.empty()) {
        request.prompt_tokens = draw_between(prompt_, random);
        request.output_tokens = draw_between(output_, random);
        return request;
    }
    const auto row = static_cast<std::size_t>(random.below(rows_.size()));
    request.prompt_tokens = rows_[row].first;
    request.output_tokens = rows_[row].second;
    return request;
}

std::int64_t LengthSource::longest() const {
    std::int64_t most = rows_.empty() ? std::int64_t{prompt_.most} + output_.most : 0;
    for (const auto& [prompt, output] : rows_) most = std::max(most, std::int64_t{prompt} + output);
    return most;
}

base::Result<double> parse_arrivals(const std::string& text) {
    if (text == "even") return 0.0;
    if (text == "poisson") return 1.0;
    double cv = 0;
    if (text.starts_with("gamma:")) {
        const char* begin = text.data() + 6;
        const char* end = text.data() + text.size();
        const auto [at, error] = std::from_chars(begin, end, cv);
        if (error == std::errc() && at == end && cv > 0 && cv <= 100) return cv;
    }
    return base::invalid("--arrivals: '" + text +
                         "': expected even, poisson, or gamma:CV with a coefficient of variation "
                         "of the gaps, like gamma:2");
}

std::vector<LoadRequest> draw_load(const ArrivalProcess& arrivals, const LengthSource& lengths,
                                   std::size_t count, double duration_s, std::uint64_t seed) {
    CHECK(arrivals.rate_per_s > 0);
    base::Random random(base::hash_pair(seed, 0x6172726976616c73ULL));
    const double variance = arrivals.cv * arrivals.cv;
    std::vector<LoadRequest> load;
    double at_s = 0;
    while (load.size() < count) {
        const double gap = variance == 0 ? 1 : sim::draw_gamma(1 / variance, random) * variance;
        // Even arrivals start at once; random ones with a gap like any other.
        if (variance > 0 || !load.empty()) at_s += gap / arrivals.rate_per_s;
        if (at_s >= duration_s) break;
        load.push_back(lengths.draw(seed, load.size()));
        load.back().arrival_s = at_s;
    }
    return load;
}

base::Result<std::vector<LoadRequest>> read_arrivals(const std::string& path) {
    TRY(const sim::Trace trace, sim::read_trace(path));
    if (trace.format == sim::TraceFormat::lengths) {
        return base::invalid(path +
                             ": has lengths but no times of arrival; give it to --lengths, with "
                             "--rate or --concurrency");
    }
    std::vector<LoadRequest> arrivals;
    for (const sim::TraceRequest& request : trace.requests) {
        arrivals.push_back({request.arrival_s, request.prompt_tokens, request.output_tokens});
    }
    return arrivals;
}

}  // namespace helix::lab
