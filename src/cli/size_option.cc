#include "cli/size_option.h"

#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "engine/host/numa_nodes.h"

namespace helix::cli {
namespace {

constexpr std::array<std::pair<const char*, double>, 14> kUnits = {{{"", 1},
                                                                    {"b", 1},
                                                                    {"k", 1024.0},
                                                                    {"m", 1048576.0},
                                                                    {"g", 1073741824.0},
                                                                    {"t", 1099511627776.0},
                                                                    {"kb", 1e3},
                                                                    {"mb", 1e6},
                                                                    {"gb", 1e9},
                                                                    {"tb", 1e12},
                                                                    {"kib", 1024.0},
                                                                    {"mib", 1048576.0},
                                                                    {"gib", 1073741824.0},
                                                                    {"tib", 1099511627776.0}}};

// A smaller number without a unit was meant in another one: 4 in GB, 16384 in MB.
constexpr double kLeastBareBytes = 100'000;

bool parse_int(std::string_view text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

}  // namespace

base::Result<std::int64_t> parse_size(const std::string& what, const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string unit;
    for (const char* c = end; c != text.data() + text.size(); ++c) {
        if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
    for (const auto& [name, factor] : kUnits) {
        const double bytes = number * factor;
        if (error == std::errc() && unit == name && bytes >= 1 && bytes < 9e18) {
            if (unit.empty() && bytes < kLeastBareBytes) {
                return base::invalid(
                    fmt::format("{}: '{}' would be {} bytes; write the unit, like "
                                "{}GB, {}MiB or {}B",
                                what, text, text, text, text, text));
            }
            return static_cast<std::int64_t>(bytes);
        }
    }
    return base::invalid(what + ": '" + text + "' is no size; write it like 512MiB or 2GB");
}

base::Result<std::vector<int>> parse_cpu_list(const std::string& what, const std::string& text) {
    auto cpus = engine::parse_cpu_list(text);
    if (!cpus.ok()) return base::invalid(what + ": " + cpus.error().message);
    return cpus;
}

base::Result<HostPort> parse_host_port(const std::string& what, const std::string& text) {
    const std::size_t colon = text.rfind(':');
    const std::string_view digits =
        std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1);
    int port = 0;
    if (!parse_int(digits, port) || port > 65535) {
        return base::invalid(what + ": '" + text + "' is no address; write it like 127.0.0.1:8080");
    }
    std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
    if (host.empty()) host = "0.0.0.0";
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    return HostPort{host, static_cast<std::uint16_t>(port)};
}

}  // namespace helix::cli
