#include "plan/bounds/delivered_machine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/index.h"
#include "plan/bounds/outward.h"

namespace helix::plan {
namespace {

using base::at;

constexpr std::int32_t kMostProbedRows = 8192;  // of decodes, and of prompts
// Of the least time of a prompt's row, so that what lies between probed sizes is no cheaper.
constexpr double kPromptShare = 0.99;

// Sizes from 0: every one at first, then multiples of what tables are measured in.
std::vector<std::int32_t> probed_decodes() {
    std::vector<std::int32_t> sizes;
    std::int32_t n = 0;
    while (n <= kMostProbedRows) {
        sizes.push_back(n);
        n += n < 128 ? 1 : n < 320 ? 2 : n < 640 ? 5 : n < 1280 ? 10 : n < 3200 ? 20 : 50;
    }
    return sizes;
}

std::vector<std::int32_t> probed_prompts() {
    std::vector<std::int32_t> sizes;
    std::int32_t n = 0;
    while (n <= kMostProbedRows) {
        sizes.push_back(n);
        n += n < 256 ? 1 : n < 640 ? 2 : n < 1280 ? 5 : n < 3200 ? 10 : 25;
    }
    return sizes;
}

// Products of two of these, or of one with a step of kept times, are doubles of full precision.
constexpr double kLeastPrice = 1e-60;
constexpr double kMostPrice = 1e60;

// What the cost of a batch that is taken for the best is less the least cost, at the most, as a
// share of it (MachineEarnings::least_cost): 5 roundings of 2^-53 each, and some.
constexpr double kSearchError = 0x1p-49;

// Rounds times down to multiples of a power of 2 so that each is a whole number below 2^53 of it,
// exactly: comparisons of them in whole numbers are exact.
class TimeSteps {
  public:
    explicit TimeSteps(double most_s) {
        if (most_s >= kLeastPrice) exponent_ = 52 - std::ilogb(most_s);
    }
    double whole(double s) const { return exponent_ ? std::floor(std::ldexp(s, *exponent_)) : 0.0; }
    double seconds(double whole) const { return exponent_ ? std::ldexp(whole, -*exponent_) : 0.0; }

  private:
    std::optional<int> exponent_;  // none: all times count as 0
};

// Whether b lies on or above the straight line from a to c, their coordinates being whole numbers.
bool is_no_corner(const BatchTime& a, const BatchTime& b, const BatchTime& c) {
    __extension__ using Wide = __int128;
    const auto difference = [](double x, double y) {
        return Wide(static_cast<std::int64_t>(x) - static_cast<std::int64_t>(y));
    };
    return difference(b.row_s, a.row_s) * difference(c.batch_s, a.batch_s) <=
           difference(b.batch_s, a.batch_s) * difference(c.row_s, a.row_s);
}

// The batches whose t row_s + e batch_s is least for some t, e >= 0, their times rounded down.
std::vector<BatchTime> useful_batches(std::vector<BatchTime> batches) {
    BatchTime most;
    for (const BatchTime& batch : batches) {
        most.row_s = std::max(most.row_s, batch.row_s);
        most.batch_s = std::max(most.batch_s, batch.batch_s);
    }
    const TimeSteps row(most.row_s);
    const TimeSteps whole_batch(most.batch_s);
    for (BatchTime& batch : batches) {
        batch = {row.whole(batch.row_s), whole_batch.whole(batch.batch_s)};
    }
    std::sort(batches.begin(), batches.end(), [](const BatchTime& a, const BatchTime& b) {
        return a.row_s != b.row_s ? a.row_s < b.row_s : a.batch_s < b.batch_s;
    });
    std::vector<BatchTime> hull;
    for (const BatchTime& batch : batches) {
        if (!hull.empty() && batch.batch_s >= hull.back().batch_s) continue;
        while (hull.size() >= 2) {
            if (!is_no_corner(hull[hull.size() - 2], hull.back(), batch)) break;
            hull.pop_back();
        }
        hull.push_back(batch);
    }
    for (BatchTime& batch : hull) {
        batch = {row.seconds(batch.row_s), whole_batch.seconds(batch.batch_s)};
    }
    return hull;
}

class Probe {
  public:
    Probe(const spec::NodeSpec& node, const spec::CostModel& costs) : node_(node), costs_(costs) {}

