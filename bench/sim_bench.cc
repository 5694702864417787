// What simulating costs: CPU seconds, memory and simulated seconds per second.
//     sim_bench published     the published policy on single24 and highhet42, offline, 660 s
//     sim_bench own           our own policy on the same
//     sim_bench growth        our own policy, single24, for twice as long three times
//     sim_bench thousand [SECONDS [REQUESTS_PER_S [MODEL [WEIGHTS [STAGES [MACHINES]]]]]]
//                             1,000 machines in ten regions, online; 3600 s of 100 requests/s of
//                             llama2-70b through 40 stages if not given
// Without arguments it runs the first three. Each line is a row of a Markdown table. The inputs of
// the first three are the published clusters and layouts in HELIX_DATA_DIR.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/large_pages.h"
#include "lab/problem/problem.h"
#include "lab/simulation/simulated_load.h"
#include "lab/simulation/simulation_setup.h"
#include "plan/flow/flow_graph.h"
#include "plan/pack/block_pack.h"
#include "plan/problem/generate.h"
#include "plan/rules/heuristics.h"
#include "sim/load/synthetic_trace.h"
#include "sim/published/reference_world.h"
#include "sim/throughput/helix_run.h"

namespace {

using namespace helix;
using Clock = std::chrono::steady_clock;

constexpr double kWarmup_s = 60;
constexpr std::int32_t kMostPacked = 8;  // stages; packing more takes longer than the run

struct Cost {
    double cpu_s = 0;
    double wall_s = 0;
    double peak_mb = 0;
};

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

class Meter {
  public:
    Meter() : cpu_s_(cpu_seconds()), began_(Clock::now()) {}
    Cost cost() const {
        return {cpu_seconds() - cpu_s_,
                std::chrono::duration<double>(Clock::now() - began_).count(), peak_mb()};
    }

