#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/machine.h"
#include "base/random.h"
#include "lab/experiments/experiments.h"
#include "plan/problem/capacity.h"
#include "sim/load/synthetic_trace.h"
#include "sim/throughput/helix_run.h"
#include "spec/catalogue.h"
#include "spec/model_shape.h"
#include "spec/roofline_cost.h"

// Prefill and decode on different machines (core/coordinator/roles.cc): the same machines under the
// same load, with roles and without. Every machine holds the whole model, so that nothing but the
// roles differs.

namespace helix::lab {
namespace {

constexpr const char* kModel = "llama3.1-8b";
constexpr double kWarmup_s = 20;
constexpr double kWindow_s = 100;
constexpr std::uint64_t kSeeds = 3;
constexpr double kLatency_s = 100e-6;

struct MachineSet {
    const char* title;
    std::vector<std::pair<const char*, int>> types;  // those that prefill come first
    std::vector<int> prefill;                        // so many of them; 0: no roles
};

struct LengthLoad {
    const char* title;
    std::int32_t prompt;  // mean tokens; 0: conversations as recorded by Azure
    std::int32_t output;
};

struct Net {
    const char* title;
    double bytes_per_s;
    double migration_bytes_per_s;  // the most that KV may take of a link
};

const std::vector<MachineSet>& machines() {
    static const std::vector<MachineSet> all = {
        {"8 A100-40", {{"A100-40", 8}}, {0, 3, 4}},
        {"4 L40S, 4 A100-80", {{"L40S", 4}, {"A100-80", 4}}, {0, 4}},
    };
    return all;
}
constexpr LengthLoad kLengthLoads[] = {{"conversations (763 + 232 tokens)", 0, 0},
                                       {"long prompts (4000 + 250 tokens)", 4000, 250}};
constexpr Net kNets[] = {{"100 Gb/s", 12.5e9, 6e9}, {"10 Gb/s", 1.25e9, 0.6e9}};
constexpr double kShares[] = {0.5, 0.8};  // of what they serve saturated, without roles

// Lengths around the means, from a quarter to twice as long.
sim::LengthSource lengths_of(const LengthLoad& load) {
    if (load.prompt == 0) return sim::conversation_lengths();
    std::vector<sim::RequestLength> rows;
    base::Random random(1);
    for (int i = 0; i < 2000; ++i) {
        const auto draw = [&](std::int32_t mean) {
            const double share =
                random.chance(0.5) ? 0.25 + 0.75 * random.uniform() : 1 + 0.75 * random.uniform();
            return static_cast<std::int32_t>(share * mean);
        };
        rows.push_back({draw(load.prompt), draw(load.output)});
    }
    return {std::move(rows), sim::LengthOrder::sampled};
}

struct Case {
    const MachineSet* machines = nullptr;
    const LengthLoad* load = nullptr;
    const Net* net = nullptr;
    int prefill = 0;
    double share = 0;         // 0: saturated
    double tokens_per_s = 0;  // offered: prompts and outputs
    std::uint64_t seed = 1;
    sim::SimReport report = {};
    std::string error = {};
};

// A row of a table: the same case under each seed.
using Row = std::vector<Case>;

using Figure = double (*)(const sim::SimReport&);
double ttft_p50(const sim::SimReport& report) {
    return report.ttft.p50 * 1e3;
}
double ttft_p99(const sim::SimReport& report) {
    return report.ttft.p99 * 1e3;
}
double tpot_p50(const sim::SimReport& report) {
    return report.tpot.p50 * 1e3;
}
double tpot_p99(const sim::SimReport& report) {
    return report.tpot.p99 * 1e3;
}
double tokens_per_s(const sim::SimReport& report) {
    return report.decode_tokens_per_s;
}
double moves(const sim::SimReport& report) {
    return static_cast<double>(report.migrated);
}

double mean_of(const Row& row, Figure figure) {
    double sum = 0;
    for (const Case& one : row) sum += figure(one.report);
    return sum / static_cast<double>(row.size());
}

// "52 (50-53)": the mean over the seeds, the least and the greatest.
std::string spread(const Row& row, Figure figure) {
    double least = figure(row.front().report);
    double greatest = least;
    for (const Case& one : row) {
        least = std::min(least, figure(one.report));
        greatest = std::max(greatest, figure(one.report));
    }
    return fmt::format("{:.0f} ({:.0f}-{:.0f})", mean_of(row, figure), least, greatest);
}

spec::ClusterSpec cluster_of(const Case& one) {
    spec::ClusterSpec cluster;
    cluster.name = one.machines->title;
    int index = 0;
    for (const auto& [type, count] : one.machines->types) {
        const auto known = spec::find_machine_type(type);
        for (int k = 0; k < count && known.ok(); ++k, ++index) {
            spec::NodeSpec node;
            node.name = fmt::format("{}-{}", type, k);
            node.type = type;
            node.memory_bytes = known->memory_bytes;
            if (one.prefill > 0) {
                node.role = index < one.prefill ? spec::NodeRole::prefill : spec::NodeRole::decode;
            }
            cluster.nodes.push_back(node);
        }
    }
    const auto n = static_cast<std::int32_t>(cluster.nodes.size());
    for (std::int32_t from = spec::kCoordinator; from < n; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < n; ++to) {
            if (from != to) cluster.links.push_back({from, to, one.net->bytes_per_s, kLatency_s});
        }
    }
    return cluster;
}

base::Result<sim::SimReport> run(const Case& one, double time_share) {
    const spec::ClusterSpec cluster = cluster_of(one);
    TRY(const spec::ModelSpec model, spec::find_model(kModel, spec::WeightFormat::f16));
    TRY(const spec::RooflineCost costs, spec::RooflineCost::make(cluster, model));
    const plan::CapacityTable capacities = plan::capacity_from_costs(cluster, model, costs, {}, {});
    sim::HelixSetup setup;
    setup.cluster = &cluster;
    setup.costs = &costs;
    setup.model = model;
    setup.migration_bytes_per_s = one.net->migration_bytes_per_s;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const auto node = static_cast<std::int32_t>(i);
        const auto all = static_cast<std::size_t>(model.n_layers);
        const double speed = capacities.nodes[i].tokens_per_s[all];
        setup.placement.layers.push_back({0, model.n_layers});
        setup.kv_tokens.push_back(capacities.nodes[i].kv_tokens[all]);
        setup.flows.push_back({spec::kCoordinator, node, speed});
        setup.flows.push_back({node, spec::kCoordinator, speed});
        setup.max_flow_tokens_per_s += speed;
    }
    setup.overheads.lone_decode_doubles = false;
    setup.lengths = lengths_of(*one.load);
    setup.warmup_s = kWarmup_s * time_share;
    setup.duration_s = kWindow_s * time_share;
    setup.seed = one.seed;
    if (one.tokens_per_s > 0) {
        setup.online = sim::OnlineLoad{.process = sim::ArrivalProcess::poisson,
                                       .tokens_per_s = one.tokens_per_s};
    }
    return sim::run_helix(setup);
}

