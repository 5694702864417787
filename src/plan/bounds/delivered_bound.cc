#include "plan/bounds/delivered_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "plan/bounds/delivered_machine.h"
#include "plan/bounds/delivered_proof.h"
#include "plan/bounds/least_travel.h"
#include "plan/bounds/outward.h"
#include "plan/mip/growing_lp.h"

namespace helix::plan {
namespace {

using base::at;

constexpr double kSolverRoundings = 1e-9;       // of the objective: no hope for a proof below it
constexpr double kSureMargin = 0.7;             // of the margin that the program promises
constexpr std::int32_t kMostPriceRounds = 200;  // of column generation
constexpr std::int32_t kMostIntervals = 200;
constexpr std::size_t kMostPrices = 48;
constexpr std::size_t kMostColumns = 600;
constexpr double kLeastStep = 1e-4;  // of all R that are possible

// A number of tokens so large that KV memory never binds.
constexpr double kNoMemoryLimit = 1e17;

// One machine of a kind, with so many layers and what it does with them.
struct Configuration {
    std::size_t kind = 0;
    std::int32_t layers = 0;
    MachineWork work;
};

// The search for prices. Rows of the program: one for each context, prompts, KV, tokens in
// batches, one for each kind. Its objective is the share of the flow that can be had, so that
// prices break the inequality where it is below 1.
class PriceSearch {
  public:
    PriceSearch(std::vector<MachineKind> kinds, TokenNeeds needs, std::function<bool()> stop)
        : kinds_(std::move(kinds)), needs_(std::move(needs)), stop_(std::move(stop)) {
        double token_layers = 0;
        for (const MachineKind& kind : kinds_) {
            double most = 0;
            for (std::int32_t j = 1; j <= kind.most(); ++j) {
                most = std::max(most, multiply_up(kind.kv_tokens[at(j)], j));
                stops_.push_back(kind.kv_tokens[at(j)]);
            }
            token_layers = add_up(token_layers, multiply_up(most, kind.count));
        }
        most_held_ = divide_up(token_layers, needs_.n_layers);
        stops_.push_back(most_held_);
        std::sort(stops_.begin(), stops_.end());
        stops_.erase(std::upper_bound(stops_.begin(), stops_.end(), most_held_), stops_.end());
    }

    bool stopped() const { return stop_ && stop_(); }
    // From now on rows are on links for so long. Prices that are known are as good as before.
    void set_travel(double travel_s) { needs_.travel_s = travel_s; }
    double most_held() const { return most_held_; }

    // Whether it is proven that no schedule delivers the flow, whatever the KV memory.
    bool proves_without_memory(double flow) { return search(flow, std::nullopt).has_value(); }

    // The same with it. Not proven may also mean that it was stopped.
    bool proves(double flow) {
        if (hardest_ > 0 && !search(flow, hardest_)) return false;
        std::vector<DeliveredProof> proofs;
        for (const DeliveredPrices& prices : known_) {
            proofs.emplace_back(kinds_, needs_, prices, flow);
        }
        double proven = 0;
        for (std::int32_t interval = 0; interval < kMostIntervals; ++interval) {
            double reached = proven;
            for (const DeliveredProof& proof : proofs) {
                if (proof.margin(proven) > 0) {
                    reached = std::max(reached, proof.proven_up_to(proven, stops_));
                }
            }
            if (reached < proven + most_held_ * kLeastStep) {
                const double tried = std::max(proven, most_held_ * kLeastStep);
                auto proof = search(flow, tried);
                const auto fails = [&] {
                    hardest_ = tried;
                    return false;
                };
                if (!proof || !(proof->margin(proven) > 0)) return fails();
                reached = std::max(reached, proof->proven_up_to(proven, stops_));
                if (reached < std::min(proven + most_held_ * kLeastStep, most_held_)) {
                    return fails();
                }
                proofs.push_back(*std::move(proof));
            }
            proven = reached;
            if (proven >= most_held_) return true;
        }
        return false;
    }

  private:
    std::int32_t prompt_row() const { return static_cast<std::int32_t>(needs_.contexts.size()); }
    std::int32_t kv_row() const { return prompt_row() + 1; }
    std::int32_t held_row() const { return prompt_row() + 2; }
    std::int32_t kind_row(std::size_t kind) const {
        return prompt_row() + 3 + static_cast<std::int32_t>(kind);
    }

