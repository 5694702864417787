// vLLM's order of work: which prompts make the next batch, and what a worker does with the answer.

#include "core/batch/prompts_first.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/worker_driver.h"

namespace helix::core::prompts_first_test {
namespace {

using Indices = std::vector<std::size_t>;

TimePoint at(double seconds) {
    return TimePoint{base::from_seconds(seconds).ns};
}
WaitingPrompt prompt(std::int64_t rows, std::int64_t pages = 1, double came_s = 0) {
    return {at(came_s), rows, 1, pages};
}

struct Case {
    const char* what;
    PromptsFirst config;
    std::vector<WaitingPrompt> waiting;
    std::int64_t running = 0;
    std::int64_t free_pages = 1000;
    std::int64_t total_pages = 1000;
    double now_s = 10;
    double last_prompts_s = 0;
    Indices run;
    Indices too_long = {};
    std::optional<double> not_before_s = {};
    bool short_of_pages = false;
    std::int64_t schedulers = 1;
    bool later_stage = false;
};

WaitingPrompt with(WaitingPrompt prompt, std::int64_t sequences, bool starts = true) {
    prompt.sequences = sequences;
    prompt.starts = starts;
    return prompt;
}

// clang-format off: one case a line
const std::vector<Case> kCases = {
    {"nothing waits", {100, 8, 0}, {}, 3, 1000, 1000, 10, 0, {}},
    {"all fit", {100, 8, 0}, {prompt(30), prompt(30), prompt(40)}, 0, 1000, 1000, 10, 0, {0, 1, 2}},
    {"prompts go first while others run", {100, 8, 0}, {prompt(30)}, 7, 1000, 1000, 10, 0, {0}},
    {"one row too many",
     {100, 8, 0},
     {prompt(60), prompt(41), prompt(1)},
     0,
     1000,
     1000,
     10,
     0,
     {0}},
    {"as many sequences as may run",
     {100, 4, 0},
     {prompt(9), prompt(9), prompt(9)},
     2,
     1000,
     1000,
     10,
     0,
     {0, 1}},
    {"no sequence more", {100, 4, 0}, {prompt(9)}, 4, 1000, 1000, 10, 0, {}},
    {"a group counts all its sequences",
     {100, 4, 0},
     {prompt(9), with(prompt(9), 4)},
     0,
     1000,
     1000,
     10,
     0,
     {0}},
    {"one that is too large for max_seqs, alone",
     {100, 4, 0},
     {with(prompt(9), 5), prompt(9)},
     0,
     1000,
     1000,
     10,
     0,
     {0}},
    {"and not beside others", {100, 4, 0}, {with(prompt(9), 5)}, 1, 1000, 1000, 10, 0, {}},
    {"rows of one that runs already",
     {100, 4, 0},
     {with(prompt(9), 0, false)},
     4,
     1000,
     1000,
     10,
     0,
     {0}},
    {"longer than any batch",
     {100, 8, 0},
     {prompt(101), prompt(100), prompt(1)},
     0,
     1000,
     1000,
     10,
     0,
     {1},
     {0}},
    {"just above the watermark", {100, 8, 0}, {prompt(9, 40)}, 1, 50, 1000, 10, 0, {0}},
    {"a page below it",
     {100, 8, 0},
     {prompt(9, 41), prompt(1, 1)},
     1,
     50,
     1000,
     10,
     0,
     {},
     {},
     {},
     true},
    {"the second finds no pages",
     {100, 8, 0},
     {prompt(9, 30), prompt(9, 11)},
     1,
     50,
     1000,
     10,
     0,
     {0},
     {},
     {},
     true},
    {"what goes on may have the last page",
     {100, 8, 0},
     {with(prompt(9, 50), 1, false)},
     1,
     50,
     1000,
     10,
     0,
     {0}},
    {"so may the first when nothing runs", {100, 8, 0}, {prompt(9, 50)}, 0, 50, 1000, 10, 0, {0}},
    {"but no more than there is",
     {100, 8, 0},
     {prompt(9, 51)},
     0,
     50,
     1000,
     10,
     0,
     {},
     {},
     {},
     true},
    {"a delay that is not over",
     {100, 8, 0.5},
     {prompt(9, 1, 9)},
     1,
     1000,
     1000,
     10,
     4,
     {},
     {},
     11},
    {"is over", {100, 8, 0.5}, {prompt(9, 1, 9)}, 1, 1000, 1000, 11, 4, {0}},
    {"counts from the one that came first",
     {100, 8, 0.5},
     {prompt(9, 1, 9), prompt(9, 1, 7)},
     1,
     1000,
     1000,
     10,
     4,
     {0, 1}},
    {"ends when nothing runs", {100, 8, 0.5}, {prompt(9, 1, 9)}, 0, 1000, 1000, 10, 4, {0}},
    {"is nothing without a factor", {100, 8, 0}, {prompt(9, 1, 10)}, 1, 1000, 1000, 10, 4, {0}},
    {"nor before the first prompts", {100, 8, 2}, {prompt(9, 1, 10)}, 1, 1000, 1000, 10, 0, {0}},
    {"of three schedulers, each with its own",
     {100, 4, 0},
     {prompt(9), prompt(9), prompt(9), prompt(9), prompt(9)},
     7,
     1000,
     1000,
     10,
     0,
     {0, 1, 2, 3},
     {},
     {},
     false,
     3},
    {"and all are full", {100, 4, 0}, {prompt(9)}, 12, 1000, 1000, 10, 0, {}, {}, {}, false, 3},
    {"a later stage runs what comes",
     {100, 2, 2},
     {prompt(9, 1, 9), prompt(9, 1, 9), prompt(9, 1, 9)},
     99,
     1000,
     1000,
     10,
     4,
     {0, 1},
     {},
     {},
     false,
     1,
     true},
    {"also a group that is larger than a batch",
     {100, 2, 0},
     {with(prompt(9), 3)},
     99,
     1000,
     1000,
     10,
     0,
     {0},
     {},
     {},
     false,
     1,
     true},
};
// clang-format on

TEST(PromptsFirst, ChoosesAsTheTableSays) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.what);
        const PromptsChoice choice = choose_prompts(
            c.config, {at(c.now_s), c.waiting, c.running, c.schedulers, c.free_pages, c.total_pages,
                       base::from_seconds(c.last_prompts_s), c.later_stage});
        EXPECT_EQ(choice.run, c.run);
        EXPECT_EQ(choice.too_long, c.too_long);
        EXPECT_EQ(choice.short_of_pages, c.short_of_pages);
        ASSERT_EQ(choice.not_before.has_value(), c.not_before_s.has_value());
        if (c.not_before_s) {
            EXPECT_EQ(choice.not_before->ns, at(*c.not_before_s).ns);
        }
    }
}