    void take_times(MachineKind& kind) {
        kind.prompt_row_s = std::numeric_limits<double>::infinity();
        for (std::int32_t rows = 1; rows <= kMostProbedRows; ++rows) {
            kind.prompt_row_s = std::min(kind.prompt_row_s, costs_.layer_s(node_, 0, rows) / rows);
        }
        kind.prompt_row_s *= kPromptShare;
        std::vector<BatchTime> batches;
        std::vector<double> before;
        for (std::size_t i = 1; i < decodes_.size(); ++i) {
            std::vector<double> times = times_with(decodes_[i]);
            // Sizes between two probed ones cost no less than the lesser, and have fewer rows than
            // the greater.
            if (i > 1 && decodes_[i] - decodes_[i - 1] > 1) {
                for (std::size_t k = 0; k < times.size(); ++k)
                    before[k] = std::min(before[k], times[k]);
                add(batches, decodes_[i], before, kind.prompt_row_s);
            }
            add(batches, decodes_[i], times, kind.prompt_row_s);
            before = std::move(times);
        }
        kind.batches = useful_batches(std::move(batches));
    }

  private:
    std::vector<double> times_with(std::int32_t decodes) const {
        std::vector<double> times;
        times.reserve(prompts_.size());
        for (const std::int32_t rows : prompts_) {
            times.push_back(costs_.layer_s(node_, decodes, rows));
        }
        return times;
    }

    // d(b): what is left of the time, at the least, when the rows of prompts are paid.
    void add(std::vector<BatchTime>& batches, std::int32_t decodes,
             const std::vector<double>& times, double prompt_row_s) const {
        double least = times.front();
        for (std::size_t k = 1; k < times.size(); ++k) {
            const bool between = prompts_[k] - prompts_[k - 1] > 1;
            const double time = between ? std::min(times[k - 1], times[k]) : times[k];
            const double paid = multiply_up(prompt_row_s, prompts_[k]);
            least = std::min(least, subtract_down(time, paid));
        }
        least = std::max(least, 0.0);
        batches.push_back({std::max(divide_down(least, decodes), 0.0), least});
    }

