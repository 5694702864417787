#include "view/draw/svg_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace helix::view::svg_chart_test {
namespace {

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++n;
    }
    return n;
}

double attribute(const std::string& text, std::size_t after, const std::string& name) {
    const std::size_t at = text.find(" " + name + "=\"", after) + name.size() + 3;
    return std::stod(text.substr(at));
}

TEST(SvgChart, BarsAreAsHighAsTheirValues) {
    const BarChart chart{"Rates", "tokens/s", {"A", "B"}, {{"one", {100, 50}}, {"two", {25, 75}}}};
    const std::string svg = draw_bars(chart);
    const auto height = [&](const std::string& title) {
        const std::size_t label = svg.find("<title>" + title);
        EXPECT_NE(label, std::string::npos) << title;
        return attribute(svg, svg.rfind("<rect", label), "height");
    };
    EXPECT_NEAR(height("B, one") / height("A, one"), 0.5, 0.005);
    EXPECT_NEAR(height("A, two") / height("A, one"), 0.25, 0.005);
    EXPECT_NEAR(height("B, two") / height("A, one"), 0.75, 0.005);
    for (const char* text : {"Rates", "tokens/s", ">A<", ">B<", ">one<", ">two<"}) {
        EXPECT_NE(svg.find(text), std::string::npos) << text;
    }
    EXPECT_EQ(draw_bars(chart), svg);
}

TEST(SvgChart, ValuesThatAreMissingHaveNoBar) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    const BarChart chart{"", "s", {"A", "B", "C"}, {{"one", {-1, none, 3}}, {"short", {1}}}};
    const std::string svg = draw_bars(chart);
    EXPECT_EQ(count_of(svg, "<title>"), 2U);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(SvgChart, NothingToShowIsStillAPicture) {
    for (const std::string& svg : {draw_bars({}), draw_shares({}), draw_bars({"t", "u", {"A"}, {}}),
                                   draw_shares({"t", "u", {{"empty", {}}}})}) {
        EXPECT_TRUE(svg.starts_with("<svg xmlns="));
        EXPECT_TRUE(svg.ends_with("</svg>\n"));
        EXPECT_EQ(svg.find("nan"), std::string::npos);
        EXPECT_EQ(svg.find("inf"), std::string::npos);
    }
}

TEST(SvgChart, TextsCannotBreakOut) {
    const std::string evil = "<script>\"&";
    const BarChart bars{evil, evil, {evil}, {{evil, {1}}}};
    const ShareChart shares{evil, evil, {{evil, {{1, 0}, {2, 1}}}}};
    for (const std::string& svg : {draw_bars(bars), draw_shares(shares)}) {
        EXPECT_EQ(svg.find("<script"), std::string::npos);
        EXPECT_NE(svg.find("&lt;script&gt;"), std::string::npos);
    }
}

TEST(SvgChart, CurvesRunFromLowToHigh) {
    const ShareChart chart{"Waiting", "seconds", {{"fast", {{0, 0}, {1, 0.5}, {4, 1}}}}};
    const std::string svg = draw_shares(chart);
    const std::size_t at = svg.find(" d=\"M");
    ASSERT_NE(at, std::string::npos);
    const std::string path = svg.substr(at + 5, svg.find('"', at + 5) - at - 5);
    double x = 0;
    double y = 0;
    double last_x = 0;
    double last_y = 0;
    ASSERT_EQ(std::sscanf(path.c_str(), "%lf %lf", &x, &y), 2) << path;
    ASSERT_EQ(std::sscanf(path.substr(path.rfind('L') + 1).c_str(), "%lf %lf", &last_x, &last_y), 2)
        << path;
    EXPECT_LT(x, last_x);
    EXPECT_GT(y, last_y);  // downwards in a picture
    EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(SvgChart, LinesGoThroughTheirPoints) {
    LineChart chart{"Machines", "s", "machines", {{"a", {{0, 0}, {50, 10}, {100, 5}}}, {"b", {}}}};
    const std::string svg = draw_lines(chart);
    EXPECT_EQ(count_of(svg, "<path"), 1U);
    const std::size_t path = svg.find(" d=\"M");
    ASSERT_NE(path, std::string::npos);
    double x[3];
    double y[3];
    ASSERT_EQ(std::sscanf(svg.c_str() + path, " d=\"M%lf %lfL%lf %lfL%lf %lf\"", &x[0], &y[0],
                          &x[1], &y[1], &x[2], &y[2]),
              6);
    EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.2);
    EXPECT_NEAR((y[0] - y[2]) / (y[0] - y[1]), 0.5, 0.01);
    for (const char* text : {"Machines", ">s<", ">machines<", ">a<"}) {
        EXPECT_NE(svg.find(text), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace helix::view::svg_chart_test
