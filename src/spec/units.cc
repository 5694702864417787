#include "spec/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

namespace helix::spec {
namespace {

struct Unit {
    std::string_view name;
    double factor;
};

constexpr Unit kBytes[] = {{"TB", 1e12},    {"GB", 1e9},     {"MB", 1e6},     {"kB", 1e3},
                           {"B", 1},        {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20},
                           {"KiB", 0x1p10}, {"KB", 1e3}};
constexpr Unit kBandwidths[] = {{"Tbit/s", 1.25e11}, {"Gbit/s", 1.25e8}, {"Mbit/s", 1.25e5},
                                {"kbit/s", 125},     {"bit/s", 0.125},   {"TB/s", 1e12},
                                {"GB/s", 1e9},       {"MB/s", 1e6},      {"kB/s", 1e3},
                                {"B/s", 1},          {"Gbps", 1.25e8},   {"Mbps", 1.25e5},
                                {"kbps", 125},       {"GiB/s", 0x1p30},  {"MiB/s", 0x1p20}};
constexpr Unit kDurations[] = {{"s", 1},     {"ms", 1e-3}, {"us", 1e-6},
                               {"ns", 1e-9}, {"min", 60},  {"h", 3600}};

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

base::Result<double> parse(std::string_view text, std::span<const Unit> units,
                           std::string_view what, std::string_view example) {
    const auto wrong = [&](std::string_view why) {
        return base::invalid(fmt::format("\"{}\" is not a {} ({}); expected a form like \"{}\"",
                                         text, what, why, example));
    };
    const std::string_view body = trimmed(text);
    double number = 0;
    const auto [rest, error] = std::from_chars(body.data(), body.data() + body.size(), number);
    if (error != std::errc{}) return wrong("no number");
    if (!std::isfinite(number) || number < 0) return wrong("must be finite and not negative");
    const std::string_view name =
        trimmed(body.substr(static_cast<std::size_t>(rest - body.data())));
    if (name.empty()) return wrong("no unit");
    for (const Unit& unit : units) {
        if (unit.name != name) continue;
        // Divide by powers of ten where the factor is not exact: "40 ms" is then the double nearest
        // to 0.04.
        return unit.factor < 0.1 ? number / std::round(1 / unit.factor) : number * unit.factor;
    }
    return wrong(fmt::format("unknown unit \"{}\"", name));
}

// Shows a value in the first (largest) unit that gives at least 1, by preference in one that reads
// back exactly.
template <typename Parse>
std::string format(double value, std::span<const Unit> units, bool exact, Parse&& parses_back) {
    for (const Unit& unit : units) {
        const double scaled = value / unit.factor;
        const bool last = &unit == &units.back();
        if (scaled < 1 && !last) continue;
        if (!exact) {
            if (scaled >= 999.5 || scaled == std::floor(scaled))
                return fmt::format("{:.0f} {}", scaled, unit.name);
            return fmt::format("{:.3g} {}", scaled, unit.name);
        }
        std::string text = fmt::format("{} {}", scaled, unit.name);
        if (parses_back(text)) return text;
    }
    return fmt::format("{} {}", value / units.back().factor, units.back().name);
}

}  // namespace

base::Result<std::int64_t> parse_bytes(std::string_view text) {
    TRY(const double bytes, parse(text, kBytes, "number of bytes", "24 GB"));
    if (bytes >= 9e18) return base::invalid(fmt::format("\"{}\" is too many bytes", text));
    return static_cast<std::int64_t>(std::llround(bytes));
}

base::Result<double> parse_bandwidth(std::string_view text) {
    return parse(text, kBandwidths, "bandwidth", "10 Gbit/s");
}

base::Result<double> parse_duration(std::string_view text) {
    return parse(text, kDurations, "duration", "50 ms");
}

base::Result<double> parse_duration(std::string_view what, std::string_view text) {
    const auto seconds = parse_duration(text);
    if (!seconds.ok()) return base::invalid(fmt::format("{}: {}", what, seconds.error().message));
    return *seconds;
}

std::string format_bytes(std::int64_t bytes, bool exact) {
    return format(static_cast<double>(bytes), std::span(kBytes).first(5), exact,
                  [&](const std::string& text) {
                      const auto back = parse_bytes(text);
                      return back.ok() && *back == bytes;
                  });
}

std::string format_bandwidth(double bytes_per_s, bool exact) {
    std::string text = format(bytes_per_s, std::span(kBandwidths).first(5), exact,
                              [&](const std::string& candidate) {
                                  const auto back = parse_bandwidth(candidate);
                                  return back.ok() && *back == bytes_per_s;
                              });
    const auto back = parse_bandwidth(text);
    if (!exact || (back.ok() && *back == bytes_per_s)) return text;
    return fmt::format("{} B/s", bytes_per_s);
}

std::string format_duration(double seconds, bool exact) {
    std::string text =
        format(seconds, std::span(kDurations).first(4), exact, [&](const std::string& candidate) {
            const auto back = parse_duration(candidate);
            return back.ok() && *back == seconds;
        });
    const auto back = parse_duration(text);
    if (!exact || (back.ok() && *back == seconds)) return text;
    return fmt::format("{} s", seconds);
}

}  // namespace helix::spec
