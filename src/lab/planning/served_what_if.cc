#include "lab/planning/served_what_if.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "lab/planning/plan_judge.h"
#include "lab/planning/predict_changes.h"
#include "lab/simulation/simulation_setup.h"
#include "plan/planner.h"
#include "plan/problem/lengths.h"
#include "sim/load/synthetic_trace.h"
#include "sim/throughput/helix_run.h"

namespace helix::lab {
namespace {

// The searches of a coordinator that plans: enough for a dozen machines.
constexpr std::int64_t kIterations = 20'000;
// Both sides get this share of what today's serves when requests always wait.
constexpr double kLoadShare = 0.7;
// Of the window that counts: tokens, prompts and answers alike, and its bounds.
constexpr double kWindowTokens = 100'000;
constexpr double kLeastWindow_s = 6;
constexpr double kLeastWarmup_s = 4;
constexpr double kMostWindow_s = 20'000;
// What people can buy, besides types that are there.
constexpr const char* kSuggestedTypes[] = {"RTX 3060",     "RTX 4090",    "L4",
                                           "L40S",         "A100-80",     "Apple M2 Max",
                                           "Apple M4 Pro", "Desktop DDR5"};

// The sides' lengths: conversations, cut to what a request may have here.
struct Load {
    std::vector<sim::RequestLength> rows;
    plan::LengthMoments moments;
};

class Answering {
  public:
    Answering(const ServedPlan& served, const ServedQuestion& question, const ServedWatch& watch)
        : served_(served), question_(question), watch_(watch) {}

    base::Result<ServedAnswer> run() {
        ServedAnswer answer;
        const bool changes = !question_.changes.empty();
        TRY(plan::ChangedCluster changed, plan::apply_changes(served_.cluster, question_.changes));
        answer.origin = changed.origin;
        TRY_VOID(begin("today", 0));
        TRY(answer.today, side(served_.cluster, &served_.placement, nullptr, 0));
        if (changes) {
            TRY_VOID(begin("planned anew", 0.05));
            TRY(answer.planned_anew, side(served_.cluster, nullptr, &served_.placement,
                                          share(question_.suggest ? 0.3 : 0.5)));
        }
        TRY_VOID(begin("what if", changes ? 0.3 : 0.05));
        const spec::Placement start = plan::carry_over(served_.placement, changed.origin);
        auto what_if = side(changed.cluster, nullptr, &start, share(question_.suggest ? 0.6 : 1));
        if (!what_if.ok()) {
            return base::Error{what_if.error().code,
                               "with these changes: " + what_if.error().message};
        }
        answer.what_if = std::move(what_if).value();
        answer.moves = plan::placement_diff(changed.cluster, served_.model, start,
                                            answer.what_if.report.placement, kDiskBytesPerS);
        TRY_VOID(simulate(answer));
        if (question_.suggest) TRY_VOID(suggest(answer));
        return answer;
    }

  private:
    double share(double of_budget) const { return of_budget * question_.budget_s; }

    base::Status begin(const char* phase, double share_done) const {
        watch_.progress({phase, share_done});
        if (!watch_.stopped()) return base::Ok{};
        return base::Error{base::Errc::unavailable, "nobody waits for the answer any more"};
    }

    // Plans the cluster until so many seconds of the answer are over, or judges a placement.
    base::Result<ServedSide> side(const spec::ClusterSpec& cluster, const spec::Placement* judged,
                                  const spec::Placement* start, double until_s) const {
        ServedSide side;
        TRY(side.problem, make_problem(served_.model, cluster));
        plan::PlanOptions options;
        options.objective = plan::Objective::throughput;
        options.capacities = &side.problem.capacities;
        options.costs = &side.problem.costs();
        options.performance.policy = served_.policy;
        options.iterations = kIterations;
        options.throughput_iterations = kIterations;
        const double from_s = watch_.elapsed_s();
        options.stop = [this, until_s] {
            return watch_.stopped() || watch_.elapsed_s() >= until_s;
        };
        options.flow_stop = [this, flow_until_s = from_s + (until_s - from_s) / 4] {
            return watch_.stopped() || watch_.elapsed_s() >= flow_until_s;
        };
        if (judged != nullptr) {
            options.method = plan::Method::manual;
            options.manual = *judged;
            options.stop = watch_.stopped;
            options.flow_stop = watch_.stopped;
        } else if (holds_layers(*start)) {
            options.starts.push_back(*start);
        }
        TRY(side.report, plan::plan(side.problem.cluster, side.problem.model, options));
        return side;
    }

    static bool holds_layers(const spec::Placement& placement) {
        return std::any_of(placement.layers.begin(), placement.layers.end(),
                           [](const spec::LayerRange& layers) { return !layers.empty(); });
    }

    // Tokens of context that every machine of the side with layers has room for.
    static double least_room(const ServedSide& side) {
        double least = static_cast<double>(side.problem.model.context_length);
        for (std::size_t n = 0; n < side.report.placement.layers.size(); ++n) {
            const spec::LayerRange layers = side.report.placement.layers[n];
            if (layers.empty()) continue;
            const double tokens = side.problem.capacities.kv_tokens(n, side.problem.model, layers);
            const double page = sim::simulated_worker().block_size;
            least = std::min(least, std::floor(tokens / page) * page - 1);
        }
        return least;
    }

