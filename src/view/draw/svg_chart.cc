#include "view/draw/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "view/draw/figures.h"

namespace helix::view {
namespace {

constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kPlotTop = 64;  // below title and legend
constexpr double kPlotHeight = 230;
constexpr double kPlotBottom = kPlotTop + kPlotHeight;
constexpr double kBelow = 46;
constexpr double kBar = 22;       // at least
constexpr double kBarText = 6.2;  // per character, above a bar
constexpr double kGroupText = 7;  // and below a group
constexpr double kBetweenGroups = 26;
constexpr double kLegendEntry = 7.2;  // per character

// Ink that a grey page of either kind sets off.
constexpr const char* kStyle =
    "<style>text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600;font-size:14px}"
    ".g{stroke:#8884;stroke-width:1}.a{stroke:#888;stroke-width:1}"
    ".c{fill:none;stroke-width:2}.v{font-size:10px}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>\n";

const char* colour(std::size_t series) {
    return kPalette[series % kPalette.size()];
}

class Picture {
  public:
    Picture(double width, const std::string& title) : width_(width) {
        const double height = kPlotBottom + kBelow;
        add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
            "width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\" aria-label=\"{}\">\n{}",
            width, height, width, height, markup(title), kStyle);
        text(kLeft, 20, "start", "t", title);
    }
    template <typename... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    }
    void text(double x, double y, const char* anchor, const char* style, std::string_view words) {
        add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y,
            anchor, style, markup(words));
    }
    void legend(const std::vector<std::string>& names) {
        double x = kLeft;
        for (std::size_t i = 0; i < names.size(); ++i) {
            add("<rect x=\"{:.1f}\" y=\"33\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{}\"/>", x,
                colour(i));
            text(x + 16, 43, "start", "l", names[i]);
            x += 30 + kLegendEntry * static_cast<double>(names[i].size());
        }
    }
    // A horizontal line of the grid and its figure.
    void level(double y, const std::string& label) {
        add("<line class=\"g\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
            width_ - kRight, y, y);
        text(kLeft - 8, y + 4, "end", "k", label);
    }
    void vertical_unit(const std::string& unit) {
        const double middle = (kPlotTop + kPlotBottom) / 2;
        add("<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}"
            "</text>\n",
            middle, markup(unit));
    }
    void base_line() {
        add("<line class=\"a\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft,
            width_ - kRight, kPlotBottom, kPlotBottom);
    }
    std::string finish() {
        out_ += "</svg>\n";
        return std::move(out_);
    }

  private:
    double width_;
    std::string out_;
};

bool shown(double value) {
    return std::isfinite(value) && value >= 0;
}

template <typename Series>
double width_of_legend(const std::vector<Series>& series) {
    double width = kLeft + kRight;
    for (const Series& s : series) width += 30 + kLegendEntry * static_cast<double>(s.name.size());
    return width;
}

template <typename Series>
std::vector<std::string> names_of(const std::vector<Series>& series) {
    std::vector<std::string> names;
    for (const Series& s : series) names.push_back(s.name);
    return names;
}

std::string bar_label(double value) {
    return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

// As wide as the longest of the values above the bars.
double bar_width(const BarChart& chart) {
    std::size_t longest = 0;
    for (const BarChart::Series& s : chart.series) {
        for (const double v : s.values) {
            if (shown(v)) longest = std::max(longest, bar_label(v).size());
        }
    }
    return std::max(kBar, kBarText * static_cast<double>(longest) + 2);
}

}  // namespace