void run_all(std::vector<Case>& cases, const ExperimentSession& session) {
    const int wanted = session.options().threads;
    const auto threads = static_cast<unsigned>(wanted > 0 ? wanted : base::usable_threads());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next++; i < cases.size(); i = next++) {
            auto report = run(cases[i], session.options().time_share);
            if (report.ok()) {
                cases[i].report = std::move(*report);
            } else {
                cases[i].error = report.error().message;
            }
        }
    };
    std::vector<std::jthread> workers;
    for (unsigned t = 1; t < std::max(1U, threads); ++t) workers.emplace_back(work);
    work();
}

// What the machines serve without roles when there is always more to do, then shares of that.
std::vector<Row> measure(const ExperimentSession& session) {
    std::vector<Case> saturated;
    for (const MachineSet& group : machines()) {
        for (const LengthLoad& load : kLengthLoads) {
            saturated.push_back({.machines = &group, .load = &load, .net = &kNets[0]});
        }
    }
    run_all(saturated, session);
    std::vector<Case> cases;
    for (const Case& full : saturated) {
        const double most = full.report.decode_tokens_per_s + full.report.prompt_tokens_per_s;
        for (const double share : kShares) {
            for (const int prefill : full.machines->prefill) {
                for (const Net& net : kNets) {
                    const bool most_prefill = prefill == full.machines->prefill.back();
                    if (!most_prefill && &net != &kNets[0]) continue;  // one row for slow links
                    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
                        cases.push_back({.machines = full.machines,
                                         .load = full.load,
                                         .net = &net,
                                         .prefill = prefill,
                                         .share = share,
                                         .tokens_per_s = most * share,
                                         .seed = seed});
                    }
                }
            }
        }
    }
    run_all(cases, session);
    std::vector<Row> rows;
    for (Case& one : cases) {
        if (one.seed == 1) rows.emplace_back();
        rows.back().push_back(std::move(one));
    }
    return rows;
}

