// Our own batching (core/worker/batch_scheduler.cc): a worker runs all its layers for whatever
// waits, at most its group of decodes first, beside them at most mixed_prefill_rows rows of
// prompts. While a prompt passes, every batch carries a chunk of it; a decode that meets one
// travels with it, but a chunk is small.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "plan/predict/performance_impl.h"

namespace helix::plan {
namespace {

constexpr double kAlmostBusy = 0.97;
constexpr double kLeastIdle = 0.03;
constexpr double kSharp = 4;  // of the smooth maximum
constexpr double kFill = 0.85;
constexpr int kSteps = 8;
constexpr double kTolerance = 1e-3;

// Rows of prompts in a batch. Each machine cuts the chunks that come to its own room and takes one
// piece of a request at a time, so that on average part of the room stays empty.
double chunk_rows(const PerformanceModel::Impl& model) {
    return std::min<double>(kFill * model.options.mixed_prefill_rows, model.options.lengths.prompt);
}

// A batch of a stage's mean layers.
double batch_s(const PerformanceModel::Impl& model, const Traffic::Stage& stage, double decodes,
               double rows) {
    const LayerCurves& curves = model.curves(stage.node);
    return stage.layers * (curves.decode_s(decodes) + curves.prompt_s(rows, decodes));
}

// Rows of prompts per decode.
double prompt_rows(const PerformanceModel::Impl& model) {
    return model.options.lengths.prompt / model.options.lengths.output;
}

// Decodes of a group, if the round trip takes decode_s: as core::Coordinator counts groups.
double group_size(const Traffic::Stage& stage, double groups, double x, double decode_s) {
    return std::max(1.0, x * stage.share * decode_s / groups);
}

// x: decodes per second of the cluster; arriving: decodes that come in one message.
void load_stage(const PerformanceModel::Impl& model, const Traffic::Stage& stage, double x,
                double group, PerformanceScratch::Load& load) {
    const double rate = x * stage.share;
    const double chunk = chunk_rows(model);
    const double alone = std::clamp(load.message, 1.0, group);
    double cycle = load.cycle_s;
    double prompt = load.prompt_s;
    for (int step = 0; step < kSteps; ++step) {
        load.batch = std::clamp(rate * cycle, alone, group);
        load.prompt_batch = std::min(rate * prompt, group);
        const double next_cycle = batch_s(model, stage, load.batch, 0);
        const double next_prompt = batch_s(model, stage, load.prompt_batch, chunk);
        const bool settled = std::abs(next_cycle - cycle) <= kTolerance * next_cycle &&
                             std::abs(next_prompt - prompt) <= kTolerance * next_prompt;
        cycle = next_cycle;
        prompt = next_prompt;
        if (settled) break;
    }
    load.cycle_s = cycle;
    load.prompt_s = prompt;
    load.prompting = rate * prompt_rows(model) / chunk * prompt;
}

// What a request meets on its way; both passes over the traffic add to it.
class Passage {
  public:
    Passage(const PerformanceModel::Impl& model, PerformanceScratch& scratch, double x)
        : model_(model), scratch_(scratch), x_(x), chunk_(chunk_rows(model)) {}

    // Fills the loads for this guess of the time between tokens; returns what follows from them.
    RoundTrip walk(double decode_s) {
        const Traffic& traffic = scratch_.traffic;
        for (PerformanceScratch::Load& load : scratch_.loads) {
            load.arriving = 0;
            load.message = 0;
            load.pace_s = 0;
            load.queue_s = 0;
        }
        trip_ = {};
        pace_s_ = 0;
        queue_s_ = 0;
        slowest_s_ = 0;
        std::size_t hop = 0;
        while (hop < traffic.hops.size() && traffic.hops[hop].from < 0) cross(traffic.hops[hop++]);
        exit_batch_ = 0;
        for (std::size_t s = 0; s < traffic.stages.size(); ++s) {
            visit(traffic.stages[s], decode_s, scratch_.loads[s]);
            for (; hop < traffic.hops.size() &&
                   traffic.hops[hop].from == static_cast<std::int32_t>(s);
                 ++hop)
                cross(traffic.hops[hop]);
        }
        // All groups pass the slowest stage one after the other.
        const double paced = scratch_.groups * slowest_s_;
        const double free_s = trip_.decode_s;
        trip_.decode_s = std::pow(std::pow(free_s, kSharp) + std::pow(paced, kSharp), 1 / kSharp);
        const double chunks = model_.options.lengths.prompt / chunk_;
        trip_.prompt_s += (chunks - 1) * pace_s_ + queue_s_;
        return trip_;
    }

