// A worker in the middle of a pipeline whose engine, decodes and prompts are driven in virtual
// time: does it give both their share, whatever the engine costs?

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "base/effort.h"
#include "core/find_action.h"
#include "core/invariants.h"
#include "core/worker/worker.h"

namespace helix::core::batch_turns_test {
namespace {

using Cost = std::function<double(std::int32_t decodes, std::int32_t prompt_rows)>;

struct Seen {
    std::int64_t batches = 0;
    std::int64_t shared = 0;
    std::int64_t decodes = 0;
    std::int64_t prompt_rows = 0;
    double longest_gap_s = 0;         // between two decodes of one sequence
    double longest_prompt_gap_s = 0;  // between two batches with prompt rows
};

class Loop {
  public:
    // n_prompts is how many prompts wait or run at any time.
    Loop(Cost cost, std::int32_t n_decodes, double away_s, std::int32_t n_prompts,
         double prefill_share = spec::ServingPolicy().prefill_share)
        : cost_(std::move(cost)), away_s_(away_s), worker_({1}, config()) {
        AssignLayers assign{1, {2, 4}, kMachines, {}};
        assign.prefill_share = prefill_share;
        step(MessageArrived{assign});
        step(LayersLoaded{1, 1'000'000});
        for (std::int32_t i = 0; i < n_decodes; ++i) send_prompt(kPromptOfDecode);
        for (std::int32_t i = 0; i < n_prompts; ++i) send_prompt(kPrompt);
    }

    // Runs for this long; what is seen counts from the middle on.
    Seen run(double seconds) {
        const std::int64_t half = base::from_seconds(seconds / 2).ns;
        while (now_.ns < 2 * half) {
            if (now_.ns < half) seen_ = {};
            next_event();
        }
        return seen_;
    }

  private:
    static constexpr std::int32_t kMachines = 8;
    static constexpr std::int32_t kPromptOfDecode = 2;
    static constexpr std::int32_t kPrompt = 700;

    static WorkerConfig config() {
        WorkerConfig config;
        config.n_layers = 6;
        return config;
    }

    void step(const WorkerEvent& event) {
        std::vector<WorkerAction> actions;
        worker_.step(now_, event, actions);
        if (++steps_ % 256 == 0) {
            EXPECT_EQ(broken_invariant(worker_), "");
        }
        if (auto batch = find<RunBatch>(actions)) start(batch->plan);
    }

    StageInput rows(std::uint64_t request, std::int32_t first, std::size_t count) {
        StageInput input;
        input.key = {{request}, 1};
        input.first_position = first;
        input.tokens.assign(count, 5);
        input.sample = true;
        input.payload = {next_buffer_++, 0, static_cast<std::uint32_t>(count)};
        if (first == 0) {
            input.start = SequenceStart{{{{0}, {0, 2}}, {{1}, {2, 4}}, {{2}, {4, 6}}},
                                        static_cast<std::int32_t>(count),
                                        {}};
        }
        return input;
    }

    void send_prompt(std::int32_t length) {
        const std::uint64_t request = next_request_++;
        lengths_[request] = length;
        step(MessageArrived{StageInputs{{rows(request, 0, static_cast<std::size_t>(length))}}});
    }

    void start(const BatchPlan& plan) {
        plan_ = plan;
        decodes_ = 0;
        rows_ = 0;
        for (const BatchChunk& chunk : plan.chunks) {
            const bool decode = chunk.tokens.size() == 1 && chunk.first_position > 0;
            (decode ? decodes_ : rows_) += static_cast<std::int32_t>(chunk.tokens.size());
        }
        took_ = base::from_seconds(cost_(decodes_, rows_));
        done_ = now_ + took_;
    }

