// The published simulator's batching, modelled as a road with slow vehicles: a decode that meets a
// prompt stays behind it for the rest of the pipeline, because a machine runs one layer at a time,
// batches merge in front of each layer and links are first in, first out.

#include <algorithm>
#include <cmath>

#include "plan/predict/performance_impl.h"

namespace helix::plan {
namespace {

constexpr double kReferenceAlmostBusy = 0.97;
constexpr double kReferenceLeastIdle = 0.05;
// A stage copies what arrived between host and device: bytes/s of the two copies of a row.
constexpr double kCopySecondsPerByte = 1 / 4e9 + 1 / 5e9;
constexpr int kCycleSteps = 12;
constexpr double kCycleTolerance = 1e-4;

// Time of a mean prompt alone in a stage.
double prompt_alone_s(const PerformanceModel::Impl& model, const Traffic::Stage& stage) {
    return stage.layers * model.curves(stage.node).mean_prompt_s() +
           model.options.lengths.prompt * model.activation_bytes * kCopySecondsPerByte;
}

// The published tables count a single decode twice, which is what two take.
double decode_layer_s(const LayerCurves& curves, double decodes) {
    return curves.decode_s(std::max(2.0, decodes));
}

void load_stage(const PerformanceModel::Impl& model, const Traffic::Stage& stage, double x,
                PerformanceScratch::Load& load) {
    const LayerCurves& curves = model.curves(stage.node);
    const double prompt_alone = prompt_alone_s(model, stage);
    const double decodes_per_s = x * stage.share;
    const double copy_s = model.activation_bytes * kCopySecondsPerByte;
    load.prompting = decodes_per_s / model.options.lengths.output * prompt_alone;
    const double idle = std::max(kReferenceLeastIdle, 1 - load.prompting);
    double cycle = load.cycle_s > 0 ? load.cycle_s : stage.layers * decode_layer_s(curves, 1);
    for (int step = 0; step < kCycleSteps; ++step) {
        const double next = stage.layers * decode_layer_s(curves, decodes_per_s * cycle / idle) +
                            decodes_per_s * cycle * copy_s;
        const bool settled = std::abs(next - cycle) <= kCycleTolerance * cycle;
        cycle = next;
        if (settled) break;
    }
    load.cycle_s = cycle;
    load.batch = std::max(2.0, decodes_per_s * cycle / idle);
    load.prompt_s = prompt_alone +
                    stage.layers * decode_layer_s(curves, decodes_per_s * (cycle + prompt_alone));
}

}  // namespace

Saturation reference_saturation(const PerformanceModel::Impl& model, const Traffic& traffic) {
    const LengthMoments& lengths = model.options.lengths;
    Saturation saturation{.decode_tokens_per_s = 1e18, .limit = {}};
    const auto consider = [&](double busy_per_token, PerformanceLimit::Kind kind,
                              std::int32_t index) {
        if (busy_per_token <= 0) return;
        const double most = kReferenceAlmostBusy / busy_per_token;
        if (most >= saturation.decode_tokens_per_s) return;
        saturation.decode_tokens_per_s = most;
        saturation.limit = {.kind = kind, .index = index, .layers = {}};
    };
    for (const Traffic::Stage& stage : traffic.stages) {
        consider(stage.share / lengths.output * prompt_alone_s(model, stage),
                 PerformanceLimit::Kind::node, stage.node);
    }
    for (const Traffic::Hop& hop : traffic.hops) {
        consider(hop.share * model.row_s(hop) * (lengths.prompt / lengths.output + 1),
                 PerformanceLimit::Kind::link, hop.link);
    }
    return saturation;
}

RoundTrip reference_round_trip(const PerformanceModel::Impl& model, PerformanceScratch& scratch,
                               double x) {
    const LengthMoments& lengths = model.options.lengths;
    const double prompts_per_s = x / lengths.output;
    const Traffic& traffic = scratch.traffic;
    scratch.loads.resize(traffic.stages.size());
    for (std::size_t s = 0; s < traffic.stages.size(); ++s) {
        scratch.loads[s].arriving = 0;
        load_stage(model, traffic.stages[s], x, scratch.loads[s]);
    }
    RoundTrip trip;
    const auto cross = [&](const Traffic::Hop& hop) {
        if (hop.share <= 0) return;
        const double row_s = model.row_s(hop);
        const double prompt_s = lengths.prompt * row_s;
        const double busy = hop.share * (prompts_per_s * prompt_s + x * row_s);
        const double idle = std::max(kReferenceLeastIdle, 1 - busy);
        const double behind =
            hop.from < 0
                ? 0
                : scratch.loads[static_cast<std::size_t>(hop.from)].trapped * hop.of_sender;
        const double cycle_s =
            hop.from < 0 ? 0 : scratch.loads[static_cast<std::size_t>(hop.from)].cycle_s;
        const double batch = std::max(1.0, x * hop.share * cycle_s);
        const double residual = lengths.prompt_spread() * prompt_s / (2 * idle);
        trip.decode_s += hop.share * (model.latency_s(hop) + row_s * (1 + (batch - 1) / 2) +
                                      behind * prompt_s + busy * residual);
        trip.prompt_s += hop.share * (model.latency_s(hop) + prompt_s +
                                      hop.share * prompts_per_s * lengths.prompt_prompt * row_s *
                                          row_s / (2 * idle));
        if (hop.to >= 0) {
            scratch.loads[static_cast<std::size_t>(hop.to)].arriving +=
                hop.of_receiver * (behind + (1 - behind) * busy);
        }
    };
    std::size_t hop = 0;
    while (hop < traffic.hops.size() && traffic.hops[hop].from < 0) cross(traffic.hops[hop++]);
    for (std::size_t s = 0; s < traffic.stages.size(); ++s) {
        const Traffic::Stage& stage = traffic.stages[s];
        PerformanceScratch::Load& load = scratch.loads[s];
        const double met = 1 - std::exp(-prompts_per_s * stage.share * load.prompt_s);
        const double residual = lengths.prompt_spread() * load.prompt_s /
                                (2 * std::max(kReferenceLeastIdle, 1 - load.prompting));
        const double free_pass =
            load.cycle_s * (1 + (1 - std::exp(-x * stage.share * load.cycle_s)) / 2);
        trip.decode_s += stage.share * (load.arriving * load.prompt_s +
                                        (1 - load.arriving) * (met * residual + free_pass));
        trip.prompt_s += stage.share * (load.prompt_s + met * residual);
        load.trapped = load.arriving + (1 - load.arriving) * met;
        for (; hop < traffic.hops.size() && traffic.hops[hop].from == static_cast<std::int32_t>(s);
             ++hop)
            cross(traffic.hops[hop]);
    }
    return trip;
}

}  // namespace helix::plan
