#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/effort.h"
#include "lab/experiments/experiment_page.h"
#include "lab/experiments/experiment_session.h"
#include "lab/experiments/experiments.h"
#include "lab/experiments/live_run.h"
#include "own_folder.h"
#include "paper_data.h"

namespace helix::lab::experiment_test {
namespace {

const std::string kData = kPaperData;

class ExperimentTest : public OwnFolder {};

TEST(Experiments, NamesAreDistinctAndFindWhatTheyName) {
    std::set<std::string> names;
    for (const Experiment& experiment : all_experiments()) {
        EXPECT_TRUE(names.insert(experiment.name).second) << experiment.name;
        EXPECT_EQ(find_experiments(experiment.name).size(), 1U) << experiment.name;
    }
    for (const char* topic : {"all", "published", "live"}) {
        EXPECT_FALSE(names.contains(topic)) << "is the name of several";
        EXPECT_GT(find_experiments(topic).size(), 1U) << topic;
    }
    EXPECT_EQ(find_experiments("all").size(), names.size());
    EXPECT_TRUE(find_experiments("singel-cluster").empty());
    EXPECT_TRUE(names.contains("single-cluster"));
    EXPECT_TRUE(names.contains("prototype"));
}

TEST_F(ExperimentTest, PublishedRunsAreComplete) {
    EXPECT_EQ(published_methods().size(), 21U);
    EXPECT_EQ(find_published("single24", "llama2-70b", "nobody"), nullptr);
    const PublishedMethod* plus = find_published("highhet42", "llama2-70b", "separate-plus");
    ASSERT_NE(plus, nullptr);
    EXPECT_EQ(plus->parts.size(), 5U);
    for (const MeasuredSystem& system : measured_systems()) {
        EXPECT_NE(find_published("single24", system.model, system.method), nullptr);
    }
}

// Whole pages take minutes under a sanitizer; the one on machines for prompts runs the same code.
constexpr const char* kAnotherPageRuns = "another page runs under the sanitizer";

// Without the published inputs: made-up ones, and every method has its row and its bars.
TEST_F(ExperimentTest, AQuickRunWithoutDataWritesItsPage) {
    if (kSanitized) GTEST_SKIP() << kAnotherPageRuns;
    auto data = ExperimentData::open(ExperimentData::kMadeUp, folder_ + "/inputs");
    ASSERT_TRUE(data.ok()) << data.error().message;
    EXPECT_TRUE(data->made_up());
    ExperimentOptions options;
    options.plan_budget_s = 0.5;
    options.time_share = 0.03;
    ExperimentSession session(std::move(*data), options);
    const Experiment experiment =
        cluster_experiment("single", "Single cluster", "single24", {"llama2-70b"});
    for (int round = 0; round < kExperimentRounds; ++round) {
        ASSERT_TRUE(experiment.ask(session, round).ok());
        const base::Status done = session.run_wanted("test");
        ASSERT_TRUE(done.ok()) << done.error().message;
    }
    ExperimentPage page;
    ASSERT_TRUE(experiment.write(session, page).ok());
    ASSERT_TRUE(page.write(folder_).ok());
    const std::string text = read(folder_ + "/experiments.md");
    for (const char* row : {"| Helix ", "| Swarm ", "| SP ", "| Petals ", "| our plan "}) {
        EXPECT_NE(text.find(row), std::string::npos) << row;
    }
    EXPECT_EQ(text.find("did not run"), std::string::npos) << text;
    for (const char* name : {"offline", "ttft", "tpot"}) {
        const std::string file = "experiments-single24-llama2-70b-" + std::string(name) + ".svg";
        EXPECT_NE(text.find("img/" + file), std::string::npos) << file;
        EXPECT_TRUE(read(folder_ + "/img/" + file).starts_with("<svg")) << file;
    }
}

// LLaMA 2 70B: 80 layers of 1.71 GB in 16 bits. Half of an A100 of 80 GB holds 23 of them,
// beside the embedding or the head as well, half of a T4 four.
TEST_F(ExperimentTest, MachinesThatAModelNeedsAndLengthsOfRequests) {
    auto data = ExperimentData::open(kData, folder_);
    ASSERT_TRUE(data.ok()) << data.error().message;
    ExperimentSession session(std::move(*data), {});
    ExperimentPage page;
    for (const Experiment& experiment : {machines_experiment(), lengths_experiment()}) {
        ASSERT_TRUE(experiment.ask(session, 0).ok());
        ASSERT_TRUE(experiment.write(session, page).ok());
    }
    const std::vector<ExperimentTable>& tables = page.tables();
    ASSERT_EQ(tables.size(), 2U);
    const auto column = [&](const std::string& name) {
        const auto& head = tables[0].head;
        return static_cast<std::size_t>(std::find(head.begin(), head.end(), name) - head.begin());
    };
    for (const auto& row : tables[0].rows) {
        if (row[0] != "llama2-70b") continue;
        EXPECT_EQ(row[column("A100-80")], "4");
        EXPECT_EQ(row[column("T4")], "20");
    }
    ASSERT_EQ(tables[1].rows.size(), 2U);
    EXPECT_EQ(tables[1].title, "Tokens of 16657 requests");
    EXPECT_EQ(tables[1].rows[0][1], "763.1") << "mean of the prompts, as published";
    EXPECT_EQ(tables[1].rows[1][1], "232.4") << "mean of the answers, as published";
}

TEST_F(ExperimentTest, TheProjectsOwnDataIsFoundAndComplete) {
    const auto folder = ExperimentData::project_folder();
    ASSERT_TRUE(folder.has_value()) << "data/paper is not above this program";
    const auto data = ExperimentData::open(*folder, folder_);
    ASSERT_TRUE(data.ok()) << data.error().message;
    EXPECT_FALSE(data->made_up());
    for (const PublishedMethod& known : published_methods()) {
        const ExperimentCase wanted{
            .cluster = known.cluster, .model = known.model, .method = known.method};
        EXPECT_FALSE(published_layout(*data, wanted).empty()) << wanted.title();
    }
}

// A row of the solver shows what the solver found: nothing, where it had no time.
TEST_F(ExperimentTest, TheProgramsRunShowsTheSolversOwnResult) {
    auto data = ExperimentData::open(kData, folder_);
    ASSERT_TRUE(data.ok()) << data.error().message;
    ExperimentOptions options;
    options.solver_budget_s = 1e-6;
    ExperimentSession session(std::move(*data), options);
    const auto nothing = session.solve("ablation10", "llama1-30b", {.prune = 4, .start = false});
    ASSERT_TRUE(nothing.ok()) << nothing.error().message;
    EXPECT_FALSE(nothing->found());
    EXPECT_FALSE(nothing->start_given);
    EXPECT_EQ(nothing->stop_reason, plan::MilpStop::time_limit);
    const auto started = session.solve("ablation10", "llama1-30b", {.prune = 4});
    ASSERT_TRUE(started.ok()) << started.error().message;
    EXPECT_TRUE(started->start_used) << started->start_note;
    EXPECT_FALSE(started->improved());
    EXPECT_TRUE(started->agrees());
    EXPECT_GT(started->links, nothing->links) << "pruning keeps what the start needs";
    const auto all = session.solve("ablation10", "llama1-30b", {});
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_EQ(all->rows, 350);
    EXPECT_EQ(all->columns, 316);
}

TEST_F(ExperimentTest, ThePublishedRunComesOutToThePrintedDigit) {
    auto data = ExperimentData::open(kData, folder_);
    ASSERT_TRUE(data.ok()) << data.error().message;
    EXPECT_FALSE(data->made_up());
    ExperimentSession session(std::move(*data), {});
    const ExperimentCase helix{.cluster = "single24", .model = "llama2-70b", .method = "helix"};
    const ExperimentCase pipelines{
        .cluster = "single24", .model = "llama2-70b", .method = "separate"};
    session.want(helix);
    session.want(pipelines);
    session.want(helix);
    ASSERT_TRUE(session.run_wanted("test").ok());
    EXPECT_EQ(session.results().size(), 2U);
    const ExperimentResult& one = session.result(helix);
    ASSERT_TRUE(one.error.empty()) << one.error;
    EXPECT_FALSE(one.planned);
    EXPECT_EQ(cell(one.report.decode_tokens_per_s, 2), "252.08");
    EXPECT_EQ(one.report.iterations, 154'701U);
    const ExperimentResult& three = session.result(pipelines);
    ASSERT_TRUE(three.error.empty()) << three.error;
    ASSERT_EQ(three.parts.size(), 3U);
    EXPECT_EQ(cell(three.report.decode_tokens_per_s, 1), "124.3");
    EXPECT_EQ(cell(three.parts[0].decode_tokens_per_s, 2), "84.27");
    EXPECT_NEAR(three.report.ttft.mean, 1.378, 0.0005);
    EXPECT_NEAR(three.report.tpot.mean, 0.484, 0.0005);
}

// Their machines hold more layers than were measured. What memory is left beside them is what the
// published files say, in which the published run fits: our policy, which never takes more than
// there is, is not held to less.
TEST_F(ExperimentTest, SeparatePipelinesServeNoLessUnderOurPolicyThanUnderThePublishedOne) {
    if (kSanitized) GTEST_SKIP() << "the published run is simulated there";
    auto data = ExperimentData::open(kData, folder_);
    ASSERT_TRUE(data.ok()) << data.error().message;
    ExperimentSession session(std::move(*data), {});
    ExperimentCase pipelines{.cluster = "single24", .model = "llama2-70b", .method = "separate"};
    session.want(pipelines);
    const ExperimentCase published = pipelines;
    pipelines.policy = ExperimentPolicy::own;
    session.want(pipelines);
    ASSERT_TRUE(session.run_wanted("test").ok());
    const ExperimentResult& theirs = session.result(published);
    const ExperimentResult& ours = session.result(pipelines);
    ASSERT_TRUE(theirs.error.empty() && ours.error.empty()) << theirs.error << ours.error;
    EXPECT_FALSE(theirs.report.kv_overflowed);
    ASSERT_EQ(ours.parts.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_GT(ours.parts[i].decode_tokens_per_s, theirs.parts[i].decode_tokens_per_s) << i;
    }
}

// A tiny share of the live experiments' windows: every page has its rows and its picture.
TEST_F(ExperimentTest, AQuickLiveRunWritesItsPage) {
    if (kSanitized) GTEST_SKIP() << kAnotherPageRuns;
    ExperimentOptions options;
    options.time_share = 0.01;
    ExperimentSession session({}, options);
    ExperimentPage page("experiments-live");
    for (const Experiment& experiment : live_experiments()) {
        const base::Status done = experiment.write(session, page);
        ASSERT_TRUE(done.ok()) << done.error().message;
    }
    ASSERT_TRUE(page.write(folder_).ok());
    const std::string text = read(folder_ + "/experiments-live.md");
    for (const char* row : {"| one queue, moves ", "| and headroom ", "| and for room, up to 4 ",
                            "| 2 to 16, freeness 64 to 1024 "}) {
        EXPECT_NE(text.find(row), std::string::npos) << row;
    }
    for (const char* name : {"preemption", "ttft", "priorities", "scatter", "scaling"}) {
        const std::string file = "experiments-live-" + std::string(name) + ".svg";
        EXPECT_NE(text.find("img/" + file), std::string::npos) << file;
        EXPECT_TRUE(read(folder_ + "/img/" + file).starts_with("<svg")) << file;
    }
}

// The same for the page on machines for prompts.
TEST_F(ExperimentTest, AQuickDisaggregationRunWritesItsPage) {
    ExperimentOptions options;
    options.time_share = 0.005;
    ExperimentSession session({}, options);
    ExperimentPage page("experiments-disaggregation");
    const base::Status done = disaggregation_experiment().write(session, page);
    ASSERT_TRUE(done.ok()) << done.error().message;
    ASSERT_TRUE(page.write(folder_).ok());
    const std::string text = read(folder_ + "/experiments-disaggregation.md");
    for (const char* row : {"| 8 A100-40 | 50 % | none |", "| 3 + 5, 100 Gb/s |",
                            "| 4 L40S, 4 A100-80 | 80 % | 4 + 4, 10 Gb/s |"}) {
        EXPECT_NE(text.find(row), std::string::npos) << row;
    }
    for (const char* name : {"conversations", "long"}) {
        const std::string file = "experiments-disaggregation-" + std::string(name) + ".svg";
        EXPECT_TRUE(read(folder_ + "/img/" + file).starts_with("<svg")) << file;
    }
}

TEST(LiveRun, PowerLawLengthsHaveTheirMean) {
    const sim::LengthSource lengths = power_law_lengths({256, 6144}, {128, 2048});
    double prompt = 0;
    double output = 0;
    for (const sim::RequestLength& row : lengths.rows()) {
        prompt += row.prompt_tokens;
        output += row.output_tokens;
    }
    const auto n = static_cast<double>(lengths.rows().size());
    EXPECT_NEAR(prompt / n, 256, 13);
    EXPECT_NEAR(output / n, 128, 7);
    EXPECT_LE(lengths.longest_prompt(), 6144);
}

TEST(LiveRun, MachinesWithQueuesOfTheirOwnServeTheSameRequests) {
    const auto cluster = live_cluster(2, "A10", "llama2-7b", 400);
    const auto one = live_cluster(1, "A10", "llama2-7b", 400);
    ASSERT_TRUE(cluster.ok() && one.ok());
    LiveCase wanted;
    wanted.cluster = &*cluster;
    wanted.warmup_s = 1;
    wanted.duration_s = 5;
    wanted.arrivals = live_arrivals(power_law_lengths({64, 512}, {32, 128}),
                                    {.requests_per_s = 3, .cv = 2, .end_s = 6, .seed = 1});
    const LiveResult together = run_live(wanted);
    wanted.own_queues = &*one;
    const LiveResult apart = run_live(wanted);
    ASSERT_TRUE(together.error.empty()) << together.error;
    ASSERT_TRUE(apart.error.empty()) << apart.error;
    EXPECT_GT(together.requests, 0U);
    EXPECT_EQ(together.requests, apart.requests);
    EXPECT_EQ(together.unfinished + apart.unfinished, 0U);
    EXPECT_EQ(together.all.ttft.count(), apart.all.ttft.count());
    EXPECT_EQ(together.all.tpot.count(), apart.all.tpot.count());
}

TEST_F(ExperimentTest, CellsOfNothingAreDashes) {
    EXPECT_EQ(cell(0, 1), "-");
    EXPECT_EQ(ratio_cell(5, 0), "-");
    EXPECT_EQ(error_cell(110, 100), "+10.0 %");
    EXPECT_EQ(ratio_cell(110, 100), "1.10");
    EXPECT_EQ(latency_cell({}), "-");
}

}  // namespace
}  // namespace helix::lab::experiment_test
