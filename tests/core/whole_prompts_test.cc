// Encoders: each prompt is computed in one piece, and nothing but embeddings is asked for.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "core/scripted_cluster.h"
#include "core/worker_driver.h"

namespace helix::core::whole_prompts_test {
namespace {

WorkerConfig whole() {
    WorkerConfig config = WorkerDriver::small();
    config.max_batch_rows = 8;
    config.mixed_prefill_rows = 3;
    config.whole_prompts = true;
    return config;
}

RowTokens tokens(std::size_t count) {
    RowTokens made;
    made.assign(count, 5);
    return made;
}

// The requests of the batch under way, and how many rows each has in it.
std::vector<std::pair<std::uint64_t, std::size_t>> batch_of(const WorkerDriver& worker) {
    std::vector<std::pair<std::uint64_t, std::size_t>> rows;
    for (const BatchChunk& chunk : worker.plan().chunks)
        rows.emplace_back(chunk.key.request.value, chunk.tokens.size());
    return rows;
}
using Rows = std::vector<std::pair<std::uint64_t, std::size_t>>;

TEST(WholePrompts, AreNeverCutAndALongOneGoesAlone) {
    WorkerDriver worker(100, 0, whole());
    worker.say(StageInputs{{worker.start(WorkerDriver::key(1), tokens(20)),
                            worker.start(WorkerDriver::key(2), tokens(5)),
                            worker.start(WorkerDriver::key(3), tokens(6)),
                            worker.start(WorkerDriver::key(4), tokens(3))}});
    EXPECT_EQ(batch_of(worker), (Rows{{1, 20}}));
    worker.finish();
    EXPECT_EQ(batch_of(worker), (Rows{{2, 5}, {4, 3}}));  // 3 has no room beside 2
    worker.finish();
    EXPECT_EQ(batch_of(worker), (Rows{{3, 6}}));
}

TEST(WholePrompts, WithoutRoomWaitAndAreToldOf) {
    // 12 tokens take 6 of the 7 pages.
    WorkerDriver worker(7, 0, whole());
    worker.run(worker.start(WorkerDriver::key(1), tokens(12)));
    worker.say(StageInputs{{worker.start(WorkerDriver::key(2), tokens(9))}});
    EXPECT_EQ(worker.plan().id, 0U);
    const auto stuck = worker.said<SequenceStuck>();
    ASSERT_EQ(stuck.size(), 1U);
    EXPECT_EQ(stuck[0].cause, StuckCause::out_of_pages);
    worker.say(FreeSequences{{WorkerDriver::key(1)}});
    EXPECT_EQ(batch_of(worker), (Rows{{2, 9}}));
}

CoordinatorConfig encoder() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 65;
    config.block_size = 4;
    config.encoder = true;
    return config;
}

Request request(std::uint64_t id, std::size_t length, spec::Pooling pooling) {
    Request made;
    made.id = {id};
    made.prompt.assign(length, 7);
    made.max_tokens = 1;
    made.pooling = pooling;
    return made;
}

TEST(EncoderRequests, AreEmbeddingsAlone) {
    ScriptedCluster cluster(encoder(), 1, 2);
    const auto refused =
        find<RejectRequest>(cluster.step(Submitted{request(1, 10, spec::Pooling::none)}));
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->reason, RejectReason::never_fits);
    EXPECT_NE(refused->message.find("the model is an encoder"), std::string::npos);

    const auto rows =
        ScriptedCluster::rows(cluster.step(Submitted{request(2, 64, spec::Pooling::mean)}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].tokens.size(), 64U);

    const auto too_long =
        find<RejectRequest>(cluster.step(Submitted{request(3, 65, spec::Pooling::mean)}));
    ASSERT_TRUE(too_long);
    EXPECT_EQ(too_long->reason, RejectReason::too_long);
}

}  // namespace
}  // namespace helix::core::whole_prompts_test