    static Load load_within(double room) {
        Load load;
        const auto most = static_cast<std::int32_t>(room);
        load.moments = plan::fixed_lengths(0, 0);
        const sim::LengthSource conversations = sim::conversation_lengths();
        for (sim::RequestLength row : conversations.rows()) {
            row.prompt_tokens = std::clamp(row.prompt_tokens, 1, std::max(1, most * 3 / 4));
            row.output_tokens = std::clamp(row.output_tokens, 1, most - row.prompt_tokens);
            load.rows.push_back(row);
            load.moments.prompt += row.prompt_tokens;
            load.moments.output += row.output_tokens;
        }
        const auto n = static_cast<double>(load.rows.size());
        load.moments = plan::fixed_lengths(load.moments.prompt / n, load.moments.output / n);
        return load;
    }

    // Both sides under the same load; where one cannot run it says why.
    base::Status simulate(ServedAnswer& answer) const {
        constexpr double kLeastRoom = 16;
        const double room = std::min(least_room(answer.today), least_room(answer.what_if));
        if (room < kLeastRoom) {
            answer.today.not_simulated = answer.what_if.not_simulated =
                "there is no room for the KV memory of one request";
            return base::Ok{};
        }
        const Load load = load_within(room);
        answer.mean_prompt_tokens = load.moments.prompt;
        answer.mean_output_tokens = load.moments.output;
        double done = question_.suggest ? 0.5 : 0.7;
        const double step = question_.suggest ? 0.05 : 0.055;
        double offered = 0;
        for (ServedSide* side : {&answer.today, &answer.what_if}) {
            TRY_VOID(begin("simulation", done));
            TRY(side->report.alone,
                simulate_alone(side->problem,
                               sim::LengthSource(load.rows, sim::LengthOrder::sampled),
                               load.moments, side->report));
            TRY_VOID(begin("simulation", done += step));
            const auto saturated = run(*side, load, 0);
            if (!saturated.ok()) {
                const bool slow = saturated.error().code == base::Errc::unavailable;
                side->not_simulated = slow ? "it takes too long" : saturated.error().message;
                continue;
            }
            side->simulated.emplace().saturated_tokens_per_s = saturated->decode_tokens_per_s;
            if (offered <= 0) {
                offered =
                    kLoadShare * (saturated->decode_tokens_per_s + saturated->prompt_tokens_per_s);
            }
            TRY_VOID(begin("simulation", done += step));
            if (offered <= 0) continue;
            const auto loaded = run(*side, load, offered);
            if (!loaded.ok()) continue;
            side->simulated->offered_tokens_per_s = offered;
            side->simulated->served_tokens_per_s =
                loaded->decode_tokens_per_s + loaded->prompt_tokens_per_s;
            side->simulated->ttft = loaded->ttft;
            side->simulated->tpot = loaded->tpot;
            done += step / 2;
        }
        return base::Ok{};
    }

    // Offline where nothing is offered.
    base::Result<sim::SimReport> run(const ServedSide& side, const Load& load,
                                     double offered_tokens_per_s) const {
        sim::HelixSetup setup =
            helix_setup(side.problem, side.report.placement, side.report.flows, side.report.policy);
        setup.lengths = sim::LengthSource(load.rows, sim::LengthOrder::sampled);
        setup.overheads.lone_decode_doubles =
            false;  // in the published simulator, not in an engine
        if (offered_tokens_per_s > 0) {
            setup.online.emplace();
            setup.online->process = sim::ArrivalProcess::poisson;
            setup.online->tokens_per_s = offered_tokens_per_s;
        }
        double answer_s = 0;
        if (const auto& predicted = side.report.prediction) {
            answer_s = predicted->ttft_s + load.moments.output * predicted->tpot_s;
        }
        const double flow = offered_tokens_per_s > 0
                                ? offered_tokens_per_s
                                : std::max(side.report.max_flow_tokens_per_s, 1e-6);
        setup.duration_s =
            std::clamp(std::max(kWindowTokens / flow, 2 * answer_s), kLeastWindow_s, kMostWindow_s);
        setup.warmup_s =
            std::clamp(answer_s, std::max(setup.duration_s / 2, kLeastWarmup_s), kMostWindow_s);
        // Clusters that are fast beyond measure have too many tokens in any window.
        const double until_s = watch_.elapsed_s() + question_.budget_s / 2;
        setup.stop = [this, until_s] { return watch_.stopped() || watch_.elapsed_s() >= until_s; };
        return sim::run_helix(setup);
    }

    base::Status suggest(ServedAnswer& answer) const {
        TRY_VOID(begin("suggestions", 0.8));
        const MakeProblem make = [this](const spec::ClusterSpec& cluster) {
            return make_problem(served_.model, cluster);
        };
        const plan::CapacityFunction capacities = capacities_by(make);
        const plan::PredictFunction predict = predict_changes(make, true);
        const double from_s = watch_.elapsed_s();
        const double until_s = std::max(question_.budget_s, from_s + 0.3 * question_.budget_s);
        plan::AdviceOptions options;
        for (const char* type : kSuggestedTypes) options.types.emplace_back(type);
        options.stop = [&] { return watch_.stopped() || watch_.elapsed_s() >= until_s; };
        options.progress = [&](int done, int all, const std::string&) {
            watch_.progress({"suggestions", 0.8 + 0.2 * done / std::max(all, 1)});
        };
        TRY(answer.suggestions, plan::advise(served_.cluster, served_.model, served_.placement,
                                             capacities, predict, options));
        return begin("suggestions", 1);
    }

    const ServedPlan& served_;
    const ServedQuestion& question_;
    const ServedWatch& watch_;
};

}  // namespace

base::Result<ServedAnswer> answer_served_what_if(const ServedPlan& served,
                                                 const ServedQuestion& question,
                                                 const ServedWatch& watch) {
    return Answering(served, question, watch).run();
}

}  // namespace helix::lab