  private:
    double cpu_s_;
    Clock::time_point began_;
};

base::Result<lab::Problem> published_problem(const std::string& cluster) {
    const std::string data = HELIX_DATA_DIR;
    lab::ProblemSource arguments;
    arguments.cluster = data + "/clusters/" + cluster + ".json";
    arguments.model = "llama2-70b";
    arguments.profiles = data + "/profiles";
    arguments.machine_mix = cluster;
    return lab::load_problem(arguments);
}

std::string layout_path(const std::string& cluster, const std::string& method) {
    return std::string(HELIX_DATA_DIR) + "/layouts/" + cluster + "__llama2-70b__" + method +
           ".json";
}

lab::SimulatedLoad offline_load(double duration_s) {
    lab::SimulatedLoad load;
    load.lengths = sim::conversation_lengths();
    load.warmup_s = kWarmup_s;
    load.duration_s = duration_s;
    return load;
}

// The number of passes of a token through a machine on its way, counted as if the warm-up were like
// the window.
double token_stages(const sim::SimReport& report, double seconds) {
    return (report.prompt_tokens_per_s + report.decode_tokens_per_s) * seconds * report.mean_depth;
}

void print_row(const std::string& what, const sim::SimReport& report, double duration_s,
               const Cost& cost) {
    const double stages = token_stages(report, kWarmup_s + duration_s);
    std::printf("| %s | %.2f | %.2f | %.0f MB | %llu | %llu | %.0f | %.2f |\n", what.c_str(),
                cost.cpu_s, cost.wall_s, cost.peak_mb,
                static_cast<unsigned long long>(report.iterations),
                static_cast<unsigned long long>(report.events),
                (kWarmup_s + duration_s) / std::max(cost.cpu_s, 1e-9), cost.cpu_s / stages * 1e6);
    std::fflush(stdout);
}

base::Status published(const std::string& cluster, const std::string& method) {
    TRY(const lab::Problem problem, published_problem(cluster));
    TRY(sim::ReferenceSetup setup,
        lab::reference_setup_from(layout_path(cluster, method), problem, {}));
    lab::put_under_load(setup, offline_load(600));
    const Meter meter;
    TRY(const sim::SimReport report, sim::run_reference(setup));
    print_row("published policy, " + cluster, report, 600, meter.cost());
    return base::Ok{};
}

base::Status own(const std::string& cluster, const std::string& method, double duration_s) {
    TRY(const lab::Problem problem, published_problem(cluster));
    TRY(spec::PlacementFile file,
        lab::read_simulated_layout(layout_path(cluster, method), problem));
    TRY_VOID(lab::add_flows(problem, file, plan::Batching::helix, true));
    sim::HelixSetup setup = lab::helix_setup(problem, file.placement, file.flows);
    lab::put_under_load(setup, offline_load(duration_s));
    const Meter meter;
    TRY(const sim::SimReport report, sim::run_helix(setup));
    print_row(fmt::format("own policy, {}, {:.0f} s", cluster, duration_s), report, duration_s,
              meter.cost());
    return base::Ok{};
}

struct Thousand {
    double duration_s = 3600;
    double requests_per_s = 100;
    std::string model = "llama2-70b";
    std::string weights = "f16";
    std::int32_t stages = 40;
    std::int32_t machines = 1000;
};

void print_thousand(const Thousand& asked, const sim::SimReport& report, const Cost& cost) {
    const double seconds = asked.duration_s;
    print_row(
        fmt::format("own policy, {} machines, {:.0f} s, {:g} requests/s of {} {}", asked.machines,
                    seconds, asked.requests_per_s, asked.model, asked.weights),
        report, seconds, cost);
    std::printf(
        "\n%.0f + %.0f tokens/s (prompts + decodes), %.1f stages, %.0f resident, %llu finished, "
        "%llu rejected, %llu preempted, KV peak %.0f %%; TTFT %.2f s (p99 %.2f), TPOT %.3f s (p99 "
        "%.3f); %.2f M events/s; digest %016llx\n",
        report.prompt_tokens_per_s, report.decode_tokens_per_s, report.mean_depth,
        report.mean_resident, static_cast<unsigned long long>(report.finished),
        static_cast<unsigned long long>(report.rejected),
        static_cast<unsigned long long>(report.preempted), 100 * report.kv_peak, report.ttft.mean,
        report.ttft.p99, report.tpot.mean, report.tpot.p99,
        static_cast<double>(report.events) / cost.cpu_s / 1e6,
        static_cast<unsigned long long>(report.digest));
}

// Plans each region for itself, by block packing with at most this many stages, or where these are
// many in equal ones; the flows add up.
base::Result<spec::PlacementFile> plan_regions(const lab::Problem& problem, std::int32_t stages) {
    std::map<std::string, std::vector<std::size_t>> regions;
    for (std::size_t n = 0; n < problem.cluster.nodes.size(); ++n) {
        regions[problem.cluster.nodes[n].region].push_back(n);
    }
    spec::PlacementFile file;
    file.placement.layers.resize(problem.cluster.nodes.size());
    const plan::BlockOptions options{.max_depth = stages};
    for (const auto& [name, members] : regions) {
        spec::ClusterSpec cluster;
        plan::CapacityTable capacities = problem.capacities;
        capacities.nodes.clear();
        for (const std::size_t n : members) {
            cluster.nodes.push_back(problem.cluster.nodes[n]);
            capacities.nodes.push_back(problem.capacities.nodes[n]);
        }
        std::optional<spec::Placement> placement;
        if (stages > kMostPacked) {
            placement = plan::swarm_placement(capacities, problem.model.n_layers, stages);
        } else if (const auto packed =
                       plan::best_blocks({cluster, problem.model, capacities}, options)) {
            placement = packed->placement;
        }
        if (!placement) return base::invalid(fmt::format("{}: the model does not fit", name));
        for (std::size_t i = 0; i < members.size(); ++i) {
            file.placement.layers[members[i]] = placement->layers[i];
        }
    }
    // No better split is searched for: on so many machines that takes longer than the run.
    const plan::FlowOptions all{.partial = true, .convention = plan::Convention::reference};
    file.flows =
        plan::plan_flow(problem.cluster,
                        plan::build_flow_graph({problem.cluster, problem.model, problem.capacities},
                                               file.placement, all))
            .links;
    double flow = 0;
    for (const spec::LinkFlow& link : file.flows) {
        if (link.from == spec::kCoordinator) flow += link.tokens_per_s;
    }
    if (file.flows.empty()) return base::invalid("no way leads through all layers");
    std::fprintf(stderr, "planned: %.0f tokens/s\n", flow);
    return file;
}

base::Status thousand(const Thousand& asked) {
    lab::ProblemSource arguments;
    arguments.model = asked.model;
    arguments.weights = asked.weights;
    TRY(const lab::Problem problem,
        lab::make_problem(arguments, plan::generate_cluster(asked.machines, 10, 1, 1.25e9)));
    TRY(const spec::PlacementFile file, plan_regions(problem, asked.stages));
    sim::HelixSetup setup = lab::helix_setup(problem, file.placement, file.flows);
    setup.coordinator.max_running = 1'000'000;
    lab::SimulatedLoad load = offline_load(asked.duration_s);
    load.online.emplace();
    load.online->process = sim::ArrivalProcess::poisson;
    load.online->tokens_per_s = asked.requests_per_s * load.lengths.mean_tokens();
    lab::put_under_load(setup, load);
    const Meter meter;
    double told_s = 0;
    TRY(const sim::SimReport report, sim::run_helix(setup, [&](double done_s, double total_s) {
            if (done_s - told_s < total_s / 50) return;
            told_s = done_s;
            const Cost so_far = meter.cost();
            std::fprintf(stderr, "%6.0f of %.0f simulated s, %.1f CPU s, %.0f MB\n", done_s,
                         total_s, so_far.cpu_s, so_far.peak_mb);
        }));
    print_thousand(asked, report, meter.cost());
    return base::Ok{};
}

// Runs the job in a process of its own, so that the peak memory is its own.
bool apart(const std::function<base::Status()>& job) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        base::prefer_large_pages(std::size_t{1} << 30);  // as helix simulate
        const base::Status done = job();
        if (!done.ok()) std::fprintf(stderr, "sim_bench: %s\n", done.error().message.c_str());
        std::fflush(nullptr);
        _exit(done.ok() ? 0 : 1);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

bool run(const std::string& what, const std::vector<std::string>& rest) {
    if (what == "published") {
        return apart([] { return published("single24", "helix"); }) &&
               apart([] { return published("highhet42", "swarm"); });
    }
    if (what == "own") {
        return apart([] { return own("single24", "helix", 600); }) &&
               apart([] { return own("highhet42", "swarm", 600); });
    }
    if (what == "growth") {
        bool good = true;
        for (const double seconds : {150.0, 300.0, 600.0, 1200.0}) {
            good = good && apart([&] { return own("single24", "helix", seconds); });
        }
        return good;
    }
    Thousand asked;
    if (!rest.empty()) asked.duration_s = std::atof(rest[0].c_str());
    if (rest.size() > 1) asked.requests_per_s = std::atof(rest[1].c_str());
    if (rest.size() > 2) asked.model = rest[2];
    if (rest.size() > 3) asked.weights = rest[3];
    if (rest.size() > 4) asked.stages = std::atoi(rest[4].c_str());
    if (rest.size() > 5) asked.machines = std::atoi(rest[5].c_str());
    return what == "thousand" && asked.duration_s > 0 && asked.requests_per_s > 0 &&
           asked.machines > 0 && apart([&] { return thousand(asked); });
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> asked(argv + 1, argv + argc);
    std::printf(
        "| run | CPU s | wall s | peak | iterations | events | simulated s per CPU s | us per "
        "token and stage |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    bool good = true;
    if (!asked.empty()) {
        good = run(asked.front(), {asked.begin() + 1, asked.end()});
    } else if (std::filesystem::exists(HELIX_DATA_DIR)) {
        for (const char* what : {"published", "own", "growth"}) good = good && run(what, {});
    } else {
        std::printf("skipped: no published clusters in %s\n", HELIX_DATA_DIR);
    }
    return good ? 0 : 1;
}
