#include "cli/scale_option.h"
#include "cli/help_text.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <sstream>
#include <utility>

namespace helix::cli {
namespace {

constexpr std::string_view kLocal = "local:";
constexpr std::int32_t kMostNodes = 10'000;

// "LOW-HIGH".
std::optional<std::pair<std::int32_t, std::int32_t>> parse_range(std::string_view text) {
    std::pair<std::int32_t, std::int32_t> range;
    const char* end = text.data() + text.size();
    auto read = std::from_chars(text.data(), end, range.first);
    if (read.ec != std::errc() || read.ptr == end || *read.ptr != '-') return std::nullopt;
    read = std::from_chars(read.ptr + 1, end, range.second);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return range;
}

}  // namespace

void add_scale_options(CLI::App& command, ScaleArguments& a) {
    const OptionHeading heading(command, "Workers by load");
    command.add_option("--scale", a.range,
                       "workers are added and stopped by load: local:1-4 as processes on this "
                       "machine, or 1-4 by --scale-command [never]");
    command.add_option("--scale-command", a.command,
                       "run as COMMAND start NAME and COMMAND stop NAME, with HELIX_JOIN in its "
                       "environment (examples/scale/)");
    command.add_option("--scale-worker", a.worker,
                       "further options of local workers, like \"--threads 2 --memory 4GB\"");
    command
        .add_option(
            "--scale-freeness", a.freeness,
            "tokens that every running request could still grow by if the workers shared all "
            "load evenly: below the first number one is added, above the second stopped")
        ->default_str("512-1024");
}

base::Result<std::optional<core::AutoScaleConfig>> scale_config(const ScaleArguments& a) {
    using Config = std::optional<core::AutoScaleConfig>;
    if (a.range.empty()) {
        for (const std::string& other : {a.command, a.worker, a.freeness}) {
            if (!other.empty()) return base::invalid("--scale is missing: like local:1-4");
        }
        return Config();
    }
    std::string_view text = a.range;
    const bool local = text.starts_with(kLocal);
    if (local) text.remove_prefix(kLocal.size());
    const auto range = parse_range(text);
    if (!range || range->first < 1 || range->second < range->first || range->second > kMostNodes) {
        return base::invalid(
            fmt::format("--scale: expected local:MIN-MAX or MIN-MAX workers, 1 to {}, got '{}'",
                        kMostNodes, a.range));
    }
    if (local != a.command.empty()) {
        return base::invalid(local ? "--scale-command: local workers need none"
                                   : "--scale: workers that are not local need --scale-command");
    }
    if (!local && !a.worker.empty())
        return base::invalid("--scale-worker: only with local workers");
    core::AutoScaleConfig config;
    config.min_nodes = range->first;
    config.max_nodes = range->second;
    if (!a.freeness.empty()) {
        const auto band = parse_range(a.freeness);
        if (!band || band->first < 0 || band->second <= band->first) {
            return base::invalid(fmt::format(
                "--scale-freeness: expected LOW-HIGH in tokens, like 512-1024, got '{}'",
                a.freeness));
        }
        config.low = band->first;
        config.high = band->second;
    }
    return Config(config);
}

std::unique_ptr<node::NodeProvider> node_provider(const ScaleArguments& a, const std::string& join,
                                                  std::vector<std::string> local) {
    if (!a.command.empty()) return node::command_provider(a.command, join);
    std::istringstream words(a.worker);
    for (std::string word; words >> word;) local.push_back(word);
    return node::local_provider(std::filesystem::read_symlink("/proc/self/exe"), join,
                                std::move(local));
}

}  // namespace helix::cli
