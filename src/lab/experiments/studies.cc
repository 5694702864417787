#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lab/experiments/experiments.h"
#include "lab/experiments/published.h"

// The paper's deep dives: placement alone (6.6) and scheduling alone (6.7).

namespace helix::lab {
namespace {

struct PlacementRow {
    const char* cluster;
    const char* method;
    double simulated = 0;  // published: decode tokens/s under the max-flow scheduler
    double measured = 0;   // of the real system
};

const std::vector<PlacementRow>& placement_rows() {
    static const std::vector<PlacementRow> rows = {
        {"single24", "helix", 252.1, 230.8},
        {"single24", "petals", 0, 194.5},
        {"single24", "swarm", 0, 109.4},
        {"single24", "own"},
        {"distributed24", "helix", 98.0},
        {"distributed24", "petals", 66.6},
        {"distributed24", "swarm", 41.6},
        {"distributed24", "own"},
        {"highhet42", "helix", 645.6},
        {"highhet42", "petals"},
        {"highhet42", "swarm"},
        {"highhet42", "own"},
    };
    return rows;
}

ExperimentCase placement_case(const PlacementRow& row, ExperimentPolicy policy) {
    return {.cluster = row.cluster,
            .model = k70b,
            .method = row.method,
            .policy = policy,
            .scheduler = sim::ReferenceScheduler::max_flow,
            .detail = true};
}

// How much of the window the machines of each type compute, on average: "A100 92 %, T4 61 %".
std::string busy_by_type(const sim::SimReport& report) {
    struct Sum {
        double busy = 0;
        std::int32_t machines = 0;
    };
    std::map<std::string, Sum> sums;
    for (const sim::NodeUse& node : report.detail->nodes) {
        Sum& sum = sums[node.type];
        sum.busy += report.node_busy.at(static_cast<std::size_t>(node.node));
        ++sum.machines;
    }
    std::string out;
    for (const auto& [type, sum] : sums) {
        out += fmt::format("{}{} {:.0f} %", out.empty() ? "" : ", ", type,
                           sum.busy / sum.machines * 100);
    }
    return out;
}

// "n3 to n7, 91 %": the link that sends for the most of the window.
std::string busiest_link(const sim::SimReport& report) {
    if (report.detail->links.empty()) return "-";
    const sim::LinkUse& link = report.detail->links.front();
    return fmt::format("{} to {}, {:.0f} %", link.from, link.to, link.busy * 100);
}

// A link is called congested where it sends for more than this share of the window.
constexpr double kCongested = 0.5;

std::string congested_links(const sim::SimReport& report) {
    const auto& links = report.detail->links;
    const auto n = std::count_if(links.begin(), links.end(),
                                 [](const sim::LinkUse& link) { return link.busy > kCongested; });
    return fmt::format("{} of {}", n, links.size());
}

std::string longest_wait(const sim::SimReport& report) {
    double wait_s = 0;
    for (const sim::LinkUse& link : report.detail->links) {
        wait_s = std::max(wait_s, link.mean_wait_s);
    }
    return fmt::format("{:.3f}", wait_s);
}

// The last columns of a table about links, and what is said below it.
void add_links_head(ExperimentTable& table) {
    for (const char* head : {"busiest link", "congested links", "longest wait for a link s"}) {
        table.head.emplace_back(head);
    }
}

void add_links_row(ExperimentTable& table, std::vector<std::string> row,
                   const sim::SimReport& report) {
    row.push_back(busiest_link(report));
    row.push_back(congested_links(report));
    row.push_back(longest_wait(report));
    table.rows.push_back(std::move(row));
}

void show_links(ExperimentPage& page, ExperimentTable table) {
    page.table(std::move(table));
    page.text(
        "Congested: links that send for more than half of the window, of those that send at all. "
        "Longest wait: of a message behind others, on average over the messages of the link where "
        "it is longest.");
}

ExperimentTable use_table() {
    ExperimentTable table;
    table.title = "What machines and links do (LLaMA 70B, offline, published policy)";
    table.head = {"cluster", "layout", "machines compute, by type"};
    add_links_head(table);
    return table;
}

base::Status write_placement(ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "LLaMA 70B, offline, every layout under the max-flow scheduler";
    table.head = {"cluster",
                  "layout",
                  "max flow tok/s",
                  "stages",
                  "published tok/s",
                  "real system",
                  "ours, published policy",
                  "ours / published",
                  "TTFT s",
                  "TPOT s",
                  "our policy",
                  "TTFT s"};
    ExperimentTable use = use_table();
    bool planned = false;
    std::vector<view::BarChart> charts;
    for (const PlacementRow& row : placement_rows()) {
        const auto& theirs = session.result(placement_case(row, ExperimentPolicy::published));
        const auto& ours = session.result(placement_case(row, ExperimentPolicy::own));
        if (!theirs.error.empty()) {
            page.text(
                fmt::format("{} on {}: {}.", method_title(row.method), row.cluster, theirs.error));
            continue;
        }
        planned = planned || (theirs.planned && std::string_view(row.method) != "own");
        const sim::SimReport& report = theirs.report;
        table.rows.push_back(
            {row.cluster, method_cell(row.method, theirs), cell(report.max_flow_tokens_per_s, 1),
             cell(report.mean_depth, 1), cell(row.simulated, 1), cell(row.measured, 1),
             cell(report.decode_tokens_per_s, 2),
             ratio_cell(report.decode_tokens_per_s, row.simulated), cell(report.ttft.mean, 2),
             cell(report.tpot.mean, 2), cell(ours.report.decode_tokens_per_s, 2),
             cell(ours.report.ttft.mean, 2)});
        add_links_row(use, {row.cluster, method_cell(row.method, theirs), busy_by_type(report)},
                      report);
        if (charts.empty() || charts.back().title != row.cluster) {
            charts.push_back({row.cluster, "decode tokens/s", {}, {}});
            charts.back().series = {{"published policy", {}}, {"our policy", {}}};
        }
        charts.back().groups.push_back(method_label(row.method, theirs));
        charts.back().series[0].values.push_back(report.decode_tokens_per_s);
        charts.back().series[1].values.push_back(
            ours.error.empty() ? ours.report.decode_tokens_per_s : -1);
    }
    page.table(std::move(table));
    for (view::BarChart& chart : charts) {
        const std::string cluster = chart.title;
        chart.title = "Layouts on " + cluster;
        page.bars("placement-" + cluster, chart);
    }
    show_links(page, std::move(use));
    if (planned) page.text(kPlannedNote);
    page.text(
        "A higher maximum flow does not mean more decode tokens/s: KV memory and depth decide, "
        "which is why our planner maximises predicted throughput.");
    return base::Ok{};
}

struct SchedulingRow {
    const char* cluster;
    const char* scheduler;
    sim::ReferenceScheduler kind;
    double published = 0;
};

// On single24 the real system was measured. Its figures say how many requests it kept (tok/s times
// TPOT, and prompts/s times TTFT): 240 under the baselines. On distributed24 that was not
// published; the same number is taken.
constexpr std::int32_t kPopulation = 240;

const std::vector<SchedulingRow>& scheduling_rows() {
    using sim::ReferenceScheduler;
    static const std::vector<SchedulingRow> rows = {
        {"single24", "Helix", ReferenceScheduler::max_flow, 214.1},
        {"single24", "Swarm", ReferenceScheduler::swarm, 169.4},
        {"single24", "random", ReferenceScheduler::random, 169.5},
        {"single24", "shortest queue", ReferenceScheduler::shortest_queue, 0},
        {"distributed24", "Helix", ReferenceScheduler::max_flow, 99.8},
        {"distributed24", "Swarm", ReferenceScheduler::swarm, 81.7},
        {"distributed24", "random", ReferenceScheduler::random, 87.4},
        {"distributed24", "shortest queue", ReferenceScheduler::shortest_queue, 83.6},
    };
    return rows;
}

bool of_real_system(const SchedulingRow& row) {
    return std::string_view(row.cluster) == "single24";
}

ExperimentCase scheduling_case(const ExperimentSession& session, const SchedulingRow& row,
                               ExperimentPolicy policy) {
    ExperimentCase c = {.cluster = row.cluster,
                        .model = k70b,
                        .method = "helix",
                        .policy = policy,
                        .scheduler = row.kind,
                        .detail = true};
    constexpr const char* kLayout = "reqsched_single24__llama2-70b__helix";
    if (of_real_system(row) && session.data().layout_file(kLayout)) c.layout = kLayout;
    if (row.kind != sim::ReferenceScheduler::max_flow) c.population = kPopulation;
    return c;
}

base::Status write_scheduling(ExperimentSession& session, ExperimentPage& page) {
    ExperimentTable table;
    table.title = "LLaMA 70B, offline, Helix's layout under every scheduler";
    table.head = {
        "cluster",       "scheduler", "published tok/s", "Helix over it",    "ours",
        "Helix over it", "TTFT s",    "TPOT s",          "as the prototype", "Helix over it"};
    ExperimentTable links;
    links.title = "What links do under every scheduler (published policy)";
    links.head = {"cluster", "scheduler"};
    add_links_head(links);
    double published_helix = 0;
    double ours_helix = 0;
    double prototype_helix = 0;
    bool planned = false;
    for (const SchedulingRow& row : scheduling_rows()) {
        const auto& fifo =
            session.result(scheduling_case(session, row, ExperimentPolicy::published));
        const auto& real =
            session.result(scheduling_case(session, row, ExperimentPolicy::prototype));
        for (const ExperimentResult* result : {&fifo, &real}) {
            if (result->error.empty()) continue;
            page.text(fmt::format("{} on {}: {}.", row.scheduler, row.cluster, result->error));
        }
        planned = planned || fifo.planned;
        const double ours = fifo.report.decode_tokens_per_s;
        const double prototype = real.report.decode_tokens_per_s;
        if (row.kind == sim::ReferenceScheduler::max_flow) {
            published_helix = row.published;
            ours_helix = ours;
            prototype_helix = prototype;
        }
        table.rows.push_back(
            {row.cluster + stand_in(fifo.planned), row.scheduler,
             cell(row.published, 1) + (of_real_system(row) && row.published > 0 ? " (real)" : ""),
             ratio_cell(published_helix, row.published), cell(ours, 2),
             ratio_cell(ours_helix, ours), cell(fifo.report.ttft.mean, 2),
             cell(fifo.report.tpot.mean, 2), cell(prototype, 2),
             ratio_cell(prototype_helix, prototype)});
        if (!fifo.error.empty()) continue;
        add_links_row(links, {row.cluster, row.scheduler}, fifo.report);
    }
    page.table(std::move(table));
    page.text(fmt::format(
        "(real): measured on the real system, as nothing else was published. The baselines keep "
        "{} requests, which is what the measured rates and latencies amount to. On distributed24 "
        "no "
        "population was published; the same number is taken there, and does not give the published "
        "order.",
        kPopulation));
    show_links(page, std::move(links));
    if (planned) page.text(kPlannedNote);
    return base::Ok{};
}

}  // namespace

Experiment placement_experiment() {
    return {"placement", "Placement alone",
            [](ExperimentSession& session, int round) -> base::Status {
                if (round > 0) return base::Ok{};
                for (const PlacementRow& row : placement_rows()) {
                    session.want(placement_case(row, ExperimentPolicy::published));
                    session.want(placement_case(row, ExperimentPolicy::own));
                }
                return base::Ok{};
            },
            write_placement};
}

Experiment scheduling_experiment() {
    return {"scheduling", "Scheduling alone",
            [](ExperimentSession& session, int round) -> base::Status {
                if (round > 0) return base::Ok{};
                for (const SchedulingRow& row : scheduling_rows()) {
                    session.want(scheduling_case(session, row, ExperimentPolicy::published));
                    session.want(scheduling_case(session, row, ExperimentPolicy::prototype));
                }
                return base::Ok{};
            },
            write_scheduling};
}

}  // namespace helix::lab