// A server of vLLM's rules under random load: budgets hold in every batch, the order is that of
// arrival, and everybody has a turn.
TEST(PromptsFirst, UnderRandomLoadNobodyIsPassedOverOrForgotten) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        base::Random random(seed);
        const PromptsFirst config{static_cast<std::int32_t>(random.between(20, 60)),
                                  static_cast<std::int32_t>(random.between(1, 6)),
                                  random.chance(0.5) ? 0.0 : 2 * random.uniform()};
        constexpr std::int64_t kPages = 200;
        std::vector<WaitingPrompt> waiting;
        std::vector<std::size_t> numbers;                            // of those that wait
        std::vector<std::pair<std::int64_t, std::int64_t>> running;  // batches left, pages
        std::size_t came = 0;
        std::size_t next = 0;  // the next to run
        std::int64_t free = kPages;
        double now_s = 0;
        Duration last_prompts;
        for (int step = 0; step < 2000 && next < 100; ++step) {
            while (came < 100 && random.chance(0.4)) {
                waiting.push_back(prompt(random.between(1, 20), random.between(1, 90), now_s));
                numbers.push_back(came++);
            }
            const PromptsChoice choice = choose_prompts(
                config, {at(now_s), waiting, static_cast<std::int64_t>(running.size()), 1, free,
                         kPages, last_prompts});
            EXPECT_TRUE(choice.too_long.empty());
            std::int64_t rows = 0;
            for (std::size_t i = 0; i < choice.run.size(); ++i) {
                ASSERT_EQ(choice.run[i], i) << "one was passed over";
                ASSERT_EQ(numbers[i], next++);
                rows += waiting[i].rows;
                free -= waiting[i].pages;
                running.emplace_back(random.between(1, 10), waiting[i].pages);
            }
            const auto n = static_cast<std::ptrdiff_t>(choice.run.size());
            EXPECT_LE(rows, config.max_batched_tokens);
            EXPECT_LE(running.size(), static_cast<std::size_t>(config.max_seqs));
            EXPECT_GE(free, 0);
            EXPECT_TRUE(n == 0 || !choice.not_before);
            waiting.erase(waiting.begin(), waiting.begin() + n);
            numbers.erase(numbers.begin(), numbers.begin() + n);
            if (n > 0) {
                last_prompts = base::from_seconds(0.1 + random.uniform());
                now_s += last_prompts.seconds();
                continue;
            }
            now_s += 0.1;
            for (auto& [left, pages] : running) {
                if (--left == 0) free += pages;
            }
            std::erase_if(running, [](const auto& one) { return one.first == 0; });
        }
        EXPECT_EQ(next, 100U) << came << " came";
    }
}

WorkerConfig vllm(PromptsFirst how) {
    WorkerConfig config = WorkerDriver::small();
    config.prompts_first = how;
    return config;
}

