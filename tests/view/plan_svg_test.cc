#include "view/plan/plan_svg.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/plan_fixtures.h"
#include "plan/planner.h"

namespace helix::view::plan_svg_test {
namespace {

using plan::cluster_of;
using plan::machine;
using plan::small_model;

struct Planned {
    spec::ClusterSpec cluster;
    spec::ModelSpec model = small_model(12);
    plan::PlanReport report;
};

// Three machines hold the model; the fourth is too small for a layer.
Planned plan_three() {
    Planned planned;
    planned.cluster = cluster_of({machine("a<b>", 6, 1e-4), machine("b&\"c\"", 6, 1e-4),
                                  machine("c", 6, 1e-4), machine("tiny", 0.1, 1e-4)});
    planned.cluster.nodes[0].region = "cellar";
    planned.cluster.nodes[1].type = "gpu";
    auto report = plan::plan(planned.cluster, planned.model, plan::PlanOptions{});
    EXPECT_TRUE(report.ok()) << report.error().message;
    planned.report = std::move(*report);
    return planned;
}

// Every element is closed in order and no text holds a bare '<' or '&'.
bool well_formed(const std::string& xml) {
    std::vector<std::string> open;
    for (std::size_t i = 0; i < xml.size(); ++i) {
        if (xml[i] == '&') {
            const std::string entity = xml.substr(i, xml.find(';', i) - i);
            if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&#34") {
                return false;
            }
        }
        if (xml[i] != '<') continue;
        const std::size_t end = xml.find('>', i);
        if (end == std::string::npos) return false;
        const std::string tag = xml.substr(i + 1, end - i - 1);
        if (tag.find('<') != std::string::npos) return false;
        if (tag[0] == '/') {
            if (open.empty() || open.back() != tag.substr(1)) return false;
            open.pop_back();
        } else if (tag.back() != '/') {
            open.push_back(tag.substr(0, tag.find(' ')));
        }
        i = end;
    }
    return open.empty();
}

TEST(PlanSvg, IsWellFormedWhateverTheNames) {
    const Planned planned = plan_three();
    const std::string svg = draw_plan_svg(planned.cluster, planned.model, planned.report);
    EXPECT_TRUE(well_formed(svg)) << svg;
    EXPECT_NE(svg.find("a&lt;b&gt;"), std::string::npos);
    EXPECT_NE(svg.find("region cellar"), std::string::npos);
    EXPECT_NE(svg.find("not used"), std::string::npos);
    EXPECT_FALSE(well_formed("<svg><g></svg>"));
    EXPECT_FALSE(well_formed("<svg>a & b</svg>"));
}

}  // namespace
}  // namespace helix::view::plan_svg_test