  private:
    void visit(const Traffic::Stage& stage, double decode_s, PerformanceScratch::Load& load) {
        if (stage.share <= 0) return;
        const double group = group_size(stage, scratch_.groups, x_, decode_s);
        load_stage(model_, stage, x_, group, load);
        const double rate = x_ * stage.share;
        const double busy = std::min(1.0, rate * load.cycle_s / load.batch);
        const double met = std::min(1.0, load.prompting);
        const double beside_prompt = load.arriving + (1 - load.arriving) * met;
        const double mean_s = met * load.prompt_s + (1 - met) * load.cycle_s;
        // What arrives waits for the batch that runs, if one of another group does.
        const double wait_s = (met + (1 - met) * busy) * mean_s / 2 * (1 - 1 / scratch_.groups);
        trip_.decode_s += stage.share * (beside_prompt * load.prompt_s +
                                         (1 - beside_prompt) * load.cycle_s + wait_s);
        trip_.prompt_s += stage.share * load.prompt_s * (1 + met / 2);
        load.trapped = beside_prompt;
        if (load.batch >= group) slowest_s_ = std::max(slowest_s_, mean_s);
        const double prompt_s = model_.options.lengths.prompt / chunk_ * load.prompt_s;
        load.pace_s = std::max(load.pace_s, load.prompt_s);
        load.queue_s =
            std::max(load.queue_s, met * prompt_s * model_.options.lengths.prompt_spread() /
                                       (2 * std::max(kLeastIdle, 1 - met)));
    }

    void cross(const Traffic::Hop& hop) {
        if (hop.share <= 0) return;
        const LengthMoments& lengths = model_.options.lengths;
        const double row_s = model_.row_s(hop);
        const bool enters = hop.from < 0;
        const bool leaves = hop.to < 0;
        const PerformanceScratch::Load none;
        const PerformanceScratch::Load& from =
            enters ? none : scratch_.loads[static_cast<std::size_t>(hop.from)];
        const double sent = enters ? scratch_.exit_batch : from.batch;
        const double rows = std::max(1.0, sent * hop.of_sender);
        const double behind = from.trapped * hop.of_sender;
        // The prompt comes in chunks as fast as its sender makes them; what the link cannot follow
        // waits before it.
        const double prompt_s = leaves ? row_s : lengths.prompt * row_s;
        const double chunk_s = leaves || enters ? prompt_s : chunk_ * row_s;
        const double backlog_s =
            std::max(0.0, prompt_s * (1 - from.prompt_s / std::max(chunk_s, 1e-12)));
        const double busy = std::min(1.0, hop.share * x_ * (prompt_s / lengths.output + row_s));
        const double ahead_s = (chunk_s + backlog_s) / 2 / std::max(kLeastIdle, 1 - busy);
        trip_.decode_s +=
            hop.share * (model_.latency_s(hop) + rows * row_s + behind * (chunk_s + backlog_s / 2) +
                         (1 - behind) * busy * ahead_s);
        trip_.prompt_s += hop.share * (model_.latency_s(hop) + chunk_s + busy * ahead_s);
        const double pace_s = std::max(from.pace_s, chunk_s);
        if (leaves) {
            pace_s_ += hop.share * from.pace_s;
            queue_s_ += hop.share * from.queue_s;
            exit_batch_ += hop.share * from.batch;
            return;
        }
        PerformanceScratch::Load& to = scratch_.loads[static_cast<std::size_t>(hop.to)];
        to.arriving += hop.of_receiver * (behind + (1 - behind) * busy);
        to.message += hop.of_receiver * rows;
        to.pace_s += hop.of_receiver * (enters ? 0 : pace_s);
        to.queue_s += hop.of_receiver * from.queue_s;
    }

    const PerformanceModel::Impl& model_;
    PerformanceScratch& scratch_;
    double x_;
    double chunk_;
    RoundTrip trip_;
    double pace_s_ = 0;
    double queue_s_ = 0;
    double slowest_s_ = 0;

  public:
    double exit_batch_ = 0;
};

}  // namespace

Saturation helix_saturation(const PerformanceModel::Impl& model, const Traffic& traffic) {
    Saturation saturation{.decode_tokens_per_s = 1e18, .limit = {}};
    const auto consider = [&](double most, PerformanceLimit::Kind kind, std::int32_t index) {
        if (most >= saturation.decode_tokens_per_s) return;
        saturation.decode_tokens_per_s = most;
        saturation.limit = {.kind = kind, .index = index, .layers = {}};
    };
    const double chunk = chunk_rows(model);
    const double decodes = kAlmostBusy * chunk / prompt_rows(model);
    for (const Traffic::Stage& stage : traffic.stages) {
        if (stage.share <= 0) continue;
        consider(decodes / (stage.share * batch_s(model, stage, decodes, chunk)),
                 PerformanceLimit::Kind::node, stage.node);
    }
    for (const Traffic::Hop& hop : traffic.hops) {
        const double busy_per_token = hop.share * model.row_s(hop) * (prompt_rows(model) + 1);
        if (busy_per_token > 0)
            consider(kAlmostBusy / busy_per_token, PerformanceLimit::Kind::link, hop.link);
    }
    return saturation;
}

RoundTrip helix_round_trip(const PerformanceModel::Impl& model, PerformanceScratch& scratch,
                           double x) {
    scratch.loads.resize(scratch.traffic.stages.size());
    Passage passage(model, scratch, x);
    RoundTrip trip;
    for (int step = 0; step < kSteps; ++step) {
        trip = passage.walk(scratch.decode_s);
        scratch.exit_batch = passage.exit_batch_;
        const bool settled =
            std::abs(trip.decode_s - scratch.decode_s) <= kTolerance * trip.decode_s;
        scratch.decode_s = trip.decode_s;
        if (settled) break;
    }
    return trip;
}

}  // namespace helix::plan
