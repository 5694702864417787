#include "plan/plan_candidates.h"

#include <fmt/format.h>

#include <numeric>

#include "plan/search/heuristics.h"
#include "plan/search/heuristics_separate.h"

namespace helix::plan {
namespace {

using spec::Placement;

class Rules {
  public:
    Rules(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
          const CapacityTable& capacities, const PlanOptions& options)
        : cluster_(cluster), model_(model), capacities_(capacities), options_(options) {
        order_.resize(cluster.nodes.size());
        std::iota(order_.begin(), order_.end(), 0);
    }

    base::Result<std::vector<Candidate>> collect() {
        const std::int32_t n_layers = model_.n_layers;
        if (wanted(Method::even)) {
            add(even_placement(capacities_, n_layers), Method::even);
            add(chain_placement(capacities_, n_layers, order_), Method::even);
        }
        if (wanted(Method::replicated)) {
            add(replicated_placement(capacities_, n_layers), Method::replicated);
        }
        if (wanted(Method::petals)) {
            add(petals_placement(capacities_, n_layers, order_), Method::petals);
        }
        if (wanted(Method::swarm)) add_swarm();
        if (wanted(Method::separate)) {
            TRY_VOID(
                add_pipelines(separate_placement(cluster_, model_, capacities_), Method::separate));
        }
        if (wanted(Method::separate_plus)) {
            TRY_VOID(add_pipelines(separate_plus_placement(cluster_, model_, capacities_),
                                   Method::separate_plus));
        }
        return std::move(found_);
    }

  private:
    bool all() const {
        return options_.method == Method::automatic || options_.method == Method::search ||
               options_.method == Method::milp;
    }
    bool wanted(Method method) const { return options_.method == method || all(); }

    void add(const std::optional<Placement>& placement, Method method) {
        if (placement) found_.push_back({.placement = *placement, .method = to_string(method)});
    }

    void add_swarm() {
        const std::int32_t n_layers = model_.n_layers;
        add(swarm_placement(capacities_, n_layers, options_.swarm_stages), Method::swarm);
        if (!all() || options_.swarm_stages != 0) return;
        const std::int32_t usual = swarm_stages(capacities_, n_layers);
        for (std::int32_t stages = 1; stages < usual; ++stages) {
            if (n_layers % stages == 0) {
                add(swarm_placement(capacities_, n_layers, stages), Method::swarm);
            }
        }
    }

    base::Status add_pipelines(base::Result<SeparatePipelines> made, Method method) {
        if (!made.ok()) return all() ? base::Status(base::Ok{}) : base::Status(made.error());
        Candidate candidate{.placement = std::move(made->placement), .method = to_string(method)};
        // For the search it is also a start, and all links may be used.
        if (all()) found_.push_back(candidate);
        candidate.only_links = std::move(made->links);
        candidate.notes = std::move(made->notes);
        found_.push_back(std::move(candidate));
        return base::Ok{};
    }

    const spec::ClusterSpec& cluster_;
    const spec::ModelSpec& model_;
    const CapacityTable& capacities_;
    const PlanOptions& options_;
    std::vector<std::int32_t> order_;
    std::vector<Candidate> found_;
};

}  // namespace

base::Result<std::vector<Candidate>> rule_candidates(const spec::ClusterSpec& cluster,
                                                     const spec::ModelSpec& model,
                                                     const CapacityTable& capacities,
                                                     const PlanOptions& options) {
    return Rules(cluster, model, capacities, options).collect();
}

}  // namespace helix::plan
