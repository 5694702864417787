#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "spec/cluster_spec.h"
#include "view/run/html_report_parts.h"

namespace helix::view::html {
namespace {

constexpr std::size_t kTypeStyles = 6;  // t0 to t5 in the style sheet
constexpr double kLabelWidth = 190;
constexpr double kLeastLabelGap = 13;

// A share in two characters, 0.1 % each: script() reads it.
void append_share(std::string& out, double share) {
    constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
    const auto permille = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 1000));
    out += kDigits[permille / 36];
    out += kDigits[permille % 36];
}

std::string shares(const Series& series) {
    std::string out;
    for (const double v : series) append_share(out, v);
    return out;
}

// Machines from the first layers to the last; those without layers at the end.
std::vector<std::size_t> row_order(const Recording& r) {
    std::vector<std::size_t> order(r.nodes.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const NodeRecord& x = r.nodes[a];
        const NodeRecord& y = r.nodes[b];
        if (x.layers.empty() != y.layers.empty()) return y.layers.empty();
        return std::tuple(x.layers, x.type) < std::tuple(y.layers, y.type);
    });
    return order;
}

double row_height(std::size_t rows) {
    if (rows <= 16) return 24;
    if (rows <= 30) return 18;
    if (rows <= 64) return 14;
    if (rows <= 150) return 6;
    if (rows <= 500) return 3;
    return rows <= 1500 ? 1 : 0.5;
}

std::map<std::string, std::size_t> type_styles(const Recording& r) {
    std::map<std::string, std::size_t> styles;
    for (const NodeRecord& node : r.nodes) {
        styles.try_emplace(node.type, styles.size() % kTypeStyles);
    }
    return styles;
}

std::string labels(const Recording& r, const std::vector<std::size_t>& order, double row) {
    const auto styles = type_styles(r);
    std::string out =
        fmt::format("<svg class=\"labels\" width=\"{}\" height=\"{:.1f}\" aria-hidden=\"true\">\n",
                    kLabelWidth, row * static_cast<double>(order.size()));
    double free = 0;
    spec::LayerRange named{-1, -1};
    for (std::size_t i = 0; i < order.size(); ++i) {
        const NodeRecord& node = r.nodes[order[i]];
        const double top = row * static_cast<double>(i);
        fmt::format_to(std::back_inserter(out),
                       "<rect class=\"t{}\" x=\"{}\" y=\"{:.1f}\" width=\"6\" height=\"{:.1f}\"/>",
                       styles.at(node.type), kLabelWidth - 8, top, row > 4 ? row - 1 : row);
        const bool each = row >= kLeastLabelGap;
        if (!each && (top < free || node.layers == named)) continue;
        named = node.layers;
        free = top + kLeastLabelGap;
        const std::string range =
            node.layers.empty() ? "no layers"
                                : fmt::format("{}-{}", node.layers.begin, node.layers.end - 1);
        const std::string text = each ? node.name : "layers " + range;
        constexpr std::size_t kShown = 24;
        fmt::format_to(std::back_inserter(out),
                       "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       kLabelWidth - 14, each ? top + row / 2 + 4 : top + 10,
                       markup(text.size() > kShown ? text.substr(0, kShown) + ".." : text));
    }
    return out + "</svg>\n";
}

// Of every layer: how busy its holders are, weighted by the tokens that each runs at it.
Series layer_busy(const Recording& r) {
    Series busy;
    for (std::size_t l = 0; l < static_cast<std::size_t>(r.n_layers); ++l) {
        double tokens = 0;
        double weighted = 0;
        for (const NodeRecord& node : r.nodes) {
            const double here = node.layer_tokens_per_s.at(l);
            tokens += here;
            weighted += here * node.busy;
        }
        busy.push_back(tokens > 0 ? weighted / tokens : 0);
    }
    return busy;
}