std::string roles_text(const Case& one) {
    if (one.prefill == 0) return "none";
    int all = 0;
    for (const auto& [type, count] : one.machines->types) all += count;
    return fmt::format("{} + {}, {}", one.prefill, all - one.prefill, one.net->title);
}

void write_table(const std::vector<Row>& rows, const LengthLoad& load, ExperimentPage& page) {
    ExperimentTable table;
    table.title = fmt::format("Prefill and decode apart, {}", load.title);
    table.head = {"machines",    "load",         "prefill + decode, links",
                  "TTFT p50 ms", "TTFT p99 ms",  "TPOT p50 ms",
                  "TPOT p99 ms", "decode tok/s", "moves"};
    for (const Row& row : rows) {
        const Case& one = row.front();
        if (one.load != &load) continue;
        const auto failed = std::find_if(row.begin(), row.end(),
                                         [](const Case& each) { return !each.error.empty(); });
        if (failed != row.end()) {
            page.text(
                fmt::format("{}, {}: {}.", one.machines->title, roles_text(one), failed->error));
            continue;
        }
        table.rows.push_back({one.machines->title, fmt::format("{:.0f} %", one.share * 100),
                              roles_text(one), spread(row, ttft_p50), spread(row, ttft_p99),
                              spread(row, tpot_p50), spread(row, tpot_p99),
                              cell(mean_of(row, tokens_per_s), 0),
                              fmt::format("{:.0f}", mean_of(row, moves))});
    }
    page.table(std::move(table));
}

void draw_tpot(const std::vector<Row>& rows, const LengthLoad& load, const char* name,
               ExperimentPage& page) {
    view::BarChart chart;
    chart.title = fmt::format("99th percentile from token to token, {}", load.title);
    chart.unit = "milliseconds";
    const auto group_of = [](const Case& one) {
        return fmt::format("{}, {:.0f} %", one.machines->title, one.share * 100);
    };
    std::vector<const Row*> shown;
    for (const Row& row : rows) {
        const Case& one = row.front();
        if (one.load != &load || one.net != &kNets[0] || !one.error.empty()) continue;
        shown.push_back(&row);
        const std::string group = group_of(one);
        if (std::find(chart.groups.begin(), chart.groups.end(), group) == chart.groups.end())
            chart.groups.push_back(group);
    }
    for (const int prefill : {0, 3, 4}) {
        view::BarChart::Series series;
        series.name = prefill == 0 ? "without roles" : fmt::format("{} prefill", prefill);
        series.values.assign(chart.groups.size(), -1);
        for (const Row* row : shown) {
            if (row->front().prefill != prefill) continue;
            const auto group =
                std::find(chart.groups.begin(), chart.groups.end(), group_of(row->front()));
            series.values[static_cast<std::size_t>(group - chart.groups.begin())] =
                mean_of(*row, tpot_p99);
        }
        chart.series.push_back(std::move(series));
    }
    page.bars(name, chart);
}

base::Status write(const ExperimentSession& session, ExperimentPage& page) {
    page.text(fmt::format(
        "`helix worker --role`: {} in 16 bits, machines by datasheet, each with the whole model; "
        "Poisson arrivals, {:.0f} s after {:.0f} s, {} seeds: mean (least-greatest). Load: share "
        "of "
        "the tokens/s that the same "
        "machines serve without roles when saturated. Links: KV takes at most half of one (0.6 and "
        "6 GB/s; `--migration-rate`). Prompts never share a batch with decodes that are apart, so "
        "the time from token to token varies less; but prompts have fewer machines, and what moves "
        "waits for its links. Moves: in the whole run. Where prompts come faster than they are "
        "computed the queue grows, and a time of seconds only says that it was too much.",
        kModel, kWindow_s * session.options().time_share, kWarmup_s * session.options().time_share,
        kSeeds));
    const std::vector<Row> rows = measure(session);
    write_table(rows, kLengthLoads[0], page);
    draw_tpot(rows, kLengthLoads[0], "conversations", page);
    write_table(rows, kLengthLoads[1], page);
    draw_tpot(rows, kLengthLoads[1], "long", page);
    return base::Ok{};
}

}  // namespace

Experiment disaggregation_experiment() {
    return {"disaggregation", "Prefill and decode on different machines",
            [](ExperimentSession&, int) -> base::Status { return base::Ok{}; }, write,
            ExperimentTopic::disaggregation};
}

}  // namespace helix::lab
