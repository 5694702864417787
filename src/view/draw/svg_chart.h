#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace helix::view {

// Charts as SVG pictures of one file without scripts or outside references, for documents: readable
// on light and dark pages, labelled axes, texts escaped. Equal charts give equal bytes.

// Groups of bars side by side, one bar of each series in a group.
struct BarChart {
    std::string title;
    std::string unit;  // of the vertical axis: "decode tokens/s"
    std::vector<std::string> groups;
    struct Series {
        std::string name;
        std::vector<double> values;  // parallel to groups; negative or NaN: no bar
    };
    std::vector<Series> series;  // up to six have colours of their own
};
std::string draw_bars(const BarChart& chart);

// Rising curves of shares, as cumulative distributions are.
struct ShareChart {
    std::string title;
    std::string unit;  // of the horizontal axis: "seconds to the first token"
    struct Series {
        std::string name;
        std::vector<std::pair<double, double>> points;  // (value, share 0..1), both rising
    };
    std::vector<Series> series;
};
std::string draw_shares(const ShareChart& chart);

// Curves over time or another quantity that rises along each of them.
struct LineChart {
    std::string title;
    std::string x_unit;
    std::string y_unit;
    struct Series {
        std::string name;
        std::vector<std::pair<double, double>> points;  // (x, y); x rising, y not negative
    };
    std::vector<Series> series;
};
std::string draw_lines(const LineChart& chart);

}  // namespace helix::view
