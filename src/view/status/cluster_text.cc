#include "view/status/cluster_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "view/draw/figures.h"
#include "view/draw/terminal.h"

namespace helix::view {
namespace {

constexpr std::size_t kNameColumns = 18;
constexpr std::int32_t kLayerColumns = 20;
constexpr std::int32_t kKvColumns = 8;
constexpr double kSlow = 1.3;  // from here on it is said

std::string figure(const std::optional<double>& value) {
    return value ? format_count(*value) : "-";
}

std::string percent(const std::optional<double>& share) {
    return share ? fmt::format("{:.0f} %", 100 * *share) : "-";
}

std::string layers_of(const ShownWorker& worker) {
    if (worker.first_layer >= worker.end_layer) return "-";
    return fmt::format("{}-{}", worker.first_layer, worker.end_layer - 1);
}

// At most so many columns of it.
std::string fitted_to(const std::string& text, std::size_t most) {
    return fitted(text, std::min(text_width(text), most));
}

std::string worker_line(const ShownCluster& cluster, const ShownWorker& worker, bool colours) {
    const StripScale layers{kLayerColumns, std::max(cluster.layers, 1)};
    const auto fill = worker.kv_pages > 0
                          ? static_cast<std::int32_t>(1000 * worker.kv_pages_used / worker.kv_pages)
                          : 0;
    std::string state = fitted(worker.state, 9);
    if (colours && worker.state != "serving") state = styled(TextStyle::warning, state);
    return fmt::format("{} {} {} {:<7} {} {:>4} {:>4} {:>6} {:>8} {:>5}",
                       fitted(worker.name, kNameColumns), state,
                       range_strip(layers, worker.first_layer, worker.end_layer, colours),
                       layers_of(worker), range_strip({kKvColumns, 1000}, 0, fill, colours),
                       fmt::format("{} %", fill / 10), worker.requests, figure(worker.batch_rows),
                       figure(worker.tokens_per_s), percent(worker.busy));
}

std::string request_line(const ShownRequest& request) {
    std::string path;
    for (const std::string& worker : request.workers) {
        path += (path.empty() ? "" : " > ") + fitted_to(worker, kNameColumns);
    }
    return fmt::format("{} {} {:>7} {:>7} {:>8} {:>8} {:>5}  {}", fitted(request.id, 26),
                       fitted(request.state, 8), request.prompt_tokens, request.answer_tokens,
                       request.ttft_s ? format_seconds(*request.ttft_s) : "-",
                       figure(request.tokens_per_s), request.moves, fitted_to(path, 24));
}

std::vector<std::string> head_lines(const ShownCluster& cluster, bool colours) {
    std::vector<std::string> lines;
    const auto style = [&](TextStyle s, const std::string& text) {
        return colours ? styled(s, text) : text;
    };
    lines.push_back(style(TextStyle::bold, fitted_to(cluster.model, 40)) +
                    fmt::format(" at {}: {} layers, {} {}, ", fitted_to(cluster.server, 40),
                                cluster.layers, cluster.workers.size(),
                                cluster.workers.size() == 1 ? "machine" : "machines") +
                    (cluster.serving ? "serving" : style(TextStyle::warning, "not serving")));
    lines.push_back(fmt::format("requests   {} running, {} waiting, {} finished, {} failed",
                                cluster.running, cluster.waiting, cluster.finished,
                                cluster.failed));
    std::string rate = "tokens/s   ";
    if (cluster.tokens_per_s) rate += format_count(*cluster.tokens_per_s) + " now";
    if (cluster.plan) {
        if (cluster.tokens_per_s) rate += "; ";
        rate += fmt::format("{} planned, {} from the most that could be",
                            format_count(cluster.plan->tokens_per_s),
                            format_percent(cluster.plan->gap));
    }
    if (cluster.tokens_per_s || cluster.plan) lines.push_back(rate);
    if (cluster.plan && !cluster.plan->limited_by.empty()) {
        const std::string limit = "limited by " + cluster.plan->limited_by;
        lines.push_back("           " + fitted_to(limit, 85));
    }
    return lines;
}

}  // namespace

std::string cluster_text(const ShownCluster& cluster, bool colours,
                         std::optional<std::size_t> most_lines) {
    const auto dim = [&](const std::string& text) {
        return colours ? styled(TextStyle::dim, text) : text;
    };
    std::vector<std::string> lines = head_lines(cluster, colours);
    lines.emplace_back();
    lines.push_back(
        dim(fmt::format("{:<18} {:<9} {:<28} {:<13} {:>4} {:>6} {:>8} {:>5}", "MACHINE", "STATE",
                        "LAYERS", "KV MEMORY", "REQ", "BATCH", "TOKENS/S", "BUSY")));
    for (const ShownWorker& worker : cluster.workers) {
        lines.push_back(worker_line(cluster, worker, colours));
        if (worker.slowdown < kSlow) continue;
        const std::string slow = fmt::format("  {} computes {:.1f} times slower than usual",
                                             fitted_to(worker.name, kNameColumns), worker.slowdown);
        lines.push_back(colours ? styled(TextStyle::warning, slow) : slow);
    }
    if (!cluster.requests.empty()) {
        lines.emplace_back();
        lines.push_back(
            dim(fmt::format("{:<26} {:<8} {:>7} {:>7} {:>8} {:>8} {:>5}  {}", "REQUEST", "STATE",
                            "PROMPT", "ANSWER", "TTFT", "TOKENS/S", "MOVES", "MACHINES")));
        for (const ShownRequest& request : cluster.requests) lines.push_back(request_line(request));
    }
    if (most_lines && lines.size() > *most_lines && *most_lines > 0) {
        const std::size_t left_out = lines.size() - *most_lines + 1;
        lines.resize(*most_lines - 1);
        lines.push_back(dim(fmt::format("... {} lines more", left_out)));
    }
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
}

}  // namespace helix::view
