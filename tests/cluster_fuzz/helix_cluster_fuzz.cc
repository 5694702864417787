// Clusters, loads and faults drawn from seeds, judged from outside. Prints one line
// for people and README, or one FAIL line with the command that shows the failure again.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "base/planted_bug.h"
#include "sim/fuzz/fuzz_run.h"

namespace helix::sim {
namespace {

struct Options {
    std::optional<std::uint64_t> seed;  // this one alone
    std::uint64_t first = 1;
    std::uint64_t every = 1;  // seeds first, first + every, ...
    std::uint64_t seeds = 0;
    double hours = 0;
    std::string planted;
    std::string plan_file;
    bool print_plan = false;
    bool trace = false;
    bool shrink = false;
    bool quiet = false;
};

std::string program;  // NOLINT: these three are for the handler of a failed CHECK
std::string replay_options;
volatile std::uint64_t seed_under_way = 0;

std::string replay(std::uint64_t seed) {
    return fmt::format("{} --seed {}{}", program, seed, replay_options);
}

void on_abort(int) {
    const std::string line =
        fmt::format("FAIL seed {}: a CHECK failed (above) at t={}us — replay: {}\n",
                    seed_under_way + 0, FuzzRun::now_us(), replay(seed_under_way));
    const auto written = write(STDOUT_FILENO, line.data(), line.size());
    _exit(written > 0 ? 1 : 2);
}

int fail(std::uint64_t seed, const FuzzResult& result) {
    fmt::print("FAIL seed {}: {} at t={}us — replay: {}\n", seed, result.broken, result.at_us,
               replay(seed));
    return 1;
}

// The faults of a failing plan that are not needed for it to fail, left out one after the other.
void shrink(FuzzCase which) {
    const std::size_t before = which.faults.size();
    for (std::size_t i = which.faults.size(); i > 0; --i) {
        FuzzCase smaller = which;
        smaller.faults.erase(smaller.faults.begin() + static_cast<std::ptrdiff_t>(i - 1));
        if (!FuzzRun(smaller).run().broken.empty()) which = std::move(smaller);
    }
    fmt::print("# seed {}: these {} of {} faults suffice\n{}", which.seed, which.faults.size(),
               before, to_text(which.faults));
}

int run_one(const Options& options) {
    FuzzCase which = draw_case(*options.seed);
    seed_under_way = *options.seed;
    if (!options.plan_file.empty()) {
        std::ifstream in(options.plan_file);
        if (!in) {
            fmt::print(stderr, "{}: cannot be read\n", options.plan_file);
            return 2;
        }
        const std::string text{std::istreambuf_iterator<char>(in), {}};
        auto plan = parse_fault_plan(text);
        if (!plan.ok()) {
            fmt::print(stderr, "{}: {}\n", options.plan_file, plan.error().message);
            return 2;
        }
        for (const Fault& fault : *plan) {
            const bool of_gateway = is_of_gateway(fault.kind);
            const auto n = of_gateway ? which.cluster.gateways
                                      : static_cast<std::int32_t>(which.workers.size());
            if (fault.a < n && fault.b < n) continue;
            if (of_gateway && n == 0) {
                fmt::print(stderr, "{}: \"{}\": this seed has no gateways\n", options.plan_file,
                           to_text(fault));
                return 2;
            }
            fmt::print(stderr, "{}: \"{}\": this seed has {} {}(s), {}0 to {}{}\n",
                       options.plan_file, to_text(fault), n, of_gateway ? "gateway" : "worker",
                       of_gateway ? 'g' : 'w', of_gateway ? 'g' : 'w', n - 1);
            return 2;
        }
        which.faults = std::move(*plan);
    }
    if (options.print_plan) {
        fmt::print("{}", to_text(which.faults));
        return 0;
    }
    FuzzRun run(which);
    if (options.trace) run.set_trace([](const std::string& line) { fmt::print("{}\n", line); });
    const FuzzResult result = run.run();
    if (!result.broken.empty()) {
        fail(*options.seed, result);
        if (options.shrink) shrink(which);
        return 1;
    }
    fmt::print(
        "seed {}: {:.1f} s simulated, {} workers, {} faults, {} requests ({} completed, {} ended "
        "with an error), {} tokens, digest {:016x}\n",
        *options.seed, result.simulated_s, which.workers.size(), which.faults.size(),
        result.requests, result.completed, result.errors, result.tokens, result.digest);
    return 0;
}

struct Progress {
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }
};

void print_total(const FuzzResult& total, std::uint64_t seeds, std::uint64_t reruns, double took) {
    std::string unreached;
    for (const std::string& name : total.probes.unreached()) {
        unreached += (unreached.empty() ? "" : ", ") + name;
    }
    const FaultCounts& counts = total.counts;
    const MoveCounts& moves = counts.moves;
    fmt::print(
        "simulated {:.2f} h, seeds {}, kills {}, partitions {}, pauses {}, false losses {}, links "
        "broken {}, messages lost {}, duplicated {}, moves asked for {} ({} refused at once), "
        "migrations committed {}, given up while reserving {}, while copying {}, in the last round "
        "{}, failovers {}, coordinators killed {} ({} requests cut off, {} handed over by "
        "gateways, {} of them to the same coordinator, {} adopted), coordinators replaced {} ({} "
        "told so, {} orders and {} words of those that were back, led by two = 0), gateways killed "
        "{} ({} requests asked for again), cut off {}, paused {}, drains {} ({} to the "
        "end), tokens computed again {}, requests {} ({} "
        "completed, {} explicit errors), tokens {}, lost = 0, wrong = 0, unreached probes: {}, "
        "determinism re-runs {}; {:.0f} s, {:.0f}x real time\n",
        total.simulated_s / 3600, seeds, counts.kills, counts.cuts, counts.pauses,
        counts.false_losses, counts.links_broken, counts.lost, counts.duplicated, moves.asked,
        moves.refused, moves.committed, moves.given_up[0], moves.given_up[1], moves.given_up[2],
        counts.failovers, counts.coordinator_kills, counts.cut_off, counts.handed_over,
        counts.handed_over_again, counts.adopted, counts.coordinators_replaced,
        counts.formers_stopped, counts.former_orders, counts.former_words, counts.gateway_kills,
        counts.asked_again, counts.gateway_cuts, counts.gateway_pauses, counts.drains,
        counts.drained, counts.recomputed_tokens, total.requests, total.completed, total.errors,
        total.tokens, unreached.empty() ? "none" : unreached, reruns, took,
        total.simulated_s / took);
}

int run_many(const Options& options) {
    const Progress progress;
    FuzzResult total;
    std::uint64_t seeds = 0;
    std::uint64_t reruns = 0;
    double told = 0;
    for (std::uint64_t seed = options.first;; seed += options.every) {
        if (options.seeds > 0 && seeds == options.seeds) break;
        if (options.hours > 0 && progress.seconds() >= options.hours * 3600) break;
        seed_under_way = seed;
        const FuzzResult result = run_seed(seed);
        if (!result.broken.empty()) return fail(seed, result);
        ++seeds;
        total.add(result);
        if (seed % 20 == 0) {
            ++reruns;
            FuzzResult again = run_seed(seed);
            if (again.digest != result.digest) {
                again.broken = fmt::format("two runs differ: digests {:016x} and {:016x}",
                                           result.digest, again.digest);
                return fail(seed, again);
            }
        }
        if (!options.quiet && progress.seconds() - told >= 10) {
            told = progress.seconds();
            fmt::print(stderr, "{} seeds, {:.1f} h simulated, {:.0f} s\n", seeds,
                       total.simulated_s / 3600, told);
        }
    }
    print_total(total, seeds, reruns, progress.seconds());
    return 0;
}

}  // namespace

