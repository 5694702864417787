#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "view/run/html_report_parts.h"

namespace helix::view::html {
namespace {

constexpr double kPlotLeft = 62;
constexpr double kPlotRight = 14;
constexpr double kTop = 12;
constexpr double kBottom = 28;

// From values to pixels.
struct Scale {
    double low = 0;
    double high = 1;
    double from = 0;
    double to = 1;
    bool logarithmic = false;

    double at(double value) const {
        const double share = logarithmic
                                 ? std::log(std::max(value, low) / low) / std::log(high / low)
                                 : (value - low) / (high - low);
        return from + std::clamp(share, 0.0, 1.0) * (to - from);
    }
};

class Svg {
  public:
    Svg(const char* id, double width, double height, const std::string& label) {
        add("<svg class=\"plot\" data-plot=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" "
            "aria-label=\"{}\">\n",
            id, width, height, markup(label));
    }
    template <typename... Args>
    void add(fmt::format_string<Args...> text, Args&&... args) {
        fmt::format_to(std::back_inserter(text_), text, std::forward<Args>(args)...);
    }
    std::string finish() {
        text_ += "</svg>\n";
        return std::move(text_);
    }

    void horizontal(const Scale& y, double value, double left, double right,
                    const std::string& label) {
        const double at = y.at(value);
        add("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", left,
            right, at, at);
        add("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
            left - 8, at + 4, markup(label));
    }
    void vertical_tick(double at, double bottom, const std::string& label) {
        add("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", at,
            at, bottom, bottom + 5);
        add("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", at,
            bottom + 19, markup(label));
    }
    void line(const std::vector<std::pair<double, double>>& points, const char* style, bool filled,
              double base) {
        if (points.empty()) return;
        std::string path;
        for (const auto& [x, y] : points) {
            fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x,
                           y);
        }
        if (filled) {
            add("<path class=\"area {}\" d=\"{}L{:.1f} {:.1f}L{:.1f} {:.1f}Z\"/>\n", style, path,
                points.back().first, base, points.front().first, base);
        }
        add("<path class=\"line {}\" d=\"{}\"/>\n", style, path);
    }

  private:
    std::string text_;
};

// Of the run's time, from its begin.
std::string clock_label(double seconds, double span_s) {
    if (span_s >= 7200) return fmt::format("{:.4g} h", seconds / 3600);
    if (span_s >= 600) return fmt::format("{:.4g} min", seconds / 60);
    return fmt::format("{:.4g} s", seconds);
}

std::vector<double> clock_ticks(double span_s) {
    const double unit = span_s >= 7200 ? 3600 : span_s >= 600 ? 60 : 1;
    std::vector<double> ticks = round_ticks(0, span_s / unit, 10);
    for (double& tick : ticks) tick *= unit;
    return ticks;
}

// Outside the window nothing counts: shown as such.
void draw_window(Svg& svg, const Recording& r, const Scale& x, double top, double bottom) {
    const double begin = x.at(r.window_begin_s - r.begin_s);
    const double end = x.at(r.window_end_s - r.begin_s);
    const auto shade = [&](double from, double to, const char* label) {
        if (to - from < 1) return;
        svg.add(
            "<rect class=\"outside\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
            "height=\"{:.1f}\"/>",
            from, top, to - from, bottom - top);
        if (to - from < 54) return;
        svg.add("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", from + 6, top + 14,
                label);
    };
    shade(x.from, begin, "warm-up");
    shade(end, x.to, "after");
    for (const auto& [at_s, text] : r.marks) {
        const double at = x.at(at_s - r.begin_s);
        svg.add(
            "<g class=\"mark\"><title>{}: {}</title><line x1=\"{:.1f}\" x2=\"{:.1f}\" "
            "y1=\"{:.1f}\" y2=\"{:.1f}\"/><path d=\"M{:.1f} {:.1f}l-5 -8h10z\"/></g>\n",
            markup(format_seconds(at_s - r.begin_s)), markup(text), at, at, top, bottom, at, top);
    }
}

double highest(const TimePlot& plot) {
    double most = std::max(plot.most, plot.limit * 1.02);
    for (const PlotSeries& series : plot.series) {
        for (const double v : series.values) most = std::max(most, v);
    }
    return most > 0 ? most : 1;
}

}  // namespace

