#include "view/plan/plan_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"
#include "view/draw/figures.h"
#include "view/plan/plan_picture.h"

namespace helix::view {
namespace {

using spec::kCoordinator;
using spec::LayerRange;

constexpr double kPlanWidth = 1120;
constexpr double kStripLeft = 190;
constexpr double kStripRight = 930;
constexpr double kPlanTop = 96;
constexpr double kMachineRow = 26;
constexpr double kMachineBar = 16;
constexpr double kRegionGap = 30;
constexpr double kWidestFlow = 12;
constexpr std::size_t kMostFoot = 160;  // characters of a line

class SvgPainter {
  public:
    SvgPainter(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
               const plan::PlanReport& report)
        : cluster_(cluster), model_(model), report_(report), row_y_(cluster.nodes.size(), 0.0) {
        for (const spec::NodeSpec& node : cluster.nodes) {
            const auto next = kPalette[colour_.size() % kPalette.size()];
            colour_.emplace(node.type, next);
        }
    }

    std::string draw() {
        lay_out();
        head();
        scale();
        for (const auto& [text, y] : region_labels_) label_region(text, y);
        // Flows lie under the bars.
        for (const spec::LinkFlow& flow : report_.flows) draw_flow(flow);
        for (const std::size_t i : order_) draw_bar(i);
        foot();
        return fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
            "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"system-ui, sans-serif\" "
            "font-size=\"12\">\n"
            "<style>text {{ fill: #222; }} .dim {{ fill: #777; }} .ground {{ fill: #fff; }} "
            ".track {{ fill: #8881; }} .grid {{ stroke: #8884; }}\n"
            "@media (prefers-color-scheme: dark) {{ text {{ fill: #ddd; }} .dim {{ fill: #999; }} "
            ".ground {{ fill: #16181c; }} }}</style>\n"
            "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{2}</svg>\n",
            kPlanWidth, height_, out_);
    }