    void next_event() {
        if (plan_.id == 0 || (!away_.empty() && away_.begin()->first < done_)) {
            ASSERT_FALSE(away_.empty()) << "the worker sleeps and nothing is on its way";
            const auto back = away_.extract(away_.begin());
            now_ = back.key();
            step(MessageArrived{back.mapped()});
            return;
        }
        now_ = done_;
        const BatchPlan plan = std::move(plan_);
        plan_ = {};
        count(plan);
        step(BatchFinished{plan.id, {}, took_});
        for (const std::uint64_t request : ended_) {
            step(MessageArrived{FreeSequences{{{{request}, 1}}}});
            send_prompt(kPrompt);
        }
        ended_.clear();
    }

    void count(const BatchPlan& plan) {
        ++seen_.batches;
        seen_.shared += decodes_ > 0 && rows_ > 0 ? 1 : 0;
        seen_.decodes += decodes_;
        seen_.prompt_rows += rows_;
        if (rows_ > 0) {
            seen_.longest_prompt_gap_s =
                std::max(seen_.longest_prompt_gap_s, (now_ - last_prompt_).seconds());
            last_prompt_ = now_;
        }
        for (const BatchChunk& chunk : plan.chunks) {
            const std::uint64_t request = chunk.key.request.value;
            const auto end = chunk.first_position + static_cast<std::int32_t>(chunk.tokens.size());
            if (lengths_[request] == kPrompt) {
                if (end == kPrompt) ended_.push_back(request);
                continue;
            }
            if (last_.contains(request)) {
                seen_.longest_gap_s =
                    std::max(seen_.longest_gap_s, (now_ - last_[request]).seconds());
            }
            last_[request] = now_;
            away_[now_ + base::from_seconds(away_s_)].inputs.push_back(rows(request, end, 1));
        }
    }

