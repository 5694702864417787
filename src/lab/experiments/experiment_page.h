#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/experiments/experiment_case.h"
#include "view/draw/svg_chart.h"

namespace helix::lab {

struct ExperimentTable {
    std::string title;
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> rows;
};

// What experiments write: one Markdown page, and pictures beside it in img/.
class ExperimentPage {
  public:
    // stem: of the page's file, and of its pictures'.
    explicit ExperimentPage(std::string stem = "experiments") : stem_(std::move(stem)) {}
    void heading(const std::string& text);
    void text(const std::string& paragraph);
    void table(ExperimentTable table);
    // name: of the file, after the stem and a dash.
    void bars(const std::string& name, const view::BarChart& chart);
    void shares(const std::string& name, const view::ShareChart& chart);
    void lines(const std::string& name, const view::LineChart& chart);

    const std::vector<ExperimentTable>& tables() const { return tables_; }
    const std::string& markdown() const { return markdown_; }
    // directory/STEM.md and directory/img/STEM-*.svg.
    base::Status write(const std::string& directory) const;

  private:
    void picture(const std::string& name, const std::string& title, std::string svg);

    std::string stem_;
    std::string markdown_;
    std::vector<ExperimentTable> tables_;
    std::vector<std::pair<std::string, std::string>> pictures_;  // file name, SVG
};

// " (stand-in)" beside what was not run with the published layout.
std::string stand_in(bool planned);
std::string method_cell(const std::string& method, const ExperimentResult& result);
std::string method_label(const std::string& method, const ExperimentResult& result);  // in charts
constexpr const char* kPlannedNote =
    "Stand-in: the published layout is not among the inputs. Ours is made by the method's rule; "
    "for "
    "Helix it is our planner's of most flow without more stages than the published one has, and no "
    "result of Helix.";

// Cells of tables; "-" where there is nothing to show.
std::string cell(double value, int digits);
std::string ratio_cell(double ours, double theirs);  // "1.02"
std::string error_cell(double ours, double theirs);  // "+1.8 %"
// mean / p50 / p95.
std::string latency_cell(const sim::LatencySummary& latency);
// Points of the curve of a distribution, for charts.
view::ShareChart::Series latency_curve(const std::string& name, const sim::LatencySummary& latency);

}  // namespace helix::lab
