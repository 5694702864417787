#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/find_action.h"
#include "core/invariants.h"
#include "core/worker/worker.h"

namespace helix::core {

// A worker driven by hand: by default the only one of its pipeline, with 2 layers and blocks of 4
// tokens. Its rules are checked after every step.
class WorkerDriver {
  public:
    explicit WorkerDriver(std::int64_t pages, std::int64_t swap_pages = 0,
                          const WorkerConfig& config = small(), Pipeline pipeline = {{{0}, {0, 2}}})
        : worker_({0}, config), pipeline_(std::move(pipeline)) {
        step(MessageArrived{AssignLayers{1, pipeline_.front().layers, 1, {}}});
        step(LayersLoaded{1, pages, swap_pages});
    }

    static WorkerConfig small() {
        WorkerConfig config;
        config.n_layers = 2;
        config.block_size = 4;
        config.max_batch_rows = 64;
        config.mixed_prefill_rows = 64;
        return config;
    }

    // Steps the worker and returns what it asks for. The last batch that it starts is kept.
    const std::vector<WorkerAction>& step(const WorkerEvent& event) {
        actions_.clear();
        worker_.step(now_, event, actions_);
        EXPECT_EQ(broken_invariant(worker_), "");
        if (auto run = find<RunBatch>(actions_)) plan_ = std::move(run->plan);
        return actions_;
    }
    void wait(Duration time) { now_ = now_ + time; }
    const std::vector<WorkerAction>& say(WorkerMessage message) {
        return step(MessageArrived{std::move(message)});
    }

    static SequenceKey key(std::uint64_t request, std::uint32_t member = 0,
                           std::uint32_t attempt = 1) {
        return {{request}, attempt, member};
    }
    StageInput start(SequenceKey key, RowTokens tokens, std::vector<Token> cached = {}) const {
        StageInput input;
        input.key = key;
        input.first_position = static_cast<std::int32_t>(cached.size());
        const auto prompt = static_cast<std::int32_t>(cached.size() + tokens.size());
        input.tokens = std::move(tokens);
        input.sample = true;
        input.start = SequenceStart{pipeline_, prompt, {}, std::move(cached)};
        return input;
    }
    static StageInput rows(SequenceKey key, std::int32_t first, RowTokens tokens,
                           std::int32_t parent = -1) {
        StageInput input;
        input.key = key;
        input.first_position = first;
        input.tokens = std::move(tokens);
        input.sample = true;
        input.parent = parent;
        return input;
    }

    // Ends the batch under way; every sampled chunk gives token 7, once for each draw.
    const std::vector<WorkerAction>& finish() {
        std::vector<ProducedToken> tokens;
        for (const BatchChunk& chunk : plan_.chunks) {
            if (!chunk.sample) continue;
            SequenceKey key = chunk.key;
            for (std::int32_t draw = 0; draw < chunk.draws; ++draw) {
                if (chunk.draws > 1) key.member = static_cast<std::uint32_t>(draw);
                const auto position =
                    chunk.first_position + static_cast<std::int32_t>(chunk.tokens.size());
                tokens.push_back({key, position, 7, 0, {}});
            }
        }
        return finish(std::move(tokens));
    }
    const std::vector<WorkerAction>& finish(std::vector<ProducedToken> tokens) {
        BatchFinished finished{plan_.id, std::move(tokens), {}};
        for (const BatchChunk& chunk : plan_.chunks) {
            std::int32_t position = chunk.first_position;
            for (const Token token : chunk.scored)
                finished.scored.push_back({chunk.key, ++position, token, -1, {}});
        }
        plan_ = {};
        return step(finished);
    }
    // Ends the batch under way so.
    const std::vector<WorkerAction>& end(const BatchFinished& finished) {
        plan_ = {};
        return step(finished);
    }
    // Runs all that there is to run.
    void drain() {
        while (plan_.id != 0) finish();
    }
    // Runs these rows until they are computed.
    void run(const StageInput& input) {
        say(StageInputs{{input}});
        drain();
    }

    // The batch under way; id 0 = none.
    const BatchPlan& plan() const { return plan_; }
    WorkerReport report() {
        now_ = now_ + base::from_seconds(1);
        step(WorkerTick{});
        EXPECT_EQ(said<WorkerReport>().size(), 1U);
        return said<WorkerReport>().at(0);
    }
    // What the last step told the coordinator of sequences that cannot go on.
    std::vector<SequenceStuck> stuck() const { return said<SequenceStuck>(); }
    template <typename T>
    std::vector<T> said() const {
        std::vector<T> all;
        for (const WorkerAction& action : actions_) {
            const auto* out = std::get_if<SendToCoordinator>(&action);
            if (out == nullptr) continue;
            if (const auto* message = std::get_if<T>(&out->message)) all.push_back(*message);
        }
        return all;
    }
    const std::vector<WorkerAction>& actions() const { return actions_; }
    Worker& worker() { return worker_; }

  private:
    TimePoint now_;
    Worker worker_;
    Pipeline pipeline_;
    std::vector<WorkerAction> actions_;
    BatchPlan plan_;
};

}  // namespace helix::core
