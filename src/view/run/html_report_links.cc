#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "spec/units.h"
#include "view/run/html_report_parts.h"

namespace helix::view::html {
namespace {

constexpr std::size_t kTableRows = 12;

// Busy over time, 0 to 100 %, as an area.
std::string sparkline(const Series& series) {
    constexpr double kWidth = 150;
    constexpr double kHeight = 22;
    std::string path = fmt::format("M0 {}", kHeight);
    const auto n = static_cast<double>(std::max<std::size_t>(1, series.size()));
    for (std::size_t i = 0; i < series.size(); ++i) {
        const double y = kHeight * (1 - std::min(1.0, series[i]));
        const auto x = static_cast<double>(i);
        fmt::format_to(std::back_inserter(path), "L{:.1f} {:.1f}L{:.1f} {:.1f}", x * kWidth / n, y,
                       (x + 1) * kWidth / n, y);
    }
    return fmt::format(
        "<svg class=\"spark\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
        "aria-hidden=\"true\"><path class=\"area s1\" d=\"{}L{} {}Z\"/></svg>",
        kWidth, kHeight, path, kWidth, kHeight);
}

std::string table_row(const Recording& r, const LinkRecord& link) {
    const auto cell = [](const std::string& text) { return "<td>" + markup(text) + "</td>"; };
    const double window_s = std::max(r.window_s(), 1e-9);
    std::string out = fmt::format(
        "<tr><th scope=\"row\">{} <span class=\"to\">→</span> {}</th><td>{}</td>"
        "<td><span class=\"gauge\"><i style=\"width:{:.1f}%\"></i></span>{}</td>",
        markup(node_name(r, link.from)), markup(node_name(r, link.to)),
        sparkline(link.busy_over_time), std::min(100.0, link.busy * 100),
        markup(format_percent(link.busy)));
    out += cell(format_percent(link.busiest));
    out += cell(spec::format_bandwidth(link.carried_bytes / window_s));
    out += cell(link.bytes_per_s > 0 ? spec::format_bandwidth(link.bytes_per_s) : "–");
    out += cell(format_seconds(link.mean_wait_s));
    out += cell(format_seconds(link.most_wait_s));
    return out + "</tr>\n";
}

// The least round share that is not below the load of any link.
double axis_top(const Recording& r) {
    for (const double top : {0.05, 0.1, 0.2, 0.5}) {
        if (r.links.front().busy <= top) return top;
    }
    return 1;
}

// All links by load, most loaded first: how many are near their limit.
std::string rank_plot(const Recording& r) {
    constexpr double kWidth = 1200;
    constexpr double kHeight = 100;
    constexpr double kLeft = 62;
    constexpr double kRight = 1186;
    constexpr double kTop = 8;
    constexpr double kBottom = 78;
    const auto n = static_cast<double>(r.links.size());
    const double most = axis_top(r);
    const auto y = [&](double busy) {
        return kBottom - (kBottom - kTop) * std::min(1.0, busy / most);
    };
    std::string path = fmt::format("M{} {}", kLeft, kBottom);
    constexpr double kMostSteps = 600;
    const double step = std::max(1.0, n / kMostSteps);
    for (double i = 0; i < n; i += step) {
        const double at = y(r.links[static_cast<std::size_t>(i)].busy);
        fmt::format_to(std::back_inserter(path), "L{:.1f} {:.1f}L{:.1f} {:.1f}",
                       kLeft + (kRight - kLeft) * i / n, at,
                       kLeft + (kRight - kLeft) * std::min(n, i + step) / n, at);
    }
    const auto over = std::count_if(r.links.begin(), r.links.end(),
                                    [](const LinkRecord& link) { return link.busy >= 0.8; });
    std::string out = fmt::format(
        "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Links by load\">\n",
        kWidth, kHeight);
    for (const double share : {0.0, most / 2, most}) {
        fmt::format_to(std::back_inserter(out),
                       "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                       "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g} "
                       "%</text>\n",
                       kLeft, kRight, y(share), y(share), kLeft - 8, y(share) + 4, share * 100);
    }
    fmt::format_to(
        std::back_inserter(out),
        "<path class=\"area s1\" d=\"{}L{} {}Z\"/><text class=\"tick\" x=\"{}\" "
        "y=\"{}\" text-anchor=\"end\">{} links from the most to the least loaded; {} busy "
        "80 % of the time or more</text></svg>\n",
        path, kRight, kBottom, kRight, kHeight - 4, r.links.size(), over);
    return out;
}

}  // namespace

std::string links_section(const Recording& r, PageData& /*data*/) {
    std::string out = "<section class=\"card\"><h2>Links</h2>\n";
    if (r.links.empty()) {
        return out + "<p class=\"none\">No link carried anything.</p></section>\n";
    }
    out += rank_plot(r);
    out +=
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">most loaded</th><th "
        "scope=\"col\">over time</th><th scope=\"col\">busy</th><th scope=\"col\">at worst</th><th "
        "scope=\"col\">carried</th><th scope=\"col\">of</th><th scope=\"col\">mean wait</th><th "
        "scope=\"col\">longest</th></tr></thead><tbody>\n";
    const std::size_t shown = std::min(kTableRows, r.links.size());
    for (std::size_t i = 0; i < shown; ++i) out += table_row(r, r.links[i]);
    out += "</tbody></table></div>";
    if (shown < r.links.size()) {
        out += fmt::format("<p class=\"note\">{} more links carried less.</p>",
                           r.links.size() - shown);
    }
    return out + "</section>\n";
}

}  // namespace helix::view::html
