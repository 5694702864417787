#include "lab/planning/predict_changes.h"

#include <utility>

#include "plan/predict/performance.h"
#include "plan/search/throughput_search.h"

namespace helix::lab {

plan::PredictFunction predict_changes(MakeProblem make, bool partial) {
    return [make = std::move(make), partial](const plan::Problem& changed,
                                             const spec::Placement& placement) {
        const auto problem = make(changed.cluster);
        if (!problem.ok()) return 0.0;
        const plan::Problem own = {problem->cluster, problem->model, changed.capacities};
        const plan::PerformanceModel model(own, problem->costs(), plan::PerformanceOptions{});
        plan::ThroughputOptions options;
        options.models = {&model};
        options.flow.partial = partial;
        const auto split = plan::split_placement(own, placement, options);
        return split ? split->estimates.front().decode_tokens_per_s : 0.0;
    };
}

plan::CapacityFunction capacities_by(MakeProblem make) {
    return [make = std::move(make)](
               const spec::ClusterSpec& cluster) -> base::Result<plan::CapacityTable> {
        TRY(Problem problem, make(cluster));
        return std::move(problem.capacities);
    };
}

}  // namespace helix::lab