    const spec::NodeSpec& node_;
    const spec::CostModel& costs_;
    std::vector<std::int32_t> decodes_ = probed_decodes();
    std::vector<std::int32_t> prompts_ = probed_prompts();
};

bool are_alike(const spec::NodeSpec& a, const spec::NodeSpec& b) {
    return a.type == b.type && a.memory_bytes == b.memory_bytes &&
           a.decode_s_per_layer == b.decode_s_per_layer &&
           a.decode_batch_s_per_layer == b.decode_batch_s_per_layer &&
           a.prefill_s_per_token_layer == b.prefill_s_per_token_layer;
}

}  // namespace

double TokenNeeds::tokens_on_links(double flow) const {
    double mean_context = 0;
    for (const ContextShare& context : contexts) {
        mean_context = add_down(mean_context, multiply_down(context.share, context.tokens));
    }
    return std::max(multiply_down(multiply_down(flow, mean_context), travel_s), 0.0);
}

double usable_price(double price) {
    return price >= kLeastPrice && price <= kMostPrice ? price : 0;
}

std::vector<MachineKind> machine_kinds(const Problem& problem, const spec::CostModel& costs,
                                       const std::function<bool()>& stop) {
    std::vector<MachineKind> kinds;
    std::vector<const spec::NodeSpec*> first;  // of each kind
    for (std::size_t n = 0; n < problem.cluster.nodes.size(); ++n) {
        const spec::NodeSpec& node = problem.cluster.nodes[n];
        const NodeCapacity& capacity = problem.capacities.nodes[n];
        const std::int32_t most = std::min(capacity.most(), problem.model.n_layers);
        if (most < 1) continue;
        const std::vector<double> kv_tokens(capacity.kv_tokens.begin(),
                                            capacity.kv_tokens.begin() + most + 1);
        std::size_t k = 0;
        while (k < kinds.size() &&
               !(are_alike(*first[k], node) && kinds[k].kv_tokens == kv_tokens)) {
            ++k;
        }
        if (k == kinds.size()) {
            if (stop && stop()) return {};
            kinds.push_back({.count = 0, .kv_tokens = kv_tokens, .prompt_row_s = 0, .batches = {}});
            first.push_back(&node);
            Probe(node, costs).take_times(kinds.back());
        }
        ++kinds[k].count;
    }
    return kinds;
}

MachineEarnings::MachineEarnings(const MachineKind& kind, const TokenNeeds& needs,
                                 const DeliveredPrices& prices, double flow)
    : kind_(kind), needs_(needs), prices_(prices), rows_(flow * needs.n_layers) {
    by_layers_.push_back(0);
    time_prices_.push_back(0);
    const std::vector<TurningPoint> points = turning_points();
    std::size_t best = 0;  // the more layers, the more is time worth
    double rest = beyond(0);
    for (std::int32_t j = 1; j <= kind.most(); ++j) {
        const double part = static_cast<double>(j) / needs.n_layers;
        const std::size_t before = best;
        while (best + 1 < points.size() && points[best].busy * part > 1) ++best;
        const double price = usable_price(points[best].time_price);
        if (best != before) rest = beyond(price);
        by_layers_.push_back(add_up(price, multiply_up(rest, divide_up(j, needs.n_layers))));
        time_prices_.push_back(price);
    }
}

double MachineEarnings::row_cost(std::size_t context, const BatchTime& batch,
                                 double time_price) const {
    return rows_ * needs_.contexts[context].share *
           (time_price * batch.row_s +
            prices_.held * needs_.contexts[context].tokens * batch.batch_s);
}

// Costs fall along the batches up to the best, then rise: how they change from one to the next,
// for each second that a row takes longer, is t + h s, with h the price of a second of a whole
// batch and s the slope of the batches there, which rises because they are convex.
//
// The comparison of t (row_s more) with h (batch_s less) has five roundings at most, none below the
// range of doubles, so it goes wrong only where |t + h s| is less than 5.01 x 2^-53 t. Say that
// this leads to batch m and that k is the best. If k > m, the changes from m on are not below that
// (those after m are greater than the one that was misjudged), so the cost of m is more than that
// of k by 5.01 x 2^-53 t (row_s of k) at the most, which is no more than that share of the cost of
// k. If k < m, the changes up to m are not above it, and the same follows with the cost of m.
std::size_t MachineEarnings::best_batch(std::size_t context, double time_price) const {
    const double held = prices_.held * needs_.contexts[context].tokens;
    std::size_t first = 0;
    std::size_t last = kind_.batches.size() - 1;
    while (first < last) {
        const std::size_t middle = (first + last) / 2;
        const BatchTime& here = kind_.batches[middle];
        const BatchTime& next = kind_.batches[middle + 1];
        const bool falls =
            time_price * (next.row_s - here.row_s) < held * (here.batch_s - next.batch_s);
        (falls ? first : last) = falls ? middle + 1 : middle;
    }
    return first;
}

// Of a context's rows in all layers, rounded down; no more than with any of the batches.
double MachineEarnings::least_cost(std::size_t context, double time_price) const {
    const ContextShare& of = needs_.contexts[context];
    const BatchTime& batch = kind_.batches[best_batch(context, time_price)];
    const double held = multiply_down(prices_.held, of.tokens);
    const double one = add_down(multiply_down(time_price, batch.row_s),
                                multiply_down(std::max(held, 0.0), batch.batch_s));
    const double rows = multiply_down(below(rows_), of.share);
    return multiply_down(multiply_down(std::max(rows, 0.0), std::max(one, 0.0)), 1 - kSearchError);
}

double MachineEarnings::beyond(double time_price) const {
    double sum = 0;
    for (std::size_t c = 0; c < needs_.contexts.size(); ++c) {
        const double cost = least_cost(c, time_price);
        sum = add_up(sum, std::max(0.0, subtract_up(prices_.decodes[c], cost)));
    }
    const double prompt_rows = multiply_down(below(rows_), needs_.prompt_rows);
    const double one = multiply_down(time_price, kind_.prompt_row_s);
    const double cost = multiply_down(std::max(prompt_rows, 0.0), std::max(one, 0.0));
    return add_up(sum, std::max(0.0, subtract_up(prices_.prompts, cost)));
}

// Where beyond() bends, with the time that the rows of all layers take from there on. What is
// wrong here makes a poorer choice of prices for time, no wrong bound.
std::vector<MachineEarnings::TurningPoint> MachineEarnings::turning_points() const {
    std::vector<TurningPoint> points = {{0, 0}};
    const auto add = [&](double point, double busy) {
        if (point > 0 && std::isfinite(point)) {
            points.push_back({point, -busy});
            points.front().busy += busy;
        }
    };
    const double prompts_s = rows_ * needs_.prompt_rows * kind_.prompt_row_s;
    add(prices_.prompts / prompts_s, prompts_s);
    for (std::size_t c = 0; c < needs_.contexts.size(); ++c) {
        const double held = prices_.held * needs_.contexts[c].tokens;
        const double rows = rows_ * needs_.contexts[c].share;
        const double paid = prices_.decodes[c] / rows;
        std::size_t b = kind_.batches.size() - 1;
        for (; b > 0; --b) {
            const BatchTime& more = kind_.batches[b - 1];
            const BatchTime& fewer = kind_.batches[b];
            const double point = held * (more.batch_s - fewer.batch_s) / (fewer.row_s - more.row_s);
            if (point * fewer.row_s + held * fewer.batch_s >= paid) break;
            add(point, rows * (fewer.row_s - more.row_s));
        }
        const BatchTime& last = kind_.batches[b];
        add((paid - held * last.batch_s) / last.row_s, rows * last.row_s);
    }
    std::sort(points.begin() + 1, points.end(),
              [](const auto& a, const auto& b) { return a.time_price < b.time_price; });
    for (std::size_t p = 1; p < points.size(); ++p) points[p].busy += points[p - 1].busy;
    return points;
}

MachineWork MachineEarnings::work_at(double time_price) const {
    MachineWork work;
    for (std::size_t c = 0; c < needs_.contexts.size(); ++c) {
        const BatchTime& batch = kind_.batches[best_batch(c, time_price)];
        const bool worth = prices_.decodes[c] > row_cost(c, batch, time_price);
        work.decodes.push_back(worth ? 1 : 0);
        if (!worth) continue;
        const ContextShare& context = needs_.contexts[c];
        work.busy += context.share * batch.row_s;
        work.held_tokens += context.share * context.tokens * batch.batch_s;
    }
    const double prompt_s = needs_.prompt_rows * kind_.prompt_row_s;
    if (prices_.prompts > time_price * rows_ * prompt_s) {
        work.prompts = 1;
        work.busy += prompt_s;
    }
    return work;
}

// Just below the best price of time a machine is asked for more than its time, just above for
// less: a mixture of both takes all of it.
MachineWork MachineEarnings::work(std::int32_t layers) const {
    const double price = time_prices_[at(layers)];
    const double flow = rows_ / needs_.n_layers;
    MachineWork more = work_at(price * (1 - 1e-9));
    const MachineWork less = work_at(price * (1 + 1e-9) + std::numeric_limits<double>::min());
    const double room = 1 - less.busy * layers * flow;
    const double wanted = (more.busy - less.busy) * layers * flow;
    const double part = wanted > 0 ? std::clamp(room / wanted, 0.0, 1.0) : 1.0;
    const auto mix = [&](double& a, double b) { a = b + part * (a - b); };
    for (std::size_t c = 0; c < more.decodes.size(); ++c) mix(more.decodes[c], less.decodes[c]);
    mix(more.prompts, less.prompts);
    mix(more.busy, less.busy);
    mix(more.held_tokens, less.held_tokens);
    return more;
}

}  // namespace helix::plan
