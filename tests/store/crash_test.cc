// A process that is killed at any moment: what the store called kept is there, and nothing is there
// by half.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>
#include <thread>

#include "base/random.h"
#include "store/engines.h"
#include "store/job_store.h"

namespace helix::store::crash_test {
namespace {

constexpr int kLines = 12;

std::string content_of(std::uint64_t seed) {
    return std::string(1000 + seed % 300'000, static_cast<char>('a' + seed % 26));
}

// Works until it is killed: uploads, batches, results in groups, each call's success told through
// the pipe.
class Victim {
  public:
    Victim(Place place, int pipe, std::uint64_t seed)
        : place_(std::move(place)), pipe_(pipe), random_(seed) {}

    [[noreturn]] void work() {
        auto opened = JobStore::open(place_);
        if (!opened.ok()) fail(opened.error().message);
        store_ = std::move(opened).value();
        while (true) {
            const auto unfinished = store_->unfinished();
            if (!unfinished.ok()) fail(unfinished.error().message);
            for (const BatchRecord& batch : *unfinished) advance(batch);
            if (unfinished->size() < 3) begin_batch();
        }
    }

  private:
    [[noreturn]] void fail(const std::string& what) {
        tell("failed: " + what);
        ::_exit(1);
    }
    void tell(const std::string& what) {
        const std::string line = what + "\n";
        if (::write(pipe_, line.data(), line.size()) < 0) ::_exit(2);
    }
    void begin_batch() {
        const std::uint64_t seed = random_.next() % 1'000'000;
        const auto file = store_->add_file("in", "batch", content_of(seed), 1);
        if (!file.ok()) fail(file.error().message);
        tell("file " + file->id + " " + std::to_string(seed));
        NewBatch batch;
        batch.input_file = file->id;
        batch.metadata = "null";
        const auto added = store_->add_batch(batch, 1);
        if (!added.ok()) fail(added.error().message);
        tell("batch " + added->id + " 0");
    }
    void advance(const BatchRecord& batch) {
        if (batch.status == BatchStatus::validating) {
            std::vector<BatchLine> lines;
            for (int i = 1; i <= kLines; ++i) lines.push_back({i, std::to_string(i), i, 1});
            check(store_->start_batch(batch.id, "", lines, 2));
        } else if (batch.status == BatchStatus::in_progress) {
            add_some(batch);
        } else {
            check(store_->close_batch(batch.id, BatchStatus::completed, 4));
            tell("done " + batch.id + " 0");
        }
    }
    void add_some(const BatchRecord& batch) {
        const auto open = store_->open_lines(batch.id, 0, random_.between(1, 5));
        if (!open.ok()) fail(open.error().message);
        if (open->empty()) return check(store_->finalize_batch(batch.id, 3));
        std::vector<LineResult> results;
        for (const BatchLine& line : *open) {
            results.push_back({batch.id, line.line, Outcome::completed,
                               line.custom_id + " of process " + std::to_string(::getpid())});
        }
        const auto kept = store_->add_results(results);
        if (!kept.ok()) fail(kept.error().message);
        for (const LineResult& result : results) {
            tell("line " + batch.id + " " + std::to_string(result.line));
        }
    }
    void check(const base::Status& status) {
        if (!status.ok()) fail(status.error().message);
    }

    Place place_;
    int pipe_;
    base::Random random_;
    std::unique_ptr<JobStore> store_;
};

struct Promises {
    std::map<std::string, std::uint64_t> files;             // and the seed of their content
    std::map<std::string, std::set<std::int64_t>> batches;  // and the lines with results
    std::set<std::string> done;

    // What the pipe still held of a line that was cut off was never said.
    void read(int pipe) {
        std::FILE* stream = ::fdopen(pipe, "r");
        char kind[16];
        char id[64];
        unsigned long long number = 0;
        char line[512];
        while (std::fgets(line, sizeof line, stream) != nullptr) {
            const std::string text = line;
            if (text.empty() || text.back() != '\n') break;
            ASSERT_FALSE(text.starts_with("failed")) << text;
            ASSERT_EQ(std::sscanf(line, "%15s %63s %llu", kind, id, &number), 3) << text;
            if (std::string(kind) == "file") files[id] = number;
            if (std::string(kind) == "batch") batches[id];
            if (std::string(kind) == "line") batches[id].insert(static_cast<int>(number));
            if (std::string(kind) == "done") done.insert(id);
        }
        std::fclose(stream);
    }

    void check(const JobStore& store) const {
        for (const auto& [id, seed] : files) {
            const auto content = store.content(id);
            ASSERT_TRUE(content.ok()) << content.error().message;
            EXPECT_TRUE(*content == content_of(seed)) << id;
        }
        for (const auto& [id, lines] : batches) {
            const auto batch = store.batch(id);
            ASSERT_TRUE(batch.ok()) << batch.error().message;
            const bool over = batch->status == BatchStatus::completed;
            EXPECT_TRUE(over || !done.contains(id)) << id;
            if (batch->status == BatchStatus::validating) {
                EXPECT_TRUE(lines.empty());
                continue;
            }
            const auto open = store.open_lines(id, 0, 100);
            ASSERT_TRUE(open.ok());
            for (const BatchLine& line : *open) EXPECT_FALSE(lines.contains(line.line)) << id;
            EXPECT_EQ(batch->total, kLines);
            EXPECT_EQ(batch->completed, kLines - static_cast<int>(open->size())) << id;
            if (over) check_output(store, *batch);
        }
    }

    static void check_output(const JobStore& store, const BatchRecord& batch) {
        const auto output = store.content(batch.output_file);
        ASSERT_TRUE(output.ok()) << output.error().message;
        EXPECT_EQ(static_cast<std::int64_t>(output->size()), store.file(batch.output_file)->bytes);
        std::istringstream lines(*output);
        std::string line;
        int n = 0;
        while (std::getline(lines, line)) {
            EXPECT_TRUE(line.starts_with(std::to_string(++n) + " of process")) << line;
        }
        EXPECT_EQ(n, kLines);
    }
};

class JobStoreCrash : public EngineTest {};
HELIX_BOTH_ENGINES(JobStoreCrash);

TEST_P(JobStoreCrash, WhatWasPromisedSurvivesAKillAtAnyMoment) {
    constexpr std::uint64_t kSeed = 1;  // of the moments
    base::Random random(kSeed);
    Promises promises;
    // Where a commit takes long, lives get longer until something was achieved in one.
    const auto achieved = [&] { return promises.batches.size() > 3 && !promises.done.empty(); };
    for (int round = 0; round < 25 || (!achieved() && round < 100); ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        int pipe[2];
        ASSERT_EQ(::pipe(pipe), 0);
        const Place place = next_place();
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::close(pipe[0]);
            Victim(place, pipe[1], base::hash_pair(kSeed, static_cast<std::uint64_t>(round)))
                .work();
        }
        ::close(pipe[1]);
        // The pipe is read meanwhile, or a full one would hold the victim up.
        std::thread killer([&] {
            const auto moment = random.between(500, 120'000) * (1 + round / 25 * 4);
            std::this_thread::sleep_for(std::chrono::microseconds(moment));
            ::kill(child, SIGKILL);
        });
        promises.read(pipe[0]);
        killer.join();
        int status = 0;
        ::waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status));
        const auto store = JobStore::open(next_place());
        ASSERT_TRUE(store.ok()) << store.error().message;
        promises.check(**store);
    }
    EXPECT_GT(promises.batches.size(), 3U);
    EXPECT_FALSE(promises.done.empty());
}

}  // namespace
}  // namespace helix::store::crash_test
