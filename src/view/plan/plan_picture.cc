#include "view/plan/plan_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "spec/units.h"
#include "view/draw/terminal.h"

namespace helix::view {
namespace {

using spec::kCoordinator;
using spec::LayerRange;

constexpr std::size_t kMostName = 16;
constexpr std::size_t kMostType = 8;
constexpr std::int32_t kStripColumns = 40;

// Less than one is not none.
std::string few(double n) {
    return n < 1 ? fmt::format("{:.2g}", n) : fmt::format("{:.0f}", std::floor(n));
}

class Painter {
  public:
    Painter(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
            const plan::PlanReport& report, const PictureOptions& options)
        : cluster_(cluster), model_(model), report_(report), options_(options) {
        for (const spec::NodeSpec& node : cluster.nodes) {
            name_columns_ = std::max(name_columns_, std::min(text_width(node.name), kMostName));
        }
        // A column for the types, if they tell machines apart.
        for (const spec::NodeSpec& node : cluster.nodes) {
            if (node.type != cluster.nodes.front().type) {
                type_columns_ = std::max(type_columns_, std::min(text_width(node.type), kMostType));
            }
        }
        if (type_columns_ > 0) {
            type_columns_ = std::max({std::string_view("type").size(), type_columns_,
                                      std::min(text_width(cluster.nodes.front().type), kMostType)});
        }
        // Few layers get two columns each, many share one.
        const auto most = kStripColumns - static_cast<std::int32_t>(type_columns_);
        strip_columns_ =
            model.n_layers <= most / 2 ? 2 * model.n_layers : std::min(model.n_layers, most);
    }

    std::string draw() {
        draw_head();
        for (const std::size_t i : drawing_order()) draw_machine(i);
        if (options_.flows && !report_.flows.empty()) draw_flows();
        draw_summary();
        return std::move(out_);
    }

  private:
    std::string painted(TextStyle style, const std::string& text) const {
        return options_.colours ? styled(style, text) : text;
    }

    // In the order of the layers; machines without any at the end.
    std::vector<std::size_t> drawing_order() const {
        std::vector<std::size_t> order(cluster_.nodes.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            const LayerRange left = report_.placement.layers[a];
            const LayerRange right = report_.placement.layers[b];
            if (left.empty() || right.empty()) return !left.empty() && right.empty();
            return left < right;
        });
        return order;
    }

    void draw_head() {
        const auto used =
            std::count_if(report_.placement.layers.begin(), report_.placement.layers.end(),
                          [](LayerRange range) { return !range.empty(); });
        out_ +=
            painted(TextStyle::bold, cluster_.name.empty()
                                         ? model_.name
                                         : fmt::format("{} on {}", model_.name, cluster_.name)) +
            fmt::format(": {} layers over {} of {} machine{}\n\n", model_.n_layers, used,
                        cluster_.nodes.size(), cluster_.nodes.size() == 1 ? "" : "s");
        const std::string last = std::to_string(model_.n_layers - 1);
        const auto gap = static_cast<std::size_t>(strip_columns_) -
                         std::min(last.size() + 1, std::size_t(strip_columns_));
        const std::string scale = strip_columns_ > 4
                                      ? "0" + std::string(gap, ' ') + last
                                      : std::string(static_cast<std::size_t>(strip_columns_), ' ');
        out_ += painted(TextStyle::dim,
                        fmt::format("{}{}  {:>7}  {}  {:>15}  {:>8}  {:>4}",
                                    fitted("machine", name_columns_), type_column("type"), "layers",
                                    scale, "memory", "tokens/s", "load")) +
                "\n";
    }

    std::string strip(LayerRange range) const {
        return range_strip({.columns = strip_columns_, .length = model_.n_layers}, range.begin,
                           range.end, options_.colours);
    }

    std::string memory(std::size_t i) const {
        const LayerRange range = report_.placement.layers[i];
        const std::int64_t all = cluster_.nodes[i].memory_bytes;
        const std::int64_t used = spec::stored_bytes(model_, range);
        return fmt::format("{}/{}", range.empty() ? "0" : spec::format_bytes(used),
                           spec::format_bytes(all));
    }

    bool limits(std::size_t i) const {
        return report_.node_tokens_per_s[i] > 0 &&
               report_.node_flow[i] >= report_.node_tokens_per_s[i] * (1 - 1e-6);
    }

    std::string type_column(std::string_view type) const {
        return type_columns_ == 0 ? "" : " " + fitted(type, type_columns_);
    }

