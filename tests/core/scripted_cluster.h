#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/coordinator/coordinator_impl.h"
#include "core/find_action.h"
#include "core/invariants.h"

namespace helix::core {

// A coordinator with workers that are played by hand: lanes side by side, each a pipeline of as
// many workers, numbered lane by lane. The layers are dealt out evenly.
class ScriptedCluster {
  public:
    using Actions = std::vector<CoordinatorAction>;

    ScriptedCluster(CoordinatorConfig config, std::uint32_t lanes, std::uint32_t stages,
                    std::int64_t pages = 400, double tokens_per_s = 5, std::int64_t swap_pages = 0,
                    std::int64_t last_pages = 0)  // of the last worker; 0: as all others
        : coordinator_(config), stages_(stages) {
        const std::uint32_t n = lanes * stages;
        for (std::uint32_t i = 0; i < n; ++i) {
            WorkerJoined joined;
            joined.worker = {i};
            joined.incarnation = 1;
            joined.node.name = "w" + std::to_string(i);
            step(joined);
        }
        Planned planned;
        now_ = now_ + base::from_seconds(1);
        planned.plan = find<PlanCluster>(step(CoordinatorTick{}))->plan;
        const auto per_stage = config.n_layers / static_cast<std::int32_t>(stages);
        for (std::uint32_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::int32_t>(i % stages);
            const auto id = static_cast<std::int32_t>(i);
            planned.placement.layers.push_back({at * per_stage, (at + 1) * per_stage});
            planned.flows.push_back({at == 0 ? spec::kCoordinator : id - 1, id, tokens_per_s});
            if (i % stages + 1 == stages) {
                planned.flows.push_back({id, spec::kCoordinator, tokens_per_s});
            }
        }
        step(planned);
        for (std::uint32_t i = 0; i < n; ++i) {
            const LayerRange layers = planned.placement.layers[i];
            const std::int64_t own = i + 1 == n && last_pages > 0 ? last_pages : pages;
            step(FromWorker{{i}, LayersReady{1, layers, own, swap_pages, "plain"}});
        }
        EXPECT_TRUE(coordinator_.view().serving);
    }

    Actions step(const CoordinatorEvent& event) {
        Actions actions;
        coordinator_.step(now_, event, actions);
        EXPECT_EQ(broken_invariant(coordinator_), "");
        return actions;
    }
    void wait(Duration time) { now_ = now_ + time; }

    // The running request's last stage sends these tokens, from its next position on.
    Actions tokens(std::uint64_t id, const std::vector<Token>& values) {
        const RequestState& state = request(id);
        TokensProduced message;
        std::int32_t position = length(state);
        for (const Token value : values) {
            message.tokens.push_back({{{id}, state.attempt}, position++, value, 0, {}});
        }
        return step(FromWorker{state.pipeline.back().worker, message});
    }
    // The same for the first tokens of all its answers, which are drawn at once.
    Actions first_tokens(std::uint64_t id, std::int32_t n, Token value) {
        const RequestState& state = request(id);
        TokensProduced message;
        for (std::int32_t i = 0; i < n; ++i) {
            const auto member = static_cast<std::uint32_t>(i);
            message.tokens.push_back({{{id}, state.attempt, member}, length(state), value, 0, {}});
        }
        return step(FromWorker{state.pipeline.back().worker, message});
    }
    // Whether a token of it is on its way.
    bool asked(std::uint64_t id) const { return request(id).rows_going > 0; }
    Actions stuck(std::uint64_t id, StuckCause cause) {
        const RequestState& state = request(id);
        return step(FromWorker{state.pipeline.back().worker,
                               SequenceStuck{{{id}, state.attempt}, cause, "as the test wants"}});
    }

    bool open(std::uint64_t id) const { return coordinator_.impl().requests.contains({id}); }
    const RequestState& request(std::uint64_t id) const {
        const auto& all = coordinator_.impl().requests;
        for (const auto& [key, state] : all) {
            if (key.value == id) return state;
        }
        ADD_FAILURE() << "request " << id << " is not open";
        return all.begin()->second;
    }
    // The lane that the request runs on.
    std::uint32_t lane(std::uint64_t id) const {
        return request(id).pipeline.front().worker.value / stages_;
    }
    ClusterView view() const { return coordinator_.view(); }
    const Coordinator& coordinator() const { return coordinator_; }

    // The rows for a first stage among these actions, if there are any.
    static std::vector<StageInput> rows(const Actions& actions) {
        std::vector<StageInput> all;
        for (const CoordinatorAction& action : actions) {
            const auto* send = std::get_if<SendToWorker>(&action);
            if (send == nullptr) continue;
            const auto* inputs = std::get_if<StageInputs>(&send->message);
            if (inputs == nullptr) continue;
            all.insert(all.end(), inputs->inputs.begin(), inputs->inputs.end());
        }
        return all;
    }

  private:
    TimePoint now_;
    Coordinator coordinator_;
    std::uint32_t stages_;
};

}  // namespace helix::core
