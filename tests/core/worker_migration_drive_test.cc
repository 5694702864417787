// Requests that move between workers again and again, by drawn plans: what their batches read is
// what was written for them, and nothing is left behind.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/effort.h"
#include "core/kv_mover_drive.h"

namespace helix::core::worker_migration_drive_test {
namespace {

// One request, as its coordinator sees it.
class MovingRequest {
  public:
    MovingRequest(KvMoverDrive& drive, std::uint64_t id, std::vector<Token> prompt)
        : drive_(drive), id_(id), prompt_(std::move(prompt)) {}

    SequenceKey key(std::uint32_t member, std::uint32_t attempt) const {
        return {{id_}, attempt, member};
    }
    SequenceKey key(std::uint32_t member) const { return key(member, attempt_); }

    void start(Pipeline pipeline, std::int32_t cached) {
        pipeline_ = std::move(pipeline);
        members_ = {0};
        drive_.texts[key(0)] = prompt_;
        send(0, cached, prompt_.size() - static_cast<std::size_t>(cached), cached);
    }
    // Adds a member, which shares what there is.
    void fork() {
        const auto next = static_cast<std::uint32_t>(members_.size());
        const std::uint32_t parent = members_[drive_.random.below(members_.size())];
        drive_.texts[key(next)] = drive_.texts[key(parent)];
        drive_.finished[key(next)] = drive_.finished[key(parent)];
        for (const Stage& stage : pipeline_) {
            drive_.say(stage.worker.value,
                       ForkSequences{key(parent), drive_.finished[key(parent)], {next}});
        }
        members_.push_back(next);
    }
    // Each member whose rows came back sends one more.
    void decode() {
        for (const std::uint32_t member : members_) {
            std::vector<Token>& text = drive_.texts[key(member)];
            if (drive_.finished[key(member)] < static_cast<std::int32_t>(text.size())) continue;
            text.push_back(static_cast<Token>(drive_.random.below(1000)));
            send(member, drive_.finished[key(member)], 1, -1);
        }
    }

    void reserve(Pipeline next) {
        next_pipeline_ = std::move(next);
        next_attempt_ = ++attempts_;
        round_ = 0;
        sent_.clear();
        std::int64_t blocks = 0;
        for (const std::uint32_t member : members_) {
            blocks += static_cast<std::int64_t>(drive_.texts[key(member)].size()) / 4 + 12;
        }
        for (const Stage& stage : next_pipeline_) {
            drive_.say(stage.worker.value, ReserveKv{key(0, next_attempt_), stage.layers, blocks});
            EXPECT_EQ(drive_.heard<KvReserved>(stage.worker.value).size(), 1U);
        }
    }
    // Sends all that there is, or full blocks only; false if there is nothing to send.
    bool send_round(bool last) {
        std::vector<KvSpan> spans;
        for (const std::uint32_t member : members_) {
            const std::int32_t tokens = drive_.finished[key(member)];
            const std::int32_t until = last ? tokens : tokens / 4 * 4;
            if (sent_[member] * 4 < until) spans.push_back({member, sent_[member], until});
            sent_[member] = until / 4;
        }
        if (spans.empty()) return false;
        ++round_;
        for (const Stage& from : pipeline_) {
            for (const Stage& to : next_pipeline_) {
                const LayerRange layers = spec::intersect(from.layers, to.layers);
                if (layers.empty()) continue;
                drive_.say(
                    from.worker.value,
                    SendKv{{id_}, attempt_, next_attempt_, round_, to.worker, layers, spans});
                ++expected_;
            }
        }
        return true;
    }
    // Everything that was sent has arrived.
    void check_arrived() {
        std::size_t arrived = 0;
        for (std::uint32_t w = 0; w < drive_.machines.size(); ++w) {
            for (const KvArrived& one : drive_.heard<KvArrived>(w)) {
                if (one.key == key(0, next_attempt_)) ++arrived;
            }
            for (const KvRefused& no : drive_.heard<KvRefused>(w)) ADD_FAILURE() << no.reason;
        }
        EXPECT_EQ(arrived, expected_);
        expected_ = 0;
    }
    void commit() {
        const std::vector<SequenceKey> old = keys(attempt_);
        for (const SequenceKey& one : old) {
            const SequenceKey now{one.request, next_attempt_, one.member};
            drive_.texts[now] = drive_.texts[one];
            drive_.finished[now] = drive_.finished[one];
        }
        const Pipeline before = std::exchange(pipeline_, next_pipeline_);
        attempt_ = next_attempt_;
        const bool free_first = drive_.random.chance(0.5);
        if (free_first) free(before, old);
        for (const std::uint32_t member : members_) {
            const std::int32_t cached = drive_.finished[key(member)];
            drive_.texts[key(member)].push_back(static_cast<Token>(drive_.random.below(1000)));
            send(member, cached, 1, cached);
        }
        if (!free_first) free(before, old);
    }
    void abort() {
        free(next_pipeline_, {key(0, next_attempt_)});
        for (std::uint32_t w = 0; w < drive_.machines.size(); ++w) {
            drive_.heard<KvArrived>(w);
            drive_.heard<KvRefused>(w);
        }
        expected_ = 0;
    }
    void end() { free(pipeline_, keys(attempt_)); }
    std::int32_t tokens() { return drive_.finished[key(0)]; }
    bool idle() {
        return std::all_of(members_.begin(), members_.end(), [&](std::uint32_t member) {
            return drive_.finished[key(member)] ==
                   static_cast<std::int32_t>(drive_.texts[key(member)].size());
        });
    }

