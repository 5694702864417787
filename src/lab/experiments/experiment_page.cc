#include "lab/experiments/experiment_page.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "spec/text_file.h"

namespace helix::lab {

void ExperimentPage::heading(const std::string& text) {
    markdown_ += fmt::format("\n## {}\n", text);
}

void ExperimentPage::text(const std::string& paragraph) {
    markdown_ += "\n" + paragraph + "\n";
}

void ExperimentPage::table(ExperimentTable table) {
    const auto line = [](const std::vector<std::string>& cells) {
        std::string out = "|";
        for (const std::string& c : cells) out += " " + c + " |";
        return out + "\n";
    };
    markdown_ += fmt::format("\n**{}**\n\n", table.title) + line(table.head);
    markdown_ += line(std::vector<std::string>(table.head.size(), "---"));
    for (const std::vector<std::string>& row : table.rows) markdown_ += line(row);
    tables_.push_back(std::move(table));
}

void ExperimentPage::picture(const std::string& name, const std::string& title, std::string svg) {
    const std::string file = fmt::format("{}-{}.svg", stem_, name);
    markdown_ += fmt::format("\n![{}](img/{})\n", title, file);
    pictures_.emplace_back(file, std::move(svg));
}

void ExperimentPage::bars(const std::string& name, const view::BarChart& chart) {
    picture(name, chart.title, view::draw_bars(chart));
}

void ExperimentPage::shares(const std::string& name, const view::ShareChart& chart) {
    picture(name, chart.title, view::draw_shares(chart));
}

void ExperimentPage::lines(const std::string& name, const view::LineChart& chart) {
    picture(name, chart.title, view::draw_lines(chart));
}

base::Status ExperimentPage::write(const std::string& directory) const {
    std::error_code error;
    std::filesystem::create_directories(directory + "/img", error);
    if (error) {
        return base::Error{base::Errc::io,
                           fmt::format("--output {}: {}", directory, error.message())};
    }
    TRY_VOID(spec::write_text_file(fmt::format("{}/{}.md", directory, stem_), markdown_));
    for (const auto& [file, svg] : pictures_) {
        TRY_VOID(spec::write_text_file(fmt::format("{}/img/{}", directory, file), svg));
    }
    return base::Ok{};
}

std::string stand_in(bool planned) {
    return planned ? " (stand-in)" : "";
}

std::string method_cell(const std::string& method, const ExperimentResult& result) {
    return method_title(method) + stand_in(result.planned && method != "own");
}

std::string method_label(const std::string& method, const ExperimentResult& result) {
    return method_cell(method, result);
}

std::string cell(double value, int digits) {
    if (!(value > 0) || !std::isfinite(value)) return "-";
    return fmt::format("{:.{}f}", value, digits);
}

std::string ratio_cell(double ours, double theirs) {
    return ours > 0 && theirs > 0 ? fmt::format("{:.2f}", ours / theirs) : "-";
}

std::string error_cell(double ours, double theirs) {
    return ours > 0 && theirs > 0 ? fmt::format("{:+.1f} %", (ours / theirs - 1) * 100) : "-";
}

std::string latency_cell(const sim::LatencySummary& latency) {
    if (latency.count == 0) return "-";
    return fmt::format("{:.2f} / {:.2f} / {:.2f}", latency.mean, latency.p50, latency.p95);
}

view::ShareChart::Series latency_curve(const std::string& name,
                                       const sim::LatencySummary& latency) {
    constexpr int kPoints = 100;
    view::ShareChart::Series series;
    series.name = name;
    if (!latency.samples) return series;
    for (int i = 0; i < kPoints; ++i) {
        const double share = i / static_cast<double>(kPoints);
        series.points.emplace_back(latency.samples->percentile(share), share);
    }
    return series;
}

}  // namespace helix::lab