class VllmWorker : public WorkerDriver {
  public:
    explicit VllmWorker(PromptsFirst how, std::int64_t pages = 400,
                        Pipeline pipeline = {{{0}, {0, 1}}, {{1}, {1, 2}}})
        : WorkerDriver(pages, 0, vllm(how), std::move(pipeline)) {}

    // From now on it has these layers, of a pipeline of so many stages.
    void assign(LayerRange layers, std::int32_t stages) {
        say(AssignLayers{2, layers, stages, {}});
        step(LayersLoaded{2, 400, 0});
    }
    StageInput prompt_of(std::uint64_t id, std::size_t rows) const {
        StageInput input = start(key(id), RowTokens(std::vector<Token>(rows, 5)));
        input.payload.rows = static_cast<std::uint32_t>(rows);  // as later stages get them
        return input;
    }
    StageInput decode(std::uint64_t id, std::int32_t position) const {
        StageInput input = rows(key(id), position, {9});
        input.payload.rows = 1;
        return input;
    }
    // "3x5 4x1": the requests of the batch under way, and how many rows of each.
    std::string batch() const {
        std::string text;
        for (const BatchChunk& chunk : plan().chunks) {
            text += (text.empty() ? "" : " ") + std::to_string(chunk.key.request.value) + "x" +
                    std::to_string(chunk.tokens.size());
        }
        return text;
    }
    void finish_after(Duration took) {
        wait(took);
        BatchFinished finished{plan().id, {}, took};
        end(finished);
    }
};

TEST(VllmWorker, APromptGoesBeforeDecodesAndBesideNone) {
    VllmWorker worker({16, 8, 0});
    worker.say(StageInputs{{worker.prompt_of(1, 5), worker.prompt_of(2, 6)}});
    EXPECT_EQ(worker.batch(), "1x5 2x6");
    worker.say(StageInputs{{worker.prompt_of(3, 7)}});
    worker.say(StageInputs{{worker.prompt_of(4, 9), worker.prompt_of(5, 1)}});
    worker.finish();
    EXPECT_EQ(worker.batch(), "3x7 4x9") << "16 rows, all prompts whole";
    worker.say(StageInputs{{worker.decode(1, 5), worker.decode(2, 6)}});
    worker.finish();
    EXPECT_EQ(worker.batch(), "5x1") << "before the decodes";
    worker.finish();
    EXPECT_EQ(worker.batch(), "1x1 2x1");
}

TEST(VllmWorker, NoMoreSequencesRunThanMay) {
    VllmWorker worker({16, 2, 0});
    worker.say(StageInputs{{worker.prompt_of(1, 2)}});
    worker.finish();
    worker.say(StageInputs{{worker.prompt_of(2, 2), worker.prompt_of(3, 2)}});
    EXPECT_EQ(worker.batch(), "2x2");
    worker.finish();
    EXPECT_EQ(worker.batch(), "") << "the two that run are elsewhere, and the third waits";
    worker.say(StageInputs{{worker.decode(2, 2)}});
    EXPECT_EQ(worker.batch(), "2x1");
    worker.finish();
    worker.say(FreeSequences{{worker.key(1)}});
    EXPECT_EQ(worker.batch(), "3x2");
}

// vLLM has a scheduler for each batch in flight, and max_seqs is of one of them.
TEST(VllmWorker, EveryBatchInFlightHasItsOwnSequences) {
    VllmWorker worker({16, 2, 0});
    worker.assign({0, 1}, 3);
    for (std::uint64_t id = 1; id <= 7; ++id) worker.say(StageInputs{{worker.prompt_of(id, 2)}});
    EXPECT_EQ(worker.batch(), "1x2");
    worker.finish();
    EXPECT_EQ(worker.batch(), "2x2 3x2") << "of one scheduler";
    worker.finish();
    EXPECT_EQ(worker.batch(), "4x2 5x2");
    worker.finish();
    EXPECT_EQ(worker.batch(), "6x2");
    worker.finish();
    EXPECT_EQ(worker.batch(), "") << "all have two that run, and the seventh waits";
    StageInputs decodes;
    for (std::uint64_t id = 1; id <= 6; ++id) decodes.inputs.push_back(worker.decode(id, 2));
    worker.say(std::move(decodes));
    EXPECT_EQ(worker.batch(), "1x1 2x1");
    worker.finish();
    EXPECT_EQ(worker.batch(), "3x1 4x1");
    worker.finish();
    worker.say(FreeSequences{{worker.key(1)}});
    EXPECT_EQ(worker.batch(), "5x1 6x1");
    worker.finish();
    EXPECT_EQ(worker.batch(), "7x2");
}

