#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/problem/lengths.h"
#include "plan/problem/problem.h"
#include "spec/cost_model.h"

// What the proof of plan/bounds/delivered_bound.h knows of machines, and what one of them can earn
// at given prices.

namespace helix::plan {

// Decodes of one size of batches, in one layer: seconds per row, and of the whole batch.
struct BatchTime {
    double row_s = 0;
    double batch_s = 0;
};

// Nodes that are alike in all that counts here. A batch of b decodes and q rows of prompts takes at
// least d(b) + q prompt_row_s for a layer, and for some of `batches` d(b) / b >= row_s and
// d(b) >= batch_s.
struct MachineKind {
    std::int32_t count = 0;
    std::vector<double> kv_tokens;  // [j]: as NodeCapacity::kv_tokens, up to the most layers
    double prompt_row_s = 0;
    // row_s rises and batch_s falls, and the points (row_s, batch_s) are convex, exactly: only what
    // is best for some price of time in a batch.
    std::vector<BatchTime> batches;

    std::int32_t most() const { return static_cast<std::int32_t>(kv_tokens.size()) - 1; }
};

// Empty if no node can hold a layer, or if `stop` ended it.
std::vector<MachineKind> machine_kinds(const Problem& problem, const spec::CostModel& costs,
                                       const std::function<bool()>& stop);

// What a token of the flow needs.
struct TokenNeeds {
    std::int32_t n_layers = 0;
    double prompt_rows = 0;              // for each token, at the least
    std::vector<ContextShare> contexts;  // of its row
    double travel_s = 0;                 // of its row on links, at the least

    // Tokens of context whose row is on links, in the mean, where so many tokens/s are delivered:
    // rounded down.
    double tokens_on_links(double flow) const;
};

// Prices, none negative. The first two are for all of the flow's rows in all layers.
struct DeliveredPrices {
    std::vector<double> decodes;  // [context]
    double prompts = 0;
    double kv = 0;    // of a token's KV in one layer
    double held = 0;  // for each token of context of the rows that are in batches, mean
};

// The price itself, or 0 if it is not above 0 or so large or small that products of it would leave
// the range of doubles. Any prices prove what they prove, these too.
double usable_price(double price);

// What a machine does: shares of what its layers can have of the flow's rows, by context and of
// prompts. For a flow of 1 token/s and one layer: its time, and the tokens of context in batches.
struct MachineWork {
    std::vector<double> decodes;
    double prompts = 0;
    double busy = 0;
    double held_tokens = 0;
};

// What a kind's machines can earn with rows, for a flow of so many tokens/s.
//
// A machine with j layers runs at most the j-th part of all rows of the flow and L layers. With a
// price t for its time, a row of context k that is paid w earns at most w less the least of
// t row_s + held k batch_s over `batches`, or nothing. So all that it can earn is at most
//     t + j / L * (sum over contexts and prompts of what their rows earn beyond that)
// for every t >= 0; this takes about the best t. Whatever t is taken, the result is a bound, and it
// is rounded up. Prices are usable ones.
class MachineEarnings {
  public:
    MachineEarnings(const MachineKind& kind, const TokenNeeds& needs, const DeliveredPrices& prices,
                    double flow);

    const std::vector<double>& by_layers() const { return by_layers_; }  // [j]
    MachineWork work(std::int32_t layers) const;  // that earns it, but for roundings

  private:
    struct TurningPoint {
        double time_price = 0;
        double busy = 0;
    };

    std::size_t best_batch(std::size_t context, double time_price) const;
    double row_cost(std::size_t context, const BatchTime& batch, double time_price) const;
    double least_cost(std::size_t context, double time_price) const;
    double beyond(double time_price) const;
    std::vector<TurningPoint> turning_points() const;
    MachineWork work_at(double time_price) const;

    const MachineKind& kind_;
    const TokenNeeds& needs_;
    const DeliveredPrices& prices_;
    double rows_;  // of decodes, in all layers, per s
    std::vector<double> by_layers_;
    std::vector<double> time_prices_;  // [j]
};

}  // namespace helix::plan