    void draw_machine(std::size_t i) {
        const LayerRange range = report_.placement.layers[i];
        const std::string name = fitted(cluster_.nodes[i].name, name_columns_);
        const std::string type = type_column(cluster_.nodes[i].type);
        if (range.empty()) {
            out_ +=
                painted(TextStyle::dim, fmt::format("{}{}  {:>7}  {}  {:>15}  {:>8}", name, type,
                                                    "-", strip(range), memory(i), "not used")) +
                "\n";
            return;
        }
        const std::string layers = range.size() == 1
                                       ? std::to_string(range.begin)
                                       : fmt::format("{}-{}", range.begin, range.end - 1);
        const double load = report_.node_flow[i] / report_.node_tokens_per_s[i] * 100;
        out_ +=
            fmt::format("{}{}  {:>7}  {}  {:>15}  {:>8}  ", painted(TextStyle::bold, name), type,
                        layers, strip(range), memory(i), rate_text(report_.node_tokens_per_s[i])) +
            painted(limits(i) ? TextStyle::warning : TextStyle::plain,
                    fmt::format("{:>3.0f}%", load)) +
            "\n";
    }

    std::string name(std::int32_t node) const {
        if (node == kCoordinator) return "coordinator";
        std::string text = fitted(cluster_.nodes[static_cast<std::size_t>(node)].name, kMostName);
        text.erase(text.find_last_not_of(' ') + 1);
        return text;
    }

    // One line a sender, its receivers behind it, continued where the line is full.
    void draw_flows() {
        const std::size_t sender_columns =
            std::max(name_columns_, std::string_view("coordinator").size());
        out_ += "\n" + painted(TextStyle::dim, "tokens/s over each link") + "\n";
        std::vector<std::int32_t> senders{kCoordinator};
        for (const std::size_t i : drawing_order()) senders.push_back(static_cast<std::int32_t>(i));
        for (const std::int32_t sender : senders) {
            std::string line;
            std::size_t used = 0;
            for (const spec::LinkFlow& flow : report_.flows) {
                if (flow.from != sender) continue;
                const std::string item =
                    fmt::format("{} {}", name(flow.to), rate_text(flow.tokens_per_s));
                if (used != 0 && used + 2 + text_width(item) > kTerminalColumns) {
                    line += ",\n" + std::string(sender_columns + 3, ' ');
                    used = 0;
                }
                if (used == 0) {
                    used = sender_columns + 3;
                } else {
                    line += ", ";
                    used += 2;
                }
                line += item;
                used += text_width(item);
            }
            if (line.empty()) continue;
            out_ += painted(TextStyle::bold, fitted(name(sender), sender_columns)) + " → " + line +
                    "\n";
        }
    }

    void draw_summary() {
        out_ += "\n";
        if (report_.prediction) draw_prediction();
        out_ += painted(TextStyle::bold, fmt::format("max flow {} tokens/s",
                                                     rate_text(report_.max_flow_tokens_per_s))) +
                fmt::format(" of at most {} ({}), {:.1f} stages a token, found by {}\n",
                            rate_text(report_.upper_bound_tokens_per_s),
                            report_.proven_optimal ? "proven optimal"
                                                   : fmt::format("gap {:.1f} %", report_.gap * 100),
                            report_.mean_depth, report_.method);
        const std::string text =
            (report_.max_flow_tokens_per_s > 0 ? "limited by " : "") + report_.min_cut_text;
        out_ += painted(TextStyle::warning, wrapped(text)) + "\n";
        draw_memory_and_losses();
        if (!report_.pareto.empty()) draw_choices();
        for (const std::string& warning : report_.warnings)
            out_ += painted(TextStyle::warning, wrapped("warning: " + warning)) + "\n";
        for (const std::string& note : report_.notes) out_ += wrapped(note) + "\n";
    }

    void draw_prediction() {
        const plan::Prediction& seen = *report_.prediction;
        std::string judged;
        if (report_.judged_tokens_per_s > 0) {
            judged = fmt::format(" ({} in the simulator, best of {} plans that it ran)",
                                 rate_text(report_.judged_tokens_per_s), report_.judged_plans);
        }
        out_ += painted(TextStyle::bold, fmt::format("predicted {} decode tokens/s",
                                                     rate_text(seen.decode_tokens_per_s))) +
                judged + "\n" +
                fmt::format("first token after {}, then one every {}; {} requests at a time\n",
                            spec::format_duration(seen.ttft_s), spec::format_duration(seen.tpot_s),
                            few(seen.resident));
        if (report_.delivered_bound) draw_delivered_bound(*report_.delivered_bound);
        if (report_.policy != spec::ServingPolicy()) draw_policy();
        if (report_.alone) {
            const double tpot_s = report_.alone->tpot_s;
            out_ += fmt::format("one user alone: first token after {}, then {:.3g} tokens/s\n",
                                spec::format_duration(report_.alone->ttft_s),
                                tpot_s > 0 ? 1 / tpot_s : 0.0);
        }
        out_ += painted(TextStyle::warning, wrapped("limited by " + report_.limit_text)) + "\n\n";
    }

