#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/report/distribution.h"
#include "sim/report/recording.h"
#include "view/draw/figures.h"

// The pieces of html_report.cc. Text in it passes through markup(); what scripts need goes
// through the page's data and is escaped there.

namespace helix::view::html {

using sim::LinkRecord;
using sim::NodeRecord;
using sim::Recording;
using sim::Series;

std::string node_name(const Recording& r, std::int32_t node);

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
    const sim::Distribution& values;
    double limit_s = 0;  // 0 = none
};
std::string cdf_plot(const CdfPlot& plot, PageData& data);

std::string nodes_section(const Recording& r, PageData& data);
std::string links_section(const Recording& r, PageData& data);
std::string timelines_section(const Recording& r, PageData& data);

const char* style_sheet();
const char* script();

}  // namespace helix::view::html
