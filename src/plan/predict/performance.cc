#include "plan/predict/performance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/index.h"
#include "plan/predict/performance_impl.h"
#include "spec/kv_fill.h"

namespace helix::plan {
namespace {

// The rules of the published scheduler: a request comes while the fullest layer is below kFeed of
// its KV memory, a node takes it while it is below kHighWater, and links with less than kLeastShare
// of what leaves their sender are not used.
constexpr double kFeed = 0.8;
constexpr double kHighWater = 0.85;
constexpr double kLeastShare = 0.05;
// Residents hold less than their final length: the mean over the time that they are resident, as a
// share of it, in runs of the published simulator.
constexpr double kMeanContext = 0.955;

constexpr double kNextToNothing = 1e-6;  // tokens/s
constexpr int kSolveSteps = 40;
constexpr double kSolveTolerance = 1e-4;

using base::at;

double least_share(const PerformanceOptions& options) {
    return options.batching == Batching::reference ? kLeastShare : 0;
}

}  // namespace

const char* to_string(Batching batching) {
    return batching == Batching::helix ? "helix" : "reference";
}

PerformanceModel::Impl::Impl(const Problem& p, const spec::CostModel& costs,
                             const PerformanceOptions& o)
    : problem(p),
      options(o),
      builder(p.cluster),
      activation_bytes(static_cast<double>(p.model.activation_bytes_per_token)),
      token_bytes(static_cast<double>(p.model.token_bytes)) {
    CHECK(p.capacities.nodes.size() == p.cluster.nodes.size());
    CHECK(o.lengths.prompt > 0 && o.lengths.output > 0);
    for (const spec::NodeSpec& node : p.cluster.nodes) {
        LayerCurves curves(node, costs, o.lengths.prompt);
        const auto same = std::find(curves_.begin(), curves_.end(), curves);
        curve_of_.push_back(static_cast<std::size_t>(same - curves_.begin()));
        if (same == curves_.end()) curves_.push_back(std::move(curves));
    }
}

// The groups that decodes travel in, by the machines that work at the same time along the shortest
// pipeline, as core::Coordinator counts.
double PerformanceModel::Impl::groups(const Traffic& traffic) const {
    std::vector<std::int32_t> depth(traffic.stages.size(),
                                    std::numeric_limits<std::int32_t>::max());
    std::vector<bool> counted(problem.cluster.nodes.size());
    std::vector<const spec::NodeSpec*> computing;
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    for (const Traffic::Hop& hop : traffic.hops) {
        if (hop.share <= 0) continue;
        const std::int32_t next = hop.from < 0 ? 1 : depth[at(hop.from)] + 1;
        if (hop.to < 0) {
            least = std::min(least, next - 1);
        } else {
            depth[at(hop.to)] = std::min(depth[at(hop.to)], next);
            const std::size_t node = at(traffic.stages[at(hop.to)].node);
            if (counted[node]) continue;
            counted[node] = true;
            computing.push_back(&problem.cluster.nodes[node]);
        }
    }
    return spec::decode_groups(options.policy,
                               std::max(1, std::min(spec::computing_at_once(computing), least)));
}

// Routing evens out how full the holders of a layer are, but only so far: memory of one that gets
// less than this part of the layer's requests counts in proportion.
constexpr double kFullUse = 0.1;

Room kv_room(const PerformanceModel::Impl& model, std::span<const spec::LayerRange> layers,
             PerformanceScratch& scratch) {
    const PerformanceOptions& options = model.options;
    const bool reference = options.batching == Batching::reference;
    const double all = options.lengths.prompt_while_decoding() + options.expected_output;
    // The published order of work keeps the KV before windows.
    const double context =
        reference ? all * kMeanContext : spec::kept_tokens(model.problem.model, all);
    // Tokens of context that the holders of a layer have room for, and how much of it a token of
    // one request takes: less than 1 where its stages run only a part of what they hold.
    scratch.layer_kv.assign(at(model.problem.model.n_layers), 0.0);
    scratch.layer_use.assign(at(model.problem.model.n_layers), 0.0);
    const auto use_of = [&](std::size_t i) {
        const std::int32_t s = scratch.traffic.stage_of[i];
        if (s < 0 || layers[i].empty()) return 0.0;
        const Traffic::Stage& stage = scratch.traffic.stages[at(s)];
        return stage.share * stage.layers / layers[i].size();
    };
    for (std::size_t i = 0; i < layers.size(); ++i) {
        for (std::int32_t l = layers[i].begin; l < layers[i].end; ++l) {
            scratch.layer_use[at(l)] += use_of(i);
        }
    }
    double fullest_node = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const spec::LayerRange range = layers[i];
        const double use = use_of(i);
        if (range.empty() || (use <= 0 && !reference)) continue;
        const double kv = model.problem.capacities.kv_tokens(i, model.problem.model, range);
        for (std::int32_t l = range.begin; l < range.end; ++l) {
            const double part = use / scratch.layer_use[at(l)] / kFullUse;
            scratch.layer_kv[at(l)] += kv * std::min(1.0, part);
        }
        if (use > 0) fullest_node = std::min(fullest_node, kv / use);
    }
    Room room;
    double fullest_layer = std::numeric_limits<double>::infinity();
    for (std::int32_t l = 0; l < model.problem.model.n_layers; ++l) {
        const double tokens = scratch.layer_kv[at(l)] / scratch.layer_use[at(l)];
        if (tokens < fullest_layer * (1 - 1e-9)) {
            fullest_layer = tokens;
            room.layers = {l, l + 1};
        } else if (l == room.layers.end && tokens <= fullest_layer * (1 + 1e-9)) {
            room.layers.end = l + 1;
        }
    }
    const auto requests = [&](double tokens, double published) {
        if (reference) return published * tokens / context;
        const double fill = spec::kv_fill(options.policy.kv_high_water, tokens / context);
        return fill * tokens / context;
    };
    const double by_layer = requests(fullest_layer, kFeed);
    const double by_node = requests(fullest_node, kHighWater);
    room.requests = std::min(by_layer, std::sqrt(by_layer * by_node));
    return room;
}