    void draw_policy() {
        const spec::ServingPolicy usual;
        const std::string groups =
            report_.policy.groups_per_machine == usual.groups_per_machine
                ? std::string()
                : fmt::format(
                      "; decodes travel in {:g} groups for each machine of a pipeline "
                      "(usually {:g})",
                      report_.policy.groups_per_machine, usual.groups_per_machine);
        out_ += wrapped(fmt::format(
                    "served so: while both wait, prompts get {:.2g} times the time of decodes "
                    "(usually {:g}); workers take requests until {:.0f} % of their KV memory is "
                    "promised (usually {:.0f} %); prompts enter so that a first token comes after "
                    "about {:g} s (usually {:g} s){}",
                    report_.policy.prefill_share, usual.prefill_share,
                    report_.policy.kv_high_water * 100, usual.kv_high_water * 100,
                    report_.policy.prefill_target_s, usual.prefill_target_s, groups)) +
                "\n";
    }

    void draw_delivered_bound(const plan::DeliveredBound& bound) {
        const double delivered = report_.judged_tokens_per_s > 0
                                     ? report_.judged_tokens_per_s
                                     : report_.prediction->decode_tokens_per_s;
        out_ += wrapped(fmt::format(
                    "no placement and no schedule delivers more than {} decode tokens/s (gap "
                    "{:.1f} %; limited by {})",
                    rate_text(bound.tokens_per_s),
                    std::max(0.0, 1 - delivered / bound.tokens_per_s) * 100,
                    plan::to_string(bound.binds))) +
                "\n";
    }

    void draw_memory_and_losses() {
        if (report_.kv_type)
            out_ += fmt::format("KV is kept in {}\n", spec::to_string(*report_.kv_type));
        if (report_.least_kv_tokens > 0 && report_.least_kv_tokens < 1e15) {
            out_ += fmt::format("KV memory for {:.0f} tokens of context\n",
                                std::floor(report_.least_kv_tokens));
        }
        const auto left = [&](const plan::Loss& loss) {
            return fmt::format("{} {:.0f} %", loss.part, loss.share * 100);
        };
        const plan::Robustness& robust = report_.robustness;
        if (!robust.machine.part.empty()) {
            out_ += wrapped("flow left after the worst loss of a machine, " + left(robust.machine) +
                            ", of a link, " + left(robust.link)) +
                    "\n";
        }
    }

    // Plans that are better in something; people may want another than we took.
    void draw_choices() {
        out_ += "\n" +
                painted(TextStyle::dim,
                        "choices:   flow  predicted  simulated  stages  KV tokens  left after "
                        "a loss") +
                "\n";
        for (const plan::PlanReport::Choice& choice : report_.pareto) {
            out_ += fmt::format(
                "{:>7}  {:>6}  {:>9}  {:>9}  {:>6.1f}  {:>9.0f}  {:>13.0f} %\n",
                choice.chosen ? "this" : "", rate_text(choice.merits.flow_tokens_per_s),
                rate_text(choice.merits.decode_tokens_per_s),
                choice.judged_tokens_per_s > 0 ? rate_text(choice.judged_tokens_per_s) : "-",
                choice.merits.depth, choice.merits.kv_tokens, choice.merits.worst_loss_share * 100);
        }
    }

    const spec::ClusterSpec& cluster_;
    const spec::ModelSpec& model_;
    const plan::PlanReport& report_;
    const PictureOptions& options_;
    std::size_t name_columns_ = std::string_view("machine").size();
    std::size_t type_columns_ = 0;  // 0 = no such column
    std::int32_t strip_columns_ = 0;
    std::string out_;
};

}  // namespace

std::string rate_text(double tokens_per_s) {
    return tokens_per_s >= 100 ? fmt::format("{:.0f}", tokens_per_s)
                               : fmt::format("{:.3g}", tokens_per_s);
}

std::string draw_plan(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                      const plan::PlanReport& report, const PictureOptions& options) {
    CHECK(report.placement.layers.size() == cluster.nodes.size());
    CHECK(report.node_flow.size() == cluster.nodes.size());
    CHECK(report.node_tokens_per_s.size() == cluster.nodes.size());
    return Painter(cluster, model, report, options).draw();
}

}  // namespace helix::view