std::string legend(const std::vector<PlotSeries>& series) {
    std::string out = "<span class=\"legend\">";
    for (const PlotSeries& s : series) {
        out += fmt::format("<span><i class=\"{}\"></i>{}</span>", s.style, markup(s.name));
    }
    return out + "</span>";
}

std::string time_plot(const Recording& r, const TimePlot& plot, PageData& data) {
    const double span_s = std::max(r.end_s - r.begin_s, 1e-9);
    const double right = plot.width - kPlotRight;
    const double bottom = plot.height - kBottom;
    const Scale x{0, span_s, kPlotLeft, right};
    const std::vector<double> ticks = round_ticks(0, highest(plot), 4);
    const double step = ticks.size() > 1 ? ticks[1] : highest(plot);
    const Scale y{0, std::max(highest(plot), ticks.back() + step * 0.25), bottom, kTop};
    std::string names;
    for (const PlotSeries& s : plot.series) names += (names.empty() ? "" : ", ") + s.name;
    Svg svg(plot.id, plot.width, plot.height, names + " over time");
    for (const double tick : ticks) svg.horizontal(y, tick, kPlotLeft, right, plot.format(tick));
    for (const double tick : clock_ticks(span_s)) {
        svg.vertical_tick(x.at(tick), bottom, clock_label(tick, span_s));
    }
    draw_window(svg, r, x, kTop, bottom);
    auto points = PageData::array();
    auto styles = PageData::array();
    const std::size_t n = plot.series.empty() ? 0 : plot.series.front().values.size();
    std::vector<double> middles;
    for (std::size_t b = 0; b < n; ++b) {
        const double begin_s = static_cast<double>(b) * r.bucket_s;
        const double end_s = std::min(begin_s + r.bucket_s, span_s);
        middles.push_back(x.at((begin_s + end_s) / 2));
        auto texts = PageData::array();
        for (const PlotSeries& s : plot.series) texts.push_back(plot.format(s.values[b]));
        points.push_back({std::round(middles.back() * 10) / 10,
                          fmt::format("{} to {}", format_seconds(begin_s), format_seconds(end_s)),
                          texts});
    }
    for (const PlotSeries& s : plot.series) {
        std::vector<std::pair<double, double>> line;
        for (std::size_t b = 0; b < n; ++b) line.emplace_back(middles[b], y.at(s.values[b]));
        svg.line(line, s.style, s.filled, bottom);
        styles.push_back({s.name, s.style});
    }
    if (plot.limit > 0) {
        svg.add("<line class=\"limit\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                kPlotLeft, right, y.at(plot.limit), y.at(plot.limit));
    }
    svg.add("<line class=\"cursor\" y1=\"{:.1f}\" y2=\"{:.1f}\" visibility=\"hidden\"/>\n", kTop,
            bottom);
    data["plots"][plot.id] = {{"width", plot.width}, {"points", points}, {"series", styles}};
    return svg.finish();
}

namespace {

std::vector<double> cdf_shares() {
    std::vector<double> shares;
    for (int i = 0; i < 200; ++i) shares.push_back(i / 200.0);
    for (const double tail : {0.9975, 0.999, 1.0}) shares.push_back(tail);
    return shares;
}

std::vector<double> log_ticks(double low, double high) {
    std::vector<double> ticks;
    const bool fine = high / low < 1000;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
        for (const double factor : {1.0, 2.0, 5.0}) {
            if (!fine && factor != 1) continue;
            const double tick = power * factor;
            if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push_back(tick);
        }
    }
    return ticks;
}

Scale cdf_scale(const sim::Distribution& values, double limit_s, double right) {
    constexpr std::array<double, 3> kEnds = {0.002, 0.5, 0.998};
    const std::vector<double> ends = values.quantiles(kEnds);
    double low = ends[0];
    double high = std::max(ends[2], limit_s * 1.1);
    if (limit_s > 0) low = std::min(low, limit_s * 0.9);
    if (low > 0 && high / low > 12) return {low, high, kPlotLeft, right, true};
    if (!(high > 0)) high = 1;
    return {0, high * 1.02, kPlotLeft, right};
}

// Dots at percentiles, their names and values to the right of them or, near the edge, to the left.
void draw_percentiles(Svg& svg, const CdfPlot& plot, const Scale& x, const Scale& y) {
    constexpr std::array<double, 3> kShares = {0.5, 0.95, 0.99};
    const std::vector<double> values = plot.values.quantiles(kShares);
    // Texts to the left of the upper dots step down, those to the right up.
    double next_left = y.to + 8;
    double next_right = 1e9;
    for (std::size_t i = kShares.size(); i-- > 0;) {
        const double at = x.at(values[i]);
        const bool left = at > x.from + (x.to - x.from) * 0.72;
        // A flat curve would run through a text beside its dot.
        const bool flat = left && x.at(plot.values.quantile(kShares[i] - 0.04)) < at - 60;
        double text_y = y.at(kShares[i]) + (flat ? 19 : left ? 0 : 13);
        if (left) {
            text_y = std::max(text_y, next_left);
            next_left = text_y + 15;
        } else {
            text_y = next_right > 1e8 ? text_y : std::max(text_y, next_right);
            next_right = text_y + 15;
        }
        svg.add("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", plot.style, at,
                y.at(kShares[i]));
        svg.add(
            "<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">p{:.0f} "
            "{}</text>\n",
            at + (left ? -9 : 9), text_y, left ? "end" : "start", kShares[i] * 100,
            markup(format_seconds(values[i])));
    }
}

}  // namespace