std::string draw_bars(const BarChart& chart) {
    const double bar = bar_width(chart);
    const double group = bar * static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
    const auto n_groups = static_cast<double>(chart.groups.size());
    std::size_t longest = 0;
    for (const std::string& name : chart.groups) longest = std::max(longest, name.size());
    const double apart =
        std::max(group + kBetweenGroups, kGroupText * static_cast<double>(longest) + 12);
    const double width =
        std::max({kLeft + kRight + n_groups * apart, width_of_legend(chart.series), 360.0});
    const double pitch = (width - kLeft - kRight) / std::max(1.0, n_groups);
    double most = 0;
    for (const BarChart::Series& s : chart.series) {
        for (const double v : s.values) most = std::max(most, shown(v) ? v : 0);
    }
    if (most <= 0) most = 1;
    most *= 1.08;
    const auto y = [&](double value) { return kPlotBottom - value / most * kPlotHeight; };
    Picture picture(width, chart.title);
    picture.legend(names_of(chart.series));
    for (const double tick : round_ticks(0, most, 5)) {
        picture.level(y(tick), format_count(tick));
    }
    picture.vertical_unit(chart.unit);
    for (std::size_t g = 0; g < chart.groups.size(); ++g) {
        const double middle = kLeft + pitch * (static_cast<double>(g) + 0.5);
        for (std::size_t s = 0; s < chart.series.size(); ++s) {
            const std::vector<double>& values = chart.series[s].values;
            if (g >= values.size() || !shown(values[g])) continue;
            const double x = middle - group / 2 + bar * static_cast<double>(s);
            picture.add(
                "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                "fill=\"{}\"><title>{}, {}: {}</title></rect>",
                x + 1, y(values[g]), bar - 2, kPlotBottom - y(values[g]), colour(s),
                markup(chart.groups[g]), markup(chart.series[s].name), bar_label(values[g]));
            picture.text(x + bar / 2, y(values[g]) - 4, "middle", "v", bar_label(values[g]));
        }
        picture.text(middle, kPlotBottom + 18, "middle", "k", chart.groups[g]);
    }
    picture.base_line();
    return picture.finish();
}

namespace {

void x_axis(Picture& picture, double right, double most, const std::string& unit) {
    for (const double tick : round_ticks(0, most, 8)) {
        const double x = kLeft + tick / most * (right - kLeft);
        picture.add(
            "<line class=\"a\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>", x,
            kPlotBottom, kPlotBottom + 5);
        picture.text(x, kPlotBottom + 18, "middle", "k", fmt::format("{:g}", tick));
    }
    picture.text((kLeft + right) / 2, kPlotBottom + 38, "middle", "k", unit);
}

template <typename Scale>
void curve(Picture& picture, std::size_t series, const std::string& name,
           const std::vector<std::pair<double, double>>& points, const Scale& scale) {
    std::string path;
    for (const auto& point : points) {
        const auto [x, y] = scale(point);
        fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    }
    if (path.empty()) return;
    picture.add("<path class=\"c\" stroke=\"{}\" d=\"{}\"><title>{}</title></path>\n",
                colour(series), path, markup(name));
}

template <typename Series>
double greatest_x(const std::vector<Series>& series) {
    double most = 0;
    for (const Series& s : series) {
        if (!s.points.empty()) most = std::max(most, s.points.back().first);
    }
    return most > 0 ? most : 1;
}

}  // namespace

std::string draw_shares(const ShareChart& chart) {
    const double width = std::max(width_of_legend(chart.series), 520.0);
    const double most = greatest_x(chart.series);
    const double right = width - kRight;
    Picture picture(width, chart.title);
    picture.legend(names_of(chart.series));
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
        picture.level(kPlotBottom - share * kPlotHeight, fmt::format("{:.0f} %", share * 100));
    }
    const auto scale = [&](const std::pair<double, double>& point) {
        return std::pair(kLeft + point.first / most * (right - kLeft),
                         kPlotBottom - point.second * kPlotHeight);
    };
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        curve(picture, s, chart.series[s].name, chart.series[s].points, scale);
    }
    picture.base_line();
    x_axis(picture, right, most, chart.unit);
    picture.vertical_unit("share");
    return picture.finish();
}

std::string draw_lines(const LineChart& chart) {
    const double width = std::max(width_of_legend(chart.series), 640.0);
    const double most_x = greatest_x(chart.series);
    double most_y = 0;
    for (const LineChart::Series& s : chart.series) {
        for (const auto& point : s.points) most_y = std::max(most_y, point.second);
    }
    most_y = most_y > 0 ? most_y * 1.05 : 1;
    const double right = width - kRight;
    Picture picture(width, chart.title);
    picture.legend(names_of(chart.series));
    for (const double tick : round_ticks(0, most_y, 5)) {
        picture.level(kPlotBottom - tick / most_y * kPlotHeight, format_count(tick));
    }
    const auto scale = [&](const std::pair<double, double>& point) {
        return std::pair(kLeft + point.first / most_x * (right - kLeft),
                         kPlotBottom - point.second / most_y * kPlotHeight);
    };
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        curve(picture, s, chart.series[s].name, chart.series[s].points, scale);
    }
    picture.base_line();
    x_axis(picture, right, most_x, chart.x_unit);
    picture.vertical_unit(chart.y_unit);
    return picture.finish();
}

}  // namespace helix::view
