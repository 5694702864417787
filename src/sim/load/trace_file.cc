#include "sim/load/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "spec/text_file.h"

namespace helix::sim {
namespace {

constexpr double kTraceIntervalS = 3;
constexpr double kMostSeconds = 1e9;
constexpr std::int64_t kMostInInterval = 1'000'000'000;
constexpr std::int64_t kAzureFirstDay = 10957;  // 2000-01-01, where arrivals without a date begin
constexpr const char* kTimeForm = "a time like 2023-11-16 18:15:46.680590";

// Lines of cells, and where we are in them.
class CsvRows {
  public:
    CsvRows(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
        if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    }

    // The next line that is not empty; false at the end.
    bool next() {
        while (!text_.empty()) {
            const std::size_t newline = text_.find('\n');
            std::string_view line = text_.substr(0, newline);
            text_.remove_prefix(newline == std::string_view::npos ? text_.size() : newline + 1);
            ++line_;
            if (line.ends_with('\r')) line.remove_suffix(1);
            if (line.empty()) continue;
            cells_.clear();
            for (std::size_t comma = line.find(','); comma != std::string_view::npos;
                 comma = line.find(',')) {
                cells_.push_back(line.substr(0, comma));
                line.remove_prefix(comma + 1);
            }
            cells_.push_back(line);
            return true;
        }
        return false;
    }
    const std::vector<std::string_view>& cells() const { return cells_; }
    const std::string& file() const { return file_; }

    base::Error complaint(std::string_view text) const {
        return base::invalid(fmt::format("{}:{}: {}", file_, line_, text));
    }
    base::Error unexpected(std::string_view column, std::string_view expected,
                           std::string_view found) const {
        return complaint(fmt::format("column {}: expected {}, found \"{}\"", column, expected,
                                     shortened(std::string(found))));
    }
    base::Error unexpected_header(std::string_view expected) const {
        return complaint(fmt::format("expected a header with the columns {}, found \"{}\"",
                                     expected,
                                     shortened(fmt::format("{}", fmt::join(cells_, ",")))));
    }

  private:
    static std::string shortened(std::string text) {
        constexpr std::size_t kShown = 100;
        if (text.size() > kShown) text = text.substr(0, kShown) + "...";
        return text;
    }

    std::string_view text_;
    std::string file_;
    std::size_t line_ = 0;
    std::vector<std::string_view> cells_;
};

struct Columns {
    TraceFormat format;
    std::array<const char*, 3> names;  // arrival (null for lengths), prompt, output
};
constexpr std::array<Columns, 3> kKnown = {{
    {TraceFormat::timed, {"arrival_s", "prompt_tokens", "output_tokens"}},
    {TraceFormat::azure, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}},
    {TraceFormat::lengths, {nullptr, "prompt_tokens", "output_tokens"}},
}};

std::optional<std::size_t> find_column(const CsvRows& header, const char* name) {
    const auto& cells = header.cells();
    const auto found = std::find(cells.begin(), cells.end(), name);
    if (found == cells.end()) return std::nullopt;
    return static_cast<std::size_t>(found - cells.begin());
}

template <typename T>
std::optional<T> number(std::string_view cell) {
    T value{};
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size()) return std::nullopt;
    return value;
}

base::Result<std::int64_t> whole(const CsvRows& rows, std::size_t column, const char* name,
                                 std::int64_t least, std::int64_t most) {
    const std::string_view cell = rows.cells()[column];
    const auto value = number<std::int64_t>(cell);
    if (!value || *value < least || *value > most) {
        return rows.unexpected(name, fmt::format("a whole number from {} to {}", least, most),
                               cell);
    }
    return *value;
}

// Takes `digits` digits off the front; then `after`, unless that is 0.
std::optional<int> take(std::string_view& text, std::size_t digits, char after) {
    if (text.size() < digits + (after != 0 ? 1 : 0)) return std::nullopt;
    const auto value = number<int>(text.substr(0, digits));
    if (!value || *value < 0 || text[0] == '-') return std::nullopt;
    text.remove_prefix(digits);
    if (after != 0) {
        if (text[0] != after && !(after == ' ' && text[0] == 'T')) return std::nullopt;
        text.remove_prefix(1);
    }
    return value;
}

// Nanoseconds of a fraction's digits, taken off the front.
std::optional<std::int64_t> take_fraction(std::string_view& text) {
    if (!text.starts_with('.')) return 0;
    text.remove_prefix(1);
    std::int64_t ns = 0;
    std::size_t n = 0;
    for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1)) {
        if (++n <= 9) ns = ns * 10 + (text[0] - '0');
    }
    if (n == 0) return std::nullopt;
    for (; n < 9; ++n) ns *= 10;
    return ns;
}