  private:
    // Rows by region (in the cluster's order), in it by layers; machines without layers at the end.
    void lay_out() {
        std::map<std::string, std::size_t> region_rank;
        for (const spec::NodeSpec& node : cluster_.nodes) {
            region_rank.emplace(node.region, region_rank.size());
        }
        order_.resize(cluster_.nodes.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        const auto key = [&](std::size_t i) {
            const LayerRange range = report_.placement.layers[i];
            return std::tuple(region_rank.at(cluster_.nodes[i].region), range.empty(), range.begin,
                              range.end);
        };
        std::stable_sort(order_.begin(), order_.end(),
                         [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
        double y = kPlanTop;
        const std::string* region = nullptr;
        for (const std::size_t i : order_) {
            const std::string& here = cluster_.nodes[i].region;
            if (region_rank.size() > 1 && (region == nullptr || *region != here)) {
                if (region != nullptr) y += kRegionGap / 3;
                region_labels_.emplace_back(here.empty() ? "no region" : "region " + here, y);
                y += kRegionGap * 2 / 3;
            }
            region = &here;
            row_y_[i] = y;
            y += kMachineRow;
        }
        height_ = y + 64;
    }

    double x(double layer) const {
        return kStripLeft + (kStripRight - kStripLeft) * layer / model_.n_layers;
    }
    double middle(std::size_t i) const { return row_y_[i] + kMachineBar / 2; }

    void text(double at_x, double at_y, const std::string& what, const char* more = "") {
        out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", at_x, at_y, more,
                            markup(what));
    }

    void head() {
        text(16, 30,
             cluster_.name.empty() ? model_.name
                                   : fmt::format("{} on {}", model_.name, cluster_.name),
             " font-size=\"18\" font-weight=\"600\"");
        double at = kStripLeft;
        const auto used = [&](const std::string& type) {
            return std::count_if(cluster_.nodes.begin(), cluster_.nodes.end(),
                                 [&](const spec::NodeSpec& node) { return node.type == type; });
        };
        for (const auto& [type, colour] : colour_) {
            const std::string label = fmt::format("{} × {}", used(type), type);
            out_ += fmt::format(
                "<rect x=\"{:.1f}\" y=\"46\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>\n",
                at, colour);
            text(at + 17, 56, label);
            at += 40 + 7.0 * static_cast<double>(label.size());
        }
    }

    void scale() {
        const double bottom = height_ - 60;
        const int step = model_.n_layers <= 16 ? 1 : model_.n_layers <= 48 ? 4 : 10;
        for (int layer = 0; layer <= model_.n_layers; layer += step) {
            out_ += fmt::format(
                "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" "
                "y2=\"{2:.1f}\"/>\n",
                x(layer), kPlanTop - 8, bottom);
            text(x(layer), kPlanTop - 14, std::to_string(layer),
                 " class=\"dim\" text-anchor=\"middle\"");
        }
        text(16, kPlanTop - 14, "machine", " class=\"dim\"");
        text(kStripRight + 14, kPlanTop - 14, "load, of tokens/s", " class=\"dim\"");
    }

    void label_region(const std::string& name, double y) {
        text(16, y + 10, name, " font-weight=\"600\"");
    }

    void draw_bar(std::size_t i) {
        const LayerRange range = report_.placement.layers[i];
        const spec::NodeSpec& node = cluster_.nodes[i];
        const double y = row_y_[i];
        out_ += fmt::format(
            "<rect class=\"track\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n",
            kStripLeft, y, kStripRight - kStripLeft, kMachineBar);
        std::string name = node.name;
        if (!node.type.empty() && node.type != node.name) name += " · " + node.type;
        text(16, y + 12.5, name, range.empty() ? " class=\"dim\"" : "");
        if (range.empty()) {
            text(kStripRight + 14, y + 12.5, "not used", " class=\"dim\"");
            return;
        }
        const double speed = report_.node_tokens_per_s[i];
        const double load = speed > 0 ? std::min(1.0, report_.node_flow[i] / speed) : 0;
        const double left = x(range.begin) + 0.75;
        const double bar_width = x(range.end) - x(range.begin) - 1.5;
        const auto rect = [&](double w, const char* opacity) {
            out_ += fmt::format(
                "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\" "
                "fill=\"{}\" fill-opacity=\"{}\"/>\n",
                left, y, w, kMachineBar, colour_.at(node.type), opacity);
        };
        out_ += fmt::format("<g><title>{}: layers {} to {}, {} of {} tokens/s</title>\n",
                            markup(name), range.begin, range.end - 1,
                            rate_text(report_.node_flow[i]), rate_text(speed));
        rect(bar_width, "0.35");
        rect(bar_width * load, "1");
        out_ += "</g>\n";
        text(kStripRight + 14, y + 12.5, fmt::format("{:.0f} %, {}", load * 100, rate_text(speed)),
             load > 1 - 1e-6 ? " font-weight=\"600\"" : "");
    }

    // Where on `from`'s bar the flow to `to` leaves: at its end, or where `to` takes over.
    void draw_flow(const spec::LinkFlow& flow) {
        if (report_.max_flow_tokens_per_s <= 0) return;
        const double share = flow.tokens_per_s / report_.max_flow_tokens_per_s;
        const double wide = std::max(0.8, kWidestFlow * share);
        const auto at = [](std::int32_t node) { return static_cast<std::size_t>(node); };
        if (flow.from == kCoordinator || flow.to == kCoordinator) {
            const bool enters = flow.from == kCoordinator;
            const std::size_t node = at(enters ? flow.to : flow.from);
            const double edge = enters ? kStripLeft : kStripRight;
            out_ += fmt::format(
                "<path d=\"M{:.1f} {:.1f} H{:.1f}\" stroke=\"#888\" stroke-opacity=\"0.7\" "
                "stroke-width=\"{:.1f}\" fill=\"none\"><title>coordinator, {} tokens/s</title>"
                "</path>\n",
                enters ? edge - 14 : edge, middle(node), enters ? edge : edge + 10, wide,
                rate_text(flow.tokens_per_s));
            return;
        }
        const double where = x(report_.placement.layers[at(flow.from)].end);
        const double y1 = middle(at(flow.from));
        const double y2 = middle(at(flow.to));
        const double bend = std::min(22.0, 6 + std::abs(y2 - y1) / 14);
        out_ += fmt::format(
            "<path d=\"M{0:.1f} {1:.1f} C{2:.1f} {1:.1f} {3:.1f} {4:.1f} {0:.1f} {4:.1f}\" "
            "stroke=\"#888\" stroke-opacity=\"0.55\" stroke-width=\"{5:.1f}\" fill=\"none\">"
            "<title>{6} to {7}: {8} tokens/s</title></path>\n",
            where, y1, where + bend, where - bend, y2, wide,
            markup(cluster_.nodes[at(flow.from)].name), markup(cluster_.nodes[at(flow.to)].name),
            rate_text(flow.tokens_per_s));
    }

    void foot() {
        text(16, height_ - 38,
             fmt::format("max flow {} tokens/s of at most {} (gap {:.1f} %), {:.1f} stages a "
                         "token, found by {}",
                         rate_text(report_.max_flow_tokens_per_s),
                         rate_text(report_.upper_bound_tokens_per_s), report_.gap * 100,
                         report_.mean_depth, report_.method),
             " font-weight=\"600\"");
        std::string limit = "limited by " + report_.min_cut_text;
        if (limit.size() > kMostFoot) limit = limit.substr(0, limit.rfind(' ', kMostFoot)) + " …";
        text(16, height_ - 18, limit, " class=\"dim\"");
    }

    const spec::ClusterSpec& cluster_;
    const spec::ModelSpec& model_;
    const plan::PlanReport& report_;
    std::map<std::string, const char*> colour_;
    std::vector<std::size_t> order_;
    std::vector<double> row_y_;
    std::vector<std::pair<std::string, double>> region_labels_;
    double height_ = 0;
    std::string out_;
};

}  // namespace

std::string draw_plan_svg(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                          const plan::PlanReport& report) {
    CHECK(report.placement.layers.size() == cluster.nodes.size());
    CHECK(report.node_flow.size() == cluster.nodes.size());
    CHECK(report.node_tokens_per_s.size() == cluster.nodes.size());
    return SvgPainter(cluster, model, report).draw();
}

}  // namespace helix::view