namespace {

// Solves for the decode rate at which the requests under way are as many as there is room for.
class Solver {
  public:
    Solver(const PerformanceModel::Impl& model, PerformanceScratch& scratch, const Room& room)
        : model_(model), scratch_(scratch), room_(room) {}

    // With next to nothing under way.
    RoundTrip empty() {
        forget();
        return round_trip(kNextToNothing);
    }

    // Sets trip, limit and returns the rate.
    double solve(RoundTrip& trip, PerformanceLimit& limit) {
        const Saturation saturation = reference() ? reference_saturation(model_, scratch_.traffic)
                                                  : helix_saturation(model_, scratch_.traffic);
        double high = saturation.decode_tokens_per_s;
        limit = saturation.limit;
        const double offered = model_.options.requests_per_s * model_.options.lengths.output;
        if (offered > 0 && offered < high) {
            high = offered;
            limit = {.kind = PerformanceLimit::Kind::load, .index = 0, .layers = {}};
        }
        forget();
        double over = excess(high, trip);
        if (over <= 0) return high;
        limit = {.kind = PerformanceLimit::Kind::kv, .index = 0, .layers = room_.layers};
        return between(high, over, trip);
    }

  private:
    // No guesses from other rates or placements.
    void forget() {
        for (PerformanceScratch::Load& load : scratch_.loads) load = {};
        scratch_.groups = reference() ? 1 : model_.groups(scratch_.traffic);
        scratch_.decode_s = 0;
        scratch_.exit_batch = 0;
    }

    RoundTrip round_trip(double rate) {
        return reference() ? reference_round_trip(model_, scratch_, rate)
                           : helix_round_trip(model_, scratch_, rate);
    }

    bool reference() const { return model_.options.batching == Batching::reference; }

    double excess(double rate, RoundTrip& trip) {
        trip = round_trip(rate);
        return rate * (trip.decode_s + trip.prompt_s / model_.options.lengths.output) -
               room_.requests;
    }

    // The excess rises with the rate: false position with the Illinois rule, from [0, high].
    double between(double high, double over, RoundTrip& trip) {
        double low = 0;
        double under = -room_.requests;
        double rate = 0;
        for (int step = 0; step < kSolveSteps && high - low > kSolveTolerance * high; ++step) {
            // A steep end (queues near saturation) would hold false position back: halve as well.
            rate = step % 3 == 2 ? (low + high) / 2 : (low * over - high * under) / (over - under);
            const double value = excess(rate, trip);
            if (std::abs(value) <= kSolveTolerance * room_.requests) break;
            if (value > 0) {
                high = rate;
                over = value;
                under /= 2;
            } else {
                low = rate;
                under = value;
                over /= 2;
            }
        }
        return rate;
    }

    const PerformanceModel::Impl& model_;
    PerformanceScratch& scratch_;
    const Room& room_;
};

}  // namespace