    // Prices that break the inequality for this flow and, if given, this R.
    std::optional<DeliveredProof> search(double flow, std::optional<double> held_tokens) {
        double free = 1;  // of the R tokens, what is not of rows on links
        if (held_tokens) {
            free -= needs_.tokens_on_links(flow) / *held_tokens;
            if (free <= 0) return DeliveredProof(kinds_, needs_, nothing_but_held(), flow);
        }
        GrowingLp lp(limits(free));
        std::vector<GrowingLp::Term> all;
        for (std::int32_t row = 0; row <= prompt_row(); ++row) all.push_back({row, 1});
        if (held_tokens) all.push_back({kv_row(), 1});
        lp.add_column(1, all);
        if (columns_.size() > kMostColumns) {
            columns_.erase(columns_.begin(),
                           columns_.begin() + static_cast<std::ptrdiff_t>(kMostColumns / 2));
        }
        for (const Configuration& column : columns_) add_column(lp, column, flow, held_tokens);
        for (std::int32_t round = 0; round < kMostPriceRounds; ++round) {
            if (stopped() || !lp.solve()) return std::nullopt;
            const double reached = lp.objective();
            if (reached >= 1 - kSolverRoundings) return std::nullopt;
            const std::vector<double> solved = lp.prices();
            const DeliveredPrices prices = unscaled(solved, held_tokens);
            DeliveredProof proof(kinds_, needs_, prices, flow);
            const double margin = proof.margin(held_tokens.value_or(0));
            if (margin > kSureMargin * (1 - reached)) {
                if (held_tokens) keep(prices);
                return proof;
            }
            if (!add_columns(lp, proof, prices, solved, flow, held_tokens)) {
                if (margin > 0) return proof;
                return std::nullopt;
            }
        }
        return std::nullopt;
    }

    // Prices that show that no R is possible that is less than what rows on links hold.
    DeliveredPrices nothing_but_held() const {
        DeliveredPrices prices;
        prices.decodes.assign(at(prompt_row()), 0.0);
        prices.held = 1;
        return prices;
    }

    std::vector<double> limits(double free) const {
        std::vector<double> limits(at(kv_row()) + 1, 0.0);
        limits.push_back(free);
        for (const MachineKind& kind : kinds_) limits.push_back(kind.count);
        return limits;
    }

    void add_column(GrowingLp& lp, const Configuration& column, double flow,
                    std::optional<double> held_tokens) const {
        const double part = static_cast<double>(column.layers) / needs_.n_layers;
        const MachineWork& work = column.work;
        const double busy = work.busy * column.layers * flow;
        const double fits = busy > 1 ? 1 / busy : 1;
        std::vector<GrowingLp::Term> terms;
        const auto add = [&](std::int32_t row, double factor) {
            if (factor != 0) terms.push_back({row, factor});
        };
        for (std::size_t c = 0; c < work.decodes.size(); ++c) {
            add(static_cast<std::int32_t>(c), -part * work.decodes[c] * fits);
        }
        add(prompt_row(), -part * work.prompts * fits);
        if (held_tokens) {
            const double kv =
                std::min(kinds_[column.kind].kv_tokens[at(column.layers)], *held_tokens);
            add(kv_row(), -part * kv / *held_tokens);
            add(held_row(), work.held_tokens * column.layers * flow * fits / *held_tokens);
        }
        add(kind_row(column.kind), 1);
        lp.add_column(0, terms);
    }

    DeliveredPrices unscaled(const std::vector<double>& solved,
                             std::optional<double> held_tokens) const {
        DeliveredPrices prices;
        prices.decodes.assign(solved.begin(), solved.begin() + prompt_row());
        prices.prompts = solved[at(prompt_row())];
        if (held_tokens) {
            prices.kv = solved[at(kv_row())] / (needs_.n_layers * *held_tokens);
            prices.held = solved[at(held_row())] / *held_tokens;
        }
        return prices;
    }

    // Of each kind the configuration that earns most, where that is more than the program knows.
    bool add_columns(GrowingLp& lp, const DeliveredProof& proof, const DeliveredPrices& prices,
                     const std::vector<double>& solved, double flow,
                     std::optional<double> held_tokens) {
        bool news = false;
        for (std::size_t k = 0; k < kinds_.size(); ++k) {
            const auto [layers, earned] = proof.best_layers(k, held_tokens.value_or(0));
            if (earned <= solved[at(kind_row(k))] + 1e-10) continue;
            const MachineEarnings earnings(kinds_[k], needs_, prices, flow);
            columns_.push_back({k, layers, earnings.work(layers)});
            add_column(lp, columns_.back(), flow, held_tokens);
            news = true;
        }
        return news;
    }