PageData node_data(const NodeRecord& node, double most_tokens) {
    std::string flow;
    for (std::int32_t l = node.layers.begin; l < node.layers.end; ++l) {
        append_share(flow, node.layer_tokens_per_s.at(static_cast<std::size_t>(l)) / most_tokens);
    }
    std::string title = fmt::format("{} · {}", node.name, node.type);
    if (!node.region.empty()) title += " · " + node.region;
    auto facts = PageData::array();
    facts.push_back({"busy", format_percent(node.busy)});
    facts.push_back({"decode", format_count(node.decode_tokens_per_s) + " tok/s"});
    facts.push_back({"prompt", format_count(node.prompt_tokens_per_s) + " tok/s"});
    facts.push_back({"decodes in a batch", format_count(node.mean_decodes)});
    if (node.kv_capacity > 0) {
        facts.push_back(
            {"KV mean, peak", format_percent(node.kv_mean) + ", " + format_percent(node.kv_peak)});
    }
    return {{"title", title},
            {"begin", node.layers.begin},
            {"end", node.layers.end},
            {"busy", shares(node.busy_over_time)},
            {"kv", shares(node.kv_over_time)},
            {"flow", flow},
            {"facts", facts}};
}

std::string type_legend(const Recording& r) {
    const auto styles = type_styles(r);
    std::string out = "<span class=\"legend\">";
    for (const auto& [type, style] : styles) {
        std::size_t n = 0;
        for (const NodeRecord& node : r.nodes) n += node.type == type ? 1U : 0U;
        out += fmt::format("<span><i class=\"t{}\"></i>{} × {}</span>", style, n,
                           markup(type.empty() ? "machine" : type));
    }
    return out + "</span>";
}

}  // namespace

std::string node_name(const Recording& r, std::int32_t node) {
    if (node == spec::kCoordinator) return "coordinator";
    return r.nodes.at(static_cast<std::size_t>(node)).name;
}

std::string nodes_section(const Recording& r, PageData& data) {
    if (r.nodes.empty()) return "";
    const std::vector<std::size_t> order = row_order(r);
    const double row = row_height(order.size());
    double most_tokens = 1e-12;
    bool any_kv = false;
    for (const NodeRecord& node : r.nodes) {
        for (const double t : node.layer_tokens_per_s) most_tokens = std::max(most_tokens, t);
        any_kv |= node.kv_capacity > 0;
    }
    auto rows = PageData::array();
    for (const std::size_t n : order) rows.push_back(node_data(r.nodes[n], most_tokens));
    std::vector<int> holders(static_cast<std::size_t>(r.n_layers));
    for (const NodeRecord& node : r.nodes) {
        for (std::int32_t l = node.layers.begin; l < node.layers.end; ++l) {
            ++holders.at(static_cast<std::size_t>(l));
        }
    }
    data["nodes"] = {{"rows", rows},
                     {"row", row},
                     {"layers", r.n_layers},
                     {"most", most_tokens},
                     {"bucket", r.bucket_s},
                     {"span", r.end_s - r.begin_s},
                     {"layer_busy", shares(layer_busy(r))},
                     {"holders", holders}};
    const double height = row * static_cast<double>(order.size());
    std::string out =
        "<section class=\"card\"><h2>Machines over time and layers</h2>\n<div class=\"bar\">" +
        type_legend(r);
    out += "<span class=\"ramp\">0 %<i></i>100 %</span>";
    if (any_kv) {
        out +=
            "<span class=\"switch\" role=\"group\" aria-label=\"What the colours show\">"
            "<button type=\"button\" data-metric=\"busy\" class=\"on\">computing</button>"
            "<button type=\"button\" data-metric=\"kv\">KV memory</button></span>";
    }
    out += fmt::format(
        "</div>\n<div class=\"machines\"><div class=\"corner\">all machines of a layer</div>"
        "<div class=\"head\">each machine over time</div>"
        "<canvas id=\"coverage\" height=\"26\" aria-label=\"How busy the machines of each layer "
        "are\"></canvas>\n{}"
        "<canvas id=\"heat\" style=\"height:{:.1f}px\" aria-label=\"Use of each machine over "
        "time\"></canvas>"
        "<canvas id=\"strip\" style=\"height:{:.1f}px\" aria-label=\"Tokens through each layer of "
        "each machine\"></canvas>"
        "<div class=\"axis\" id=\"heat-axis\"></div><div class=\"axis\" "
        "id=\"strip-axis\"></div></div>\n",
        labels(r, order, row), height, height);
    out +=
        "<p class=\"note\">Left: each row a machine, from those with the first layers to those "
        "with the last. Right: its layers, darker where more tokens pass; on top, how busy the "
        "holders of each layer are.</p></section>\n";
    return out;
}

}  // namespace helix::view::html