    Cost cost_;
    double away_s_;
    TimePoint now_;
    Worker worker_;
    std::uint64_t next_request_ = 1;
    std::uint64_t next_buffer_ = 1;
    std::map<std::uint64_t, std::int32_t> lengths_;
    std::map<std::uint64_t, TimePoint> last_;
    std::map<TimePoint, StageInputs> away_;  // decodes elsewhere in the pipeline
    std::int64_t steps_ = 0;
    std::vector<std::uint64_t> ended_;
    BatchPlan plan_;
    std::int32_t decodes_ = 0;
    std::int32_t rows_ = 0;
    Duration took_;
    TimePoint done_;
    TimePoint last_prompt_;
    Seen seen_;
};

// As in the published tables, decodes and prompts of a batch simply add up.
double additive_s(std::int32_t decodes, std::int32_t rows) {
    return (decodes > 0 ? 0.030 + 0.0002 * decodes : 0) + 0.0003 * rows;
}
// The weights are read once per batch, and arithmetic hides behind that.
double weights_once_s(std::int32_t decodes, std::int32_t rows) {
    return std::max(0.030, 0.0003 * (decodes + rows)) + 0.00005 * decodes;
}

TEST(BatchTurns, WhereSharingSavesNothingPromptsUseThePauses) {
    const Seen alone = Loop(additive_s, 60, 0.4, 0).run(24);
    const Seen seen = Loop(additive_s, 60, 0.4, 1).run(24);
    EXPECT_LT(seen.shared, seen.batches / 25);
    EXPECT_GT(seen.prompt_rows, 1000 * 12) << "of the 3333 rows/s it could do without decodes";
    EXPECT_GT(seen.decodes, alone.decodes * 3 / 4);
    EXPECT_LT(seen.longest_gap_s, 3 * alone.longest_gap_s);
}

TEST(BatchTurns, WhereTheWeightsAreReadOncePromptsRideAlong) {
    const Seen alone = Loop(weights_once_s, 60, 0.1, 0).run(24);
    const Seen seen = Loop(weights_once_s, 60, 0.1, 1).run(24);
    EXPECT_GT(seen.shared, seen.batches / 3);
    EXPECT_GT(seen.prompt_rows, 500 * 12);
    EXPECT_GT(seen.decodes, alone.decodes / 3);
}

// The coordinator says how much of the time prompts get beside decodes, whether they have batches
// of their own or ride along.
TEST(BatchTurns, WithASmallerShareForPromptsDecodesComeOftener) {
    for (const Cost& cost : {Cost(additive_s), Cost(weights_once_s)}) {
        const Seen usual = Loop(cost, 60, 0.05, 3).run(24);
        const Seen seen = Loop(cost, 60, 0.05, 3, 0.5).run(24);
        EXPECT_GT(seen.decodes, usual.decodes * 5 / 4);
        EXPECT_GT(seen.prompt_rows, 0);
    }
    const Seen usual = Loop(additive_s, 60, 0.05, 3).run(24);
    const Seen seen = Loop(additive_s, 60, 0.05, 3, 0.5).run(24);
    EXPECT_LT(seen.prompt_rows, usual.prompt_rows * 3 / 4);
}

// A prompt waits from the first batch on and for ever. What decodes cost alone is seen all the
// same, so that prompts take as many rows as that is worth, not the few of a worker that knows
// nothing.
TEST(BatchTurns, WhereAPromptAlwaysWaitsItsRowsComeToBeAsManyAsPay) {
    const Cost quick_rows = [](std::int32_t decodes, std::int32_t rows) {
        return std::max(0.010, 0.00002 * (decodes + rows)) + 0.0002 * decodes;
    };
    for (const std::int32_t n_decodes : {10, 60}) {
        if (kSanitized && n_decodes > 10) continue;
        const Seen seen = Loop(quick_rows, n_decodes, 0, 2).run(24);
        EXPECT_GT(5 * seen.shared, 2 * seen.batches) << n_decodes << ": half have no decodes";
        EXPECT_GT(seen.prompt_rows, 200 * seen.batches) << n_decodes;
        EXPECT_GT(seen.decodes, seen.batches / 2) << n_decodes;
    }
}

// Prompts always wait; decodes come back together and are away in between, so that prompts also
// have batches of their own. What the decodes cost alone is seen all the same, and soon.
TEST(BatchTurns, WhereDecodesAreAwayNowAndThenTheirCostIsSeenToo) {
    const Cost fixed_each = [](std::int32_t decodes, std::int32_t rows) {
        return (decodes > 0 ? 0.021 + 0.0002 * decodes : 0) +
               (rows > 0 ? 0.024 + 0.0003 * rows : 0);
    };
    for (const std::int32_t n_decodes : {6, 10}) {
        const Seen seen = Loop(fixed_each, n_decodes, n_decodes == 6 ? 0.8 : 0.4, 2).run(24);
        EXPECT_LT(seen.shared, seen.batches / 25) << "it saves nothing";
        EXPECT_GT(seen.prompt_rows, 1500 * 12) << "of the 1900 rows/s it could do without decodes";
        EXPECT_GT(seen.decodes, 75) << n_decodes;
    }
}

// This holds however many decodes there are, always ready again at once, and however slow prompt
// rows are.
TEST(BatchTurns, NeitherPromptsNorDecodesStarve) {
    for (const double prompt_factor : {0.2, 1.0, 20.0}) {
        for (const std::int32_t n_decodes : {1, 20, 250}) {
            if (kSanitized && (n_decodes > 20 || prompt_factor < 1)) continue;
            const Cost cost = [&](std::int32_t decodes, std::int32_t rows) {
                return additive_s(decodes, 0) + prompt_factor * additive_s(0, rows);
            };
            const Seen seen = Loop(cost, n_decodes, 0, 1).run(40);
            const std::string what = std::to_string(n_decodes) + " decodes, prompts cost x" +
                                     std::to_string(prompt_factor);
            const double prompts_s = cost(0, 1) * static_cast<double>(seen.prompt_rows);
            EXPECT_GT(prompts_s, 0.2 * 20) << what;
            EXPECT_LT(prompts_s, 0.87 * 20) << what;
            EXPECT_LT(seen.longest_prompt_gap_s, 3) << what;
            EXPECT_LT(seen.longest_gap_s, 6) << what;
        }
    }
}

}  // namespace
}  // namespace helix::core::batch_turns_test
