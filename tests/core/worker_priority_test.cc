// Who runs first where not all fit into a batch.

#include <gtest/gtest.h>

#include <vector>

#include "core/worker/worker_state.h"
#include "core/worker_driver.h"

namespace helix::core::worker_priority_test {
namespace {

WorkerConfig pairs() {
    WorkerConfig config = WorkerDriver::small();
    config.max_batch_seqs = 2;
    return config;
}

class WorkerPriority : public WorkerDriver, public testing::Test {
  protected:
    WorkerPriority() : WorkerDriver(400, 0, pairs(), {{{0}, {0, 1}}, {{1}, {1, 2}}}) {}

    StageInput first(std::uint64_t id, bool high) {
        StageInput input = start(key(id), {1, 2, 3});
        SequenceStart begin = *input.start;
        begin.high_priority = high;
        input.start = std::move(begin);
        return input;
    }
    std::vector<std::uint64_t> in_batch() const {
        std::vector<std::uint64_t> ids;
        for (const BatchChunk& chunk : plan().chunks) ids.push_back(chunk.key.request.value);
        return ids;
    }
    using Ids = std::vector<std::uint64_t>;
};

TEST_F(WorkerPriority, HighPriorityGoesFirstWhateverArrivedBefore) {
    say(StageInputs{{first(1, false), first(2, false)}});
    EXPECT_EQ(in_batch(), (Ids{1, 2}));  // runs while the others come
    say(StageInputs{{first(3, false), first(4, false), first(5, true), first(6, true)}});
    finish();
    EXPECT_EQ(in_batch(), (Ids{5, 6}));
    finish();
    EXPECT_EQ(in_batch(), (Ids{3, 4}));
    finish();
    // The same holds for decodes.
    say(StageInputs{{rows(key(1), 3, {9})}});
    say(StageInputs{{rows(key(2), 3, {9}), rows(key(5), 3, {9}), rows(key(3), 3, {9})}});
    finish();
    EXPECT_EQ(in_batch(), (Ids{5, 2}));
}

// The turns of two inputs differ, and an old input of low priority comes before new ones of high.
TEST_F(WorkerPriority, NobodyWaitsForEver) {
    EXPECT_LT(turn(10, false), turn(11, false));
    EXPECT_LT(turn(10, true), turn(11, true));
    EXPECT_LT(turn(10 + kPriorityLead, true), turn(10, false));
    EXPECT_LT(turn(10, false), turn(11 + kPriorityLead, true));
}

}  // namespace
}  // namespace helix::core::worker_priority_test
