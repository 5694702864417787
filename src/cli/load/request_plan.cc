#include "cli/load/request_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "base/check.h"
#include "spec/csv_table.h"
#include "spec/text_file.h"

namespace helix::cli {
namespace {

constexpr std::int32_t kMostTokens = 10'000'000;

bool parse_count(std::string_view text, std::int32_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 1 &&
           value <= kMostTokens;
}

std::int32_t draw_between(LengthRange range, base::Random& random) {
    return static_cast<std::int32_t>(random.between(range.least, range.most));
}

base::Result<std::int32_t> token_count(const spec::CsvTable& table, const std::string& path,
                                       std::size_t row, std::size_t column) {
    TRY(const double value, table.number(row, column));
    if (value >= 1 && value <= kMostTokens && value == std::floor(value)) {
        return static_cast<std::int32_t>(value);
    }
    return base::invalid(fmt::format("{}: request {}: {} tokens, expected a whole number above 0",
                                     path, row + 1, value));
}

// A standard normal variate (Box and Muller 1958).
double draw_normal(base::Random& random) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// "2023-11-16 18:17:03.9799600" in seconds since 1970.
base::Result<double> parse_timestamp(const std::string& path, std::size_t row,
                                     const std::string& text) {
    int year = 0;
    unsigned month = 0;
    unsigned day = 0;
    int hour = 0;
    int minute = 0;
    double second = 0;
    const int read = std::sscanf(text.c_str(), "%d-%u-%u%*c%d:%d:%lf", &year, &month, &day, &hour,
                                 &minute, &second);
    const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                           std::chrono::day(day)};
    if (read != 6 || !date.ok()) {
        return base::invalid(fmt::format(
            "{}: request {}: TIMESTAMP is '{}', expected one like 2023-11-16 18:17:03.9799600",
            path, row + 1, text));
    }
    const auto days = std::chrono::sys_days(date).time_since_epoch().count();
    return static_cast<double>(days) * 86400.0 + hour * 3600.0 + minute * 60.0 + second;
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
    TRY(const spec::CsvTable table, spec::CsvTable::read(path, {"prompt_tokens", "output_tokens"}));
    LengthSource source;
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        TRY(const std::int32_t prompt, token_count(table, path, row, 0));
        TRY(const std::int32_t output, token_count(table, path, row, 1));
        source.rows_.emplace_back(prompt, output);
    }
    if (source.rows_.empty()) return base::invalid(path + ": expected at least one request");
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

double draw_gamma(double shape, base::Random& random) {
    CHECK(shape > 0);
    if (shape < 1) {
        const double power = std::pow(1 - random.uniform(), 1 / shape);
        return draw_gamma(shape + 1, random) * power;
    }
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    while (true) {
        const double x = draw_normal(random);
        const double v = std::pow(1 + c * x, 3);
        if (v <= 0) continue;
        if (std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
            return d * v;
        }
    }
}

std::vector<LoadRequest> draw_load(const ArrivalProcess& arrivals, const LengthSource& lengths,
                                   std::size_t count, double duration_s, std::uint64_t seed) {
    CHECK(arrivals.rate_per_s > 0);
    base::Random random(base::hash_pair(seed, 0x6172726976616c73ULL));
    const double variance = arrivals.cv * arrivals.cv;
    std::vector<LoadRequest> load;
    double at_s = 0;
    while (load.size() < count) {
        const double gap = variance == 0 ? 1 : draw_gamma(1 / variance, random) * variance;
        // Even arrivals start at once; random ones with a gap like any other.
        if (variance > 0 || !load.empty()) at_s += gap / arrivals.rate_per_s;
        if (at_s >= duration_s) break;
        load.push_back(lengths.draw(seed, load.size()));
        load.back().arrival_s = at_s;
    }
    return load;
}

base::Result<std::vector<LoadRequest>> read_trace(const std::string& path) {
    TRY(const std::string text, spec::read_text_file(path));
    const bool azure = text.substr(0, text.find('\n')).find("TIMESTAMP") != std::string::npos;
    const std::vector<std::string> columns =
        azure ? std::vector<std::string>{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
              : std::vector<std::string>{"arrival_s", "prompt_tokens", "output_tokens"};
    TRY(const spec::CsvTable table, spec::CsvTable::parse(text, path, columns));
    std::vector<LoadRequest> trace;
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        LoadRequest request;
        TRY(request.arrival_s,
            azure ? parse_timestamp(path, row, table.text(row, 0)) : table.number(row, 0));
        TRY(request.prompt_tokens, token_count(table, path, row, 1));
        TRY(request.output_tokens, token_count(table, path, row, 2));
        trace.push_back(request);
    }
    if (trace.empty()) return base::invalid(path + ": expected at least one request");
    std::stable_sort(trace.begin(), trace.end(), [](const LoadRequest& a, const LoadRequest& b) {
        return a.arrival_s < b.arrival_s;
    });
    const double first_s = trace.front().arrival_s;
    for (LoadRequest& request : trace) request.arrival_s -= first_s;
    return trace;
}

}  // namespace helix::cli
