#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/report/recording.h"

// The pieces of html_report.cc. Text in markup passes through escape_html(); what scripts need goes
// through the page's data and is escaped there.

namespace helix::sim::html {

constexpr const char* kNoBreak = "\u00a0";  // between a number and its unit

std::string escape_html(std::string_view text);
// "1,234", "252.1", "3.07": for people, at least three significant digits.
std::string format_count(double value);
std::string format_percent(double share);  // "0.4 %", "97 %", with kNoBreak
std::string format_seconds(double seconds);
std::string node_name(const Recording& r, std::int32_t node);

// Round numbers inside [low, high], about n of them.
std::vector<double> round_ticks(double low, double high, int n);

// Data for the page's script, under "plots", "nodes" ...
using PageData = nlohmann::json;

struct PlotSeries {
    std::string name;
    const char* style;  // "s1" to "s4", or "muted"
    Series values;
    bool filled = false;
};
struct TimePlot {
    const char* id;
    double width = 1200;
    double height = 240;
    std::vector<PlotSeries> series;
    std::function<std::string(double)> format;
    double limit = 0;  // a line at this value; 0 = none
    double most = 0;   // the axis goes at least so far
};
// An SVG of values on the recording's time axis, and its hover texts into data.
std::string time_plot(const Recording& r, const TimePlot& plot, PageData& data);
std::string legend(const std::vector<PlotSeries>& series);

struct CdfPlot {
    const char* id;
    const char* style;
    const Distribution& values;
    double limit_s = 0;  // 0 = none
};
std::string cdf_plot(const CdfPlot& plot, PageData& data);

std::string nodes_section(const Recording& r, PageData& data);
std::string links_section(const Recording& r, PageData& data);
std::string timelines_section(const Recording& r, PageData& data);

const char* style_sheet();
const char* script();

}  // namespace helix::sim::html