    void keep(const DeliveredPrices& prices) {
        if (known_.size() >= kMostPrices) known_.erase(known_.begin());
        known_.push_back(prices);
    }

    std::vector<MachineKind> kinds_;
    TokenNeeds needs_;
    std::function<bool()> stop_;
    double most_held_ = 0;
    std::vector<double> stops_;  // K(j) of all kinds, and the most R, rising
    double hardest_ = 0;         // the R where a proof failed last
    std::vector<Configuration> columns_;
    std::vector<DeliveredPrices> known_;
};

// No machine computes rows in less time than the fastest kind: an end to begin with.
double simple_bound(const std::vector<MachineKind>& kinds, const TokenNeeds& needs) {
    double decodes = 0;
    double prompts = 0;
    for (const MachineKind& kind : kinds) {
        decodes = add_up(decodes, divide_up(kind.count, kind.batches.front().row_s));
        prompts = add_up(prompts, divide_up(kind.count, kind.prompt_row_s));
    }
    return divide_up(std::min(decodes, divide_up(prompts, needs.prompt_rows)), needs.n_layers);
}

// Lowers `high` to about the least flow that is proven to be impossible.
template <typename Proves>
double lowest_proven(double high, double tolerance, const PriceSearch& search, Proves proves) {
    double low = 0;
    while (high - low > tolerance * high && !search.stopped()) {
        const double middle = (low + high) / 2;
        (proves(middle) ? high : low) = middle;
    }
    return high;
}

}  // namespace

const char* to_string(DeliveredTerm term) {
    switch (term) {
        case DeliveredTerm::compute:
            return "compute";
        case DeliveredTerm::kv_memory:
            return "KV memory";
        case DeliveredTerm::links:
            return "links";
    }
    return "";
}

DeliveredBound delivered_bound(const Problem& problem, const spec::CostModel& costs,
                               const DeliveredOptions& options) {
    CHECK(options.lengths.output > 0 && !options.lengths.contexts.empty());
    std::vector<MachineKind> kinds = machine_kinds(problem, costs, options.stop);
    if (kinds.empty()) return {};
    TokenNeeds needs{
        .n_layers = problem.model.n_layers,
        .prompt_rows = std::max(divide_down(options.lengths.prompt, options.lengths.output), 0.0),
        .contexts = options.lengths.contexts};
    DeliveredBound bound;
    bound.tokens_per_s = simple_bound(kinds, needs);
    if (!std::isfinite(bound.tokens_per_s) || !(bound.tokens_per_s > 0)) return {};
    const double tolerance = std::max(options.relative_tolerance, 1e-6);
    PriceSearch search(std::move(kinds), std::move(needs), options.stop);
    bound.compute_tokens_per_s =
        lowest_proven(bound.tokens_per_s, tolerance, search,
                      [&](double flow) { return search.proves_without_memory(flow); });
    bound.tokens_per_s = bound.compute_tokens_per_s;
    bound.unlinked_tokens_per_s = bound.compute_tokens_per_s;
    bound.travel_s = least_travel_s(problem);
    // Where layers keep different parts of a context, it is not known which a machine holds.
    const bool unequal = problem.model.window.any() || problem.model.shared_kv_layers > 0;
    if (search.most_held() >= kNoMemoryLimit || unequal) return bound;
    const auto lowest_below = [&](double high) {
        return lowest_proven(high, tolerance, search,
                             [&](double flow) { return search.proves(flow); });
    };
    bound.unlinked_tokens_per_s = lowest_below(bound.compute_tokens_per_s);
    search.set_travel(bound.travel_s);
    bound.tokens_per_s = lowest_below(bound.unlinked_tokens_per_s);
    const double clearly = 1 - 2 * tolerance;
    if (bound.tokens_per_s < bound.unlinked_tokens_per_s * clearly) {
        bound.binds = DeliveredTerm::links;
    } else if (bound.tokens_per_s < bound.compute_tokens_per_s * clearly) {
        bound.binds = DeliveredTerm::kv_memory;
    }
    return bound;
}

}  // namespace helix::plan