int fuzz_main(int argc, char** argv) {
    Options options;
    CLI::App app("Clusters, loads and faults drawn from seeds; every promise judged from outside.");
    app.add_option("--seed", options.seed, "run this seed alone");
    app.add_option("--seeds", options.seeds, "run so many seeds");
    app.add_option("--hours", options.hours, "run for so many hours");
    app.add_option("--first", options.first, "the first seed");
    app.add_option("--every", options.every, "then every so-manieth (several processes)")
        ->check(CLI::PositiveNumber);
    app.add_option("--planted", options.planted, "with this bug (helix_cluster_fuzz_planted only)");
    app.add_option("--plan", options.plan_file, "with --seed: these faults instead of its own");
    app.add_flag("--print-plan", options.print_plan, "with --seed: print its faults");
    app.add_flag("--trace", options.trace, "with --seed: print all that happens");
    app.add_flag("--shrink", options.shrink, "with --seed: print the fewest faults that fail");
    app.add_flag("--quiet", options.quiet, "no progress");
    CLI11_PARSE(app, argc, argv);
    program = argv[0];
    if (!options.planted.empty()) {
        if (!base::plant(options.planted)) {
            fmt::print(stderr, "no such bug can be planted here: {}; there are: {}\n",
                       options.planted, base::planted_bug_names());
            return 2;
        }
        replay_options = " --planted " + options.planted;
    }
    if (!options.plan_file.empty()) replay_options += " --plan " + options.plan_file;
    std::signal(SIGABRT, on_abort);
    if (options.seed) return run_one(options);
    if (options.seeds == 0 && options.hours <= 0) options.seeds = 300;
    return run_many(options);
}

}  // namespace helix::sim

int main(int argc, char** argv) {
    return helix::sim::fuzz_main(argc, argv);
}