// Nothing, "Z" or "+hh:mm"; seconds to subtract.
std::optional<std::int64_t> zone_offset_s(std::string_view text) {
    if (text.empty() || text == "Z") return 0;
    if (text[0] != '+' && text[0] != '-') return std::nullopt;
    const std::int64_t sign = text[0] == '-' ? -1 : 1;
    text.remove_prefix(1);
    const auto hours = take(text, 2, ':');
    if (!hours) return std::nullopt;
    const auto minutes = take(text, 2, 0);
    if (!minutes || !text.empty() || *hours > 14 || *minutes > 59) return std::nullopt;
    return sign * (*hours * 3600 + *minutes * 60);
}

// Nanoseconds since 1970 of "YYYY-MM-DD hh:mm:ss.fraction" with an optional zone.
std::optional<std::int64_t> timestamp_ns(std::string_view text) {
    const auto year = take(text, 4, '-');
    const auto month = year ? take(text, 2, '-') : std::nullopt;
    const auto day = month ? take(text, 2, ' ') : std::nullopt;
    const auto hour = day ? take(text, 2, ':') : std::nullopt;
    const auto minute = hour ? take(text, 2, ':') : std::nullopt;
    const auto second = minute ? take(text, 2, 0) : std::nullopt;
    if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
    const std::chrono::year_month_day date{std::chrono::year(*year),
                                           std::chrono::month(static_cast<unsigned>(*month)),
                                           std::chrono::day(static_cast<unsigned>(*day))};
    if (!date.ok() || *year < 1970 || *year > 2200) return std::nullopt;
    const auto fraction = take_fraction(text);
    const auto offset_s = fraction ? zone_offset_s(text) : std::nullopt;
    if (!offset_s) return std::nullopt;
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    const std::int64_t seconds = ((days * 24 + *hour) * 60 + *minute) * 60 + *second - *offset_s;
    return seconds * 1'000'000'000 + *fraction;
}

// Reads the arrival column of one row after another.
class ArrivalReader {
  public:
    base::Result<double> read(const CsvRows& rows, const Columns& columns, std::size_t column) {
        const std::string_view cell = rows.cells()[column];
        double at_s = 0;
        if (columns.format == TraceFormat::azure) {
            const auto ns = timestamp_ns(cell);
            if (!ns) return rows.unexpected(columns.names[0], kTimeForm, cell);
            if (!origin_ns_) origin_ns_ = *ns;
            at_s = static_cast<double>(*ns - *origin_ns_) * 1e-9;
        } else {
            const auto value = number<double>(cell);
            if (!value || !(*value >= 0) || *value > kMostSeconds) {
                return rows.unexpected(columns.names[0], "seconds from 0 to 1e9", cell);
            }
            at_s = *value;
        }
        if (at_s < last_s_) {
            return rows.unexpected(columns.names[0], "an arrival not before that of the row above",
                                   cell);
        }
        last_s_ = at_s;
        return at_s;
    }

  private:
    std::optional<std::int64_t> origin_ns_;
    double last_s_ = 0;
};

base::Result<Columns> recognise(const CsvRows& header) {
    for (const Columns& columns : kKnown) {
        const bool all = std::all_of(columns.names.begin(), columns.names.end(), [&](auto name) {
            return name == nullptr || find_column(header, name);
        });
        if (all) return columns;
    }
    return header.unexpected_header(
        "arrival_s,prompt_tokens,output_tokens or TIMESTAMP,ContextTokens,GeneratedTokens or "
        "prompt_tokens,output_tokens");
}

}  // namespace

base::Result<Trace> parse_trace(std::string_view text, const std::string& file) {
    CsvRows rows(text, file);
    if (!rows.next()) return base::invalid(file + ": is empty, expected a header line");
    TRY(const Columns columns, recognise(rows));
    const std::size_t width = rows.cells().size();
    const std::size_t arrival =
        columns.names[0] == nullptr ? 0 : *find_column(rows, columns.names[0]);
    const std::size_t prompt = *find_column(rows, columns.names[1]);
    const std::size_t output = *find_column(rows, columns.names[2]);
    Trace trace;
    trace.format = columns.format;
    ArrivalReader arrivals;
    while (rows.next()) {
        if (rows.cells().size() != width) {
            return rows.complaint(
                fmt::format("expected {} columns, found {}", width, rows.cells().size()));
        }
        TraceRequest request;
        if (columns.names[0] != nullptr) {
            TRY(request.arrival_s, arrivals.read(rows, columns, arrival));
        }
        TRY(const auto prompt_tokens, whole(rows, prompt, columns.names[1], 1, kMostTokens));
        TRY(const auto output_tokens, whole(rows, output, columns.names[2], 1, kMostTokens));
        request.prompt_tokens = static_cast<std::int32_t>(prompt_tokens);
        request.output_tokens = static_cast<std::int32_t>(output_tokens);
        trace.requests.push_back(request);
    }
    if (trace.requests.empty()) {
        return base::invalid(file + ": has a header only, expected at least one request");
    }
    return trace;
}