std::string cdf_plot(const CdfPlot& plot, PageData& data) {
    constexpr double kWidth = 580;
    constexpr double kHeight = 260;
    if (plot.values.count() == 0) return "<p class=\"none\">No samples in the window.</p>\n";
    const double bottom = kHeight - kBottom;
    const Scale x = cdf_scale(plot.values, plot.limit_s, kWidth - kPlotRight);
    const Scale y{0, 1, bottom, kTop};
    Svg svg(plot.id, kWidth, kHeight, "Cumulative distribution");
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
        svg.horizontal(y, share, kPlotLeft, x.to, fmt::format("{:.0f} %", share * 100));
    }
    const std::vector<double> ticks =
        x.logarithmic ? log_ticks(x.low, x.high) : round_ticks(x.low, x.high, 6);
    for (const double tick : ticks) svg.vertical_tick(x.at(tick), bottom, format_seconds(tick));
    if (plot.limit_s > 0) {
        const double at = x.at(plot.limit_s);
        svg.add("<line class=\"limit\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                at, at, kTop, bottom);
        const bool left = at > x.from + 80;
        svg.add(
            "<text class=\"limit\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">limit "
            "{}</text>\n",
            at + (left ? -5 : 5), bottom - 6, left ? "end" : "start",
            markup(format_seconds(plot.limit_s)));
    }
    const std::vector<double> shares = cdf_shares();
    const std::vector<double> values = plot.values.quantiles(shares);
    std::vector<std::pair<double, double>> line;
    auto points = PageData::array();
    for (std::size_t i = 0; i < shares.size(); ++i) {
        if (values[i] > x.high) break;
        line.emplace_back(x.at(values[i]), y.at(shares[i]));
        points.push_back({std::round(line.back().first * 10) / 10,
                          "up to " + format_seconds(values[i]),
                          {fmt::format("{:.1f} %", shares[i] * 100)}});
    }
    svg.line(line, plot.style, true, bottom);
    draw_percentiles(svg, plot, x, y);
    svg.add("<line class=\"cursor\" y1=\"{:.1f}\" y2=\"{:.1f}\" visibility=\"hidden\"/>\n", kTop,
            bottom);
    data["plots"][plot.id] = {{"width", kWidth},
                              {"points", points},
                              {"series", PageData::array({{"of samples", plot.style}})}};
    return svg.finish();
}

}  // namespace helix::view::html