// The first stage alone decides; else decodes would give way, and prompts wait, at every stage.
TEST(VllmWorker, ALaterStageRunsWhatComesInItsOrderAndAtOnce) {
    VllmWorker worker({16, 2, 0.5}, 400, {{{1}, {0, 1}}, {{0}, {1, 2}}, {{2}, {2, 3}}});
    worker.assign({1, 2}, 1);
    worker.say(StageInputs{{worker.prompt_of(1, 4), worker.prompt_of(2, 4)}});
    worker.finish_after(base::from_ms(400));
    worker.say(StageInputs{{worker.prompt_of(3, 4)}});
    EXPECT_EQ(worker.batch(), "3x4") << "neither a delay nor max_seqs";
    worker.say(StageInputs{{worker.decode(1, 4)}});
    worker.say(StageInputs{{worker.prompt_of(4, 4)}});
    worker.say(StageInputs{{worker.decode(2, 4)}});
    worker.finish();
    EXPECT_EQ(worker.batch(), "1x1 2x1") << "the first came before the prompt";
    worker.say(StageInputs{{worker.decode(3, 4)}});
    worker.finish();
    EXPECT_EQ(worker.batch(), "4x4") << "it came before the decode";
    worker.finish();
    EXPECT_EQ(worker.batch(), "3x1");
}

TEST(VllmWorker, PromptsWaitForTheDelayAndTheWorkerIsWoken) {
    VllmWorker worker({16, 8, 0.5});
    worker.say(StageInputs{{worker.prompt_of(1, 4)}});
    worker.finish_after(base::from_ms(400));
    worker.say(StageInputs{{worker.prompt_of(2, 4)}});
    EXPECT_EQ(worker.batch(), "") << "1 runs, and 2 waits for others";
    const auto wake = find<WakeAt>(worker.actions());
    ASSERT_TRUE(wake);
    EXPECT_EQ(wake->at.ns, base::from_ms(600).ns);
    worker.wait(base::from_ms(100));
    worker.say(StageInputs{{worker.decode(1, 4)}});
    EXPECT_EQ(worker.batch(), "1x1") << "decodes need not wait";
    worker.say(StageInputs{{worker.prompt_of(3, 4)}});
    worker.finish_after(base::from_ms(50));
    EXPECT_EQ(worker.batch(), "");
    worker.wait(base::from_ms(50));
    worker.step(WorkerTick{});
    EXPECT_EQ(worker.batch(), "2x4 3x4");
    worker.finish_after(base::from_ms(400));
    worker.say(FreeSequences{{worker.key(1), worker.key(2), worker.key(3)}});
    worker.say(StageInputs{{worker.prompt_of(4, 4)}});
    EXPECT_EQ(worker.batch(), "4x4") << "nothing runs, so it does not wait";
}

TEST(VllmWorker, APromptThatNoBatchTakesIsRefusedAndTheNextRuns) {
    VllmWorker worker({16, 8, 0});
    worker.say(StageInputs{{worker.prompt_of(1, 17), worker.prompt_of(2, 16)}});
    const auto stuck = worker.stuck();
    ASSERT_EQ(stuck.size(), 1U);
    EXPECT_EQ(stuck[0].key, worker.key(1));
    EXPECT_EQ(stuck[0].cause, StuckCause::invalid_request);
    EXPECT_EQ(stuck[0].reason,
              "a prompt of 17 tokens, and this worker's batches take whole prompts of at most 16");
    EXPECT_EQ(worker.batch(), "2x16");
    worker.finish();
    EXPECT_EQ(worker.report().held.size(), 1U);
}

// 8 pages of 4 tokens, in 1 layer.
TEST(VllmWorker, AWaitingPromptLeavesPagesToDecodesAndADecodeWithoutOneIsTold) {
    VllmWorker worker({32, 8, 0}, 8);
    worker.say(StageInputs{{worker.prompt_of(1, 12), worker.prompt_of(2, 16)}});
    EXPECT_EQ(worker.batch(), "1x12 2x16");
    worker.finish();
    worker.say(StageInputs{{worker.prompt_of(3, 8)}});
    EXPECT_EQ(worker.batch(), "") << "one page is free";
    EXPECT_TRUE(worker.stuck().empty()) << "it waits for those that run";
    worker.say(StageInputs{{worker.decode(1, 12)}});
    EXPECT_EQ(worker.batch(), "1x1");
    worker.finish();
    worker.say(StageInputs{{worker.decode(2, 16)}});
    ASSERT_EQ(worker.stuck().size(), 1U) << "the coordinator says who gives way";
    EXPECT_EQ(worker.stuck()[0].key, worker.key(2));
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::out_of_pages);
    worker.say(FreeSequences{{worker.key(2)}});
    EXPECT_EQ(worker.batch(), "3x8");
}

}  // namespace
}  // namespace helix::core::prompts_first_test