PerformanceModel::PerformanceModel(const Problem& problem, const spec::CostModel& costs,
                                   const PerformanceOptions& options)
    : impl_(std::make_unique<Impl>(problem, costs, options)) {}
PerformanceModel::~PerformanceModel() = default;
PerformanceModel::PerformanceModel(PerformanceModel&&) noexcept = default;
PerformanceModel& PerformanceModel::operator=(PerformanceModel&&) noexcept = default;

const PerformanceOptions& PerformanceModel::options() const {
    return impl_->options;
}

Estimate PerformanceModel::estimate(std::span<const spec::LayerRange> layers,
                                    std::span<const spec::LinkFlow> flows,
                                    PerformanceScratch& scratch) const {
    Estimate estimate;
    if (!impl_->builder.build(layers, impl_->problem.model.n_layers, flows,
                              least_share(impl_->options), scratch.traffic))
        return estimate;
    const Room room = kv_room(*impl_, layers, scratch);
    Solver solver(*impl_, scratch, room);
    const RoundTrip alone = solver.empty();
    estimate.alone_ttft_s = alone.prompt_s;
    estimate.alone_tpot_s = alone.decode_s;
    RoundTrip trip;
    PerformanceLimit limit;
    estimate.decode_tokens_per_s = solver.solve(trip, limit);
    estimate.ttft_s = trip.prompt_s;
    estimate.tpot_s = trip.decode_s;
    estimate.depth = scratch.traffic.depth;
    estimate.scarce_layer = room.layers.begin;
    return estimate;
}

Prediction PerformanceModel::predict(std::span<const spec::LayerRange> layers,
                                     std::span<const spec::LinkFlow> flows) const {
    Prediction prediction;
    prediction.node_busy.assign(impl_->problem.cluster.nodes.size(), 0.0);
    prediction.link_busy.assign(impl_->problem.cluster.links.size(), 0.0);
    PerformanceScratch scratch;
    if (!impl_->builder.build(layers, impl_->problem.model.n_layers, flows,
                              least_share(impl_->options), scratch.traffic))
        return prediction;
    const LengthMoments& lengths = impl_->options.lengths;
    const Room room = kv_room(*impl_, layers, scratch);
    Solver solver(*impl_, scratch, room);
    const RoundTrip alone = solver.empty();
    prediction.alone_ttft_s = alone.prompt_s;
    prediction.alone_tpot_s = alone.decode_s;
    RoundTrip trip;
    const double rate = solver.solve(trip, prediction.limit);
    prediction.decode_tokens_per_s = rate;
    prediction.prompt_tokens_per_s = rate * lengths.prompt / lengths.output;
    prediction.ttft_s = trip.prompt_s;
    prediction.tpot_s = trip.decode_s;
    prediction.resident = rate * (trip.decode_s + trip.prompt_s / lengths.output);
    prediction.kv_requests = room.requests;
    prediction.depth = scratch.traffic.depth;
    for (std::size_t s = 0; s < scratch.traffic.stages.size(); ++s) {
        const Traffic::Stage& stage = scratch.traffic.stages[s];
        const PerformanceScratch::Load& load = scratch.loads[s];
        const double with_prompts = std::min(1.0, load.prompting);
        const double decodes = rate * stage.share * load.cycle_s / std::max(1.0, load.batch);
        prediction.node_busy[at(stage.node)] =
            with_prompts + (1 - with_prompts) * std::min(1.0, decodes);
    }
    for (const Traffic::Hop& hop : scratch.traffic.hops) {
        prediction.link_busy[at(hop.link)] = hop.share * rate * impl_->row_s(hop) *
                                             (hop.to < 0 ? 1 : 1 + lengths.prompt / lengths.output);
    }
    return prediction;
}

std::string describe_limit(const spec::ClusterSpec& cluster, const PerformanceLimit& limit) {
    switch (limit.kind) {
        case PerformanceLimit::Kind::load:
            return "the offered load";
        case PerformanceLimit::Kind::kv:
            return fmt::format("the KV memory of layers {}-{}", limit.layers.begin,
                               limit.layers.end - 1);
        case PerformanceLimit::Kind::node:
            return fmt::format("the computing speed of {}", spec::end_name(cluster, limit.index));
        case PerformanceLimit::Kind::link: {
            const spec::LinkSpec& link = cluster.links[at(limit.index)];
            return fmt::format("the link {} -> {}", spec::end_name(cluster, link.from),
                               spec::end_name(cluster, link.to));
        }
        case PerformanceLimit::Kind::broken:
            break;
    }
    return "flows that do not lead through all layers";
}

}  // namespace helix::plan