base::Result<Trace> read_trace(const std::string& path) {
    TRY(const std::string text, spec::read_text_file(path, spec::kMaxTraceBytes));
    return parse_trace(text, path);
}

std::string format_trace(const std::vector<TraceRequest>& requests, TraceFormat format) {
    std::string text;
    auto out = std::back_inserter(text);
    switch (format) {
        case TraceFormat::timed:
            text = "arrival_s,prompt_tokens,output_tokens\n";
            for (const TraceRequest& r : requests) {
                fmt::format_to(out, "{},{},{}\n", r.arrival_s, r.prompt_tokens, r.output_tokens);
            }
            break;
        case TraceFormat::lengths:
            text = "prompt_tokens,output_tokens\n";
            for (const TraceRequest& r : requests) {
                fmt::format_to(out, "{},{}\n", r.prompt_tokens, r.output_tokens);
            }
            break;
        case TraceFormat::azure:
            text = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
            for (const TraceRequest& r : requests) {
                constexpr std::int64_t kTicksPerS = 10'000'000;
                const auto ticks = static_cast<std::int64_t>(
                    std::llround(r.arrival_s * static_cast<double>(kTicksPerS)));
                const std::int64_t s = ticks / kTicksPerS;
                const std::chrono::sys_days day{std::chrono::days{kAzureFirstDay + s / 86400}};
                const std::chrono::year_month_day date{day};
                fmt::format_to(out, "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:07},{},{}\n",
                               static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                               static_cast<unsigned>(date.day()), s / 3600 % 24, s / 60 % 60,
                               s % 60, ticks % kTicksPerS, r.prompt_tokens, r.output_tokens);
            }
            break;
    }
    return text;
}

base::Status write_trace(const std::string& path, const std::vector<TraceRequest>& requests,
                         TraceFormat format) {
    return spec::write_text_file(path, format_trace(requests, format));
}

base::Result<std::vector<std::int64_t>> parse_interval_counts(std::string_view text,
                                                              const std::string& file) {
    CsvRows rows(text, file);
    if (!rows.next()) return base::invalid(file + ": is empty, expected a header line");
    const auto index = find_column(rows, "interval_index");
    const auto count = find_column(rows, "requests_in_3s");
    if (!index || !count) {
        return rows.unexpected_header("interval_index,requests_in_3s");
    }
    const std::size_t width = rows.cells().size();
    std::vector<std::int64_t> counts;
    std::int64_t sum = 0;
    while (rows.next()) {
        if (rows.cells().size() != width) {
            return rows.complaint(
                fmt::format("expected {} columns, found {}", width, rows.cells().size()));
        }
        const auto expected = static_cast<std::int64_t>(counts.size());
        if (number<std::int64_t>(rows.cells()[*index]) != expected) {
            return rows.unexpected("interval_index", fmt::format("{}", expected),
                                   rows.cells()[*index]);
        }
        TRY(const std::int64_t n, whole(rows, *count, "requests_in_3s", 0, kMostInInterval));
        counts.push_back(n);
        sum += n;
    }
    if (sum == 0) return base::invalid(file + ": expected at least one request in requests_in_3s");
    return counts;
}

base::Result<std::vector<std::int64_t>> read_interval_counts(const std::string& path) {
    TRY(const std::string text, spec::read_text_file(path, spec::kMaxTraceBytes));
    return parse_interval_counts(text, path);
}

std::string format_interval_counts(const std::vector<std::int64_t>& counts) {
    std::string text = "interval_index,requests_in_3s\n";
    for (std::size_t i = 0; i < counts.size(); ++i) {
        fmt::format_to(std::back_inserter(text), "{},{}\n", i, counts[i]);
    }
    return text;
}

std::vector<std::int64_t> count_intervals(const std::vector<TraceRequest>& requests) {
    std::vector<std::int64_t> counts;
    for (const TraceRequest& request : requests) {
        const auto interval = static_cast<std::size_t>(request.arrival_s / kTraceIntervalS);
        if (counts.size() <= interval) counts.resize(interval + 1);
        ++counts[interval];
    }
    return counts;
}

}  // namespace helix::sim