  private:
    std::vector<SequenceKey> keys(std::uint32_t attempt) const {
        std::vector<SequenceKey> all;
        for (const std::uint32_t member : members_) all.push_back(key(member, attempt));
        return all;
    }
    void free(const Pipeline& pipeline, const std::vector<SequenceKey>& keys) {
        for (const Stage& stage : pipeline) drive_.say(stage.worker.value, FreeSequences{keys});
    }
    // With cached the rows have a description of the sequence, of which this many tokens are there;
    // -1 means without.
    void send(std::uint32_t member, std::int32_t first, std::size_t count, std::int32_t cached) {
        const std::vector<Token>& text = drive_.texts[key(member)];
        StageInput input;
        input.key = key(member);
        input.first_position = first;
        const auto from = text.begin() + first;
        input.tokens.assign(from, from + static_cast<std::ptrdiff_t>(count));
        input.sample = true;
        if (cached >= 0) {
            input.start = SequenceStart{pipeline_,
                                        static_cast<std::int32_t>(prompt_.size()),
                                        {},
                                        {text.begin(), text.begin() + cached}};
        }
        drive_.say(pipeline_.front().worker.value, StageInputs{{input}});
    }

    KvMoverDrive& drive_;
    std::uint64_t id_;
    std::vector<Token> prompt_;
    Pipeline pipeline_;
    Pipeline next_pipeline_;
    std::uint32_t attempt_ = 1;
    std::uint32_t attempts_ = 1;
    std::uint32_t next_attempt_ = 0;
    std::uint32_t round_ = 0;
    std::size_t expected_ = 0;
    std::vector<std::uint32_t> members_;
    std::map<std::uint32_t, std::int32_t> sent_;  // full blocks, by member
};

constexpr std::uint32_t kWorkers = 4;

Pipeline draw_pipeline(base::Random& random) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(random.below(w + 1)), w);
    }
    Pipeline pipeline;
    std::int32_t at = 0;
    while (at < KvMoverDrive::kLayers) {
        const bool last = pipeline.size() + 1 == order.size();
        const std::int32_t end =
            last ? KvMoverDrive::kLayers
                 : static_cast<std::int32_t>(random.between(at + 1, KvMoverDrive::kLayers));
        pipeline.push_back({{order[pipeline.size()]}, {at, end}});
        at = end;
    }
    return pipeline;
}

void move_once(KvMoverDrive& drive, MovingRequest& request) {
    base::Random& random = drive.random;
    const auto some_steps = [&] {
        for (std::uint64_t i = random.below(12); i > 0; --i) drive.advance();
        if (random.chance(0.7)) request.decode();
    };
    request.reserve(draw_pipeline(random));
    const bool fails = random.chance(0.3);
    for (std::uint64_t round = random.below(4); round > 0; --round) {
        if (fails && random.chance(0.3)) return request.abort();
        request.send_round(false);
        some_steps();
        if (fails && random.chance(0.3)) return request.abort();
        some_steps();
    }
    drive.settle();
    ASSERT_TRUE(drive.broken.empty()) << drive.broken;
    request.send_round(true);
    if (fails) {
        for (std::uint64_t i = random.below(6); i > 0; --i) drive.advance();
        // The request goes on where it was while its last block is still on its way.
        const bool decode_first = random.chance(0.5);
        if (decode_first) request.decode();
        request.abort();
        if (!decode_first) request.decode();
        return;
    }
    drive.settle();
    request.check_arrived();
    request.commit();
}

void run_seed(std::uint64_t seed, bool prefix_cache) {
    KvMoverDrive drive(seed, kWorkers, prefix_cache);
    drive.duplicates = seed % 2 == 0;
    base::Random& random = drive.random;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
        drive.load(w, 1, {0, KvMoverDrive::kLayers}, random.between(1200, 2000));
    }
    std::vector<Token> prompt;
    for (std::int64_t i = random.between(2, 23); i > 0; --i) {
        prompt.push_back(static_cast<Token>(random.below(1000)));
    }
    const Pipeline pipeline = draw_pipeline(random);
    std::vector<MovingRequest> requests;
    for (std::uint64_t id = 1; id <= 3; ++id) {
        // The others begin with the blocks that the first has filled.
        const auto blocks = static_cast<std::int32_t>(prompt.size() - 1) / 4;
        requests.emplace_back(drive, id, prompt);
        requests.back().start(pipeline, prefix_cache && id > 1 ? blocks * 4 : 0);
        drive.settle();
    }
    for (int i = 0; i < 6; ++i) {
        for (MovingRequest& request : requests) {
            if (random.chance(0.3) && request.idle()) request.fork();
            request.decode();
            move_once(drive, request);
            ASSERT_TRUE(drive.broken.empty()) << drive.broken;
            if (random.chance(0.5)) drive.settle();
        }
        drive.settle();
        for (MovingRequest& request : requests) request.decode();
        drive.settle();
        ASSERT_TRUE(drive.broken.empty()) << drive.broken;
        for (MovingRequest& request : requests) {
            ASSERT_TRUE(request.idle()) << "its rows did not come back";
        }
    }
    for (MovingRequest& request : requests) request.end();
    drive.settle();
    drive.duplicates = false;
    drive.settle();
    for (const auto& machine : drive.machines) {
        ASSERT_EQ(held_when_idle(machine.worker), "");
        EXPECT_TRUE(machine.buffers.empty());
    }
    ASSERT_TRUE(drive.broken.empty()) << drive.broken;
}

TEST(WorkerMigrationDrive, AnyPlanGivesEachSequenceItsOwnKvAndLeavesNothing) {
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 6 : 80); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        run_seed(seed, false);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
}

TEST(WorkerMigrationDrive, AlsoWithAPrefixCacheThatSharesTheBlocks) {
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 6 : 80); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        run_seed(seed, true);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
}

}  // namespace
}  // namespace helix::core::worker_migration_drive_test
