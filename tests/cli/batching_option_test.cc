// The order of work that `helix simulate` is asked for.

#include "cli/batching_option.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "paper_data.h"

namespace helix::cli::batching_option_test {
namespace {

// What `helix simulate` says of these options on a small window: its report, or its complaint.
std::string simulate(std::vector<std::string> options) {
    const std::string cluster = kPaperData + "/clusters/single24.json";
    const std::string layout = kPaperData + "/layouts/single24__llama2-70b__helix.json";
    std::vector<std::string> words = {"helix",
                                      "simulate",
                                      cluster,
                                      "--model",
                                      "llama2-70b",
                                      "--profiles",
                                      kPaperData + "/profiles",
                                      "--placement",
                                      layout,
                                      "--warmup",
                                      "0s",
                                      "--duration",
                                      "5s",
                                      "--json"};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run(static_cast<int>(argv.size()), argv.data());
    const std::string report = testing::internal::GetCapturedStdout();
    const std::string complaint = testing::internal::GetCapturedStderr();
    return code == 0 ? report : complaint;
}

struct Case {
    std::vector<std::string> options;
    const char* says;  // some of what is said
};

TEST(BatchingOption, BadValuesAreErrorsThatSayWhatIsWrong) {
    const std::vector<Case> cases = {
        {{"--batching", "vlm"}, "--batching: 'vlm' is none of helix, vllm"},
        {{"--batching", "two-passes"}, "--batching two-passes: needs --policy reference"},
        {{"--batching", "vllm", "--policy", "reference"}, "--batching vllm: needs --policy helix"},
        {{"--batching", "vlm", "--policy", "reference"},
         "--batching: 'vlm' is none of fifo, decode-first, two-passes"},
        {{"--max-num-seqs", "8"}, "--max-num-seqs: needs --batching vllm"},
        {{"--prefill-share", "0"}, "--prefill-share: expected a number above 0"},
        {{"--kv-high-water", "1.1"}, "--kv-high-water: expected a number above 0 and at most 1"},
        {{"--prefill-share", "1", "--policy", "reference"},
         "--prefill-share: needs --policy helix"},
        {{"--kv-high-water", "1", "--policy", "reference"},
         "--kv-high-water: needs --policy helix"},
        {{"--prefill-target", "soon"}, "--prefill-target"},
        {{"--prefill-target", "0s"}, "--prefill-target: expected a time above 0"},
        {{"--prefill-target", "3s", "--policy", "reference"},
         "--prefill-target: needs --policy helix"},
        {{"--batching", "fifo", "--policy", "reference", "--delay-factor", "1"},
         "--delay-factor: needs --batching vllm"},
        {{"--batching", "vllm", "--max-num-seqs", "0"}, "--max-num-seqs: 0 is below 1"},
        {{"--batching", "vllm", "--max-batched-tokens", "255"},
         "--max-batched-tokens: 255 is less than the 256 of --max-num-seqs"},
        {{"--batching", "vllm", "--delay-factor", "-1"},
         "--delay-factor: -1 is not between 0 and 1000"},
        {{"--batching", "vllm", "--delay-factor", "nan"},
         "--delay-factor: nan is not between 0 and 1000"},
        {{"--batching", "vllm", "--max-batched-tokens", "512"},
         "batches of whole prompts of at most 512 tokens; a request may need"},
        {{"--balance", "llamnix"}, "--balance: 'llamnix' is none of helix, llumnix"},
        {{"--balance", "llumnix", "--no-balance"}, "--balance llumnix: --no-balance turns it off"},
        {{"--balance", "llumnix", "--policy", "reference"}, "--balance: needs --policy helix"},
    };
    for (const Case& c : cases) {
        const std::string said = simulate(c.options);
        EXPECT_NE(said.find(c.says), std::string::npos) << c.says << "\n" << said;
    }
}

TEST(BatchingOption, EveryBaselineIsSimulatedAndIsAnotherPolicy) {
    const std::string ours = simulate({});
    EXPECT_NE(ours.find("decode_tokens_per_s"), std::string::npos) << ours;
    EXPECT_EQ(simulate({"--batching", "helix", "--balance", "helix"}), ours);
    std::vector<std::string> seen = {ours};
    const std::vector<std::vector<std::string>> baselines = {
        {"--batching", "vllm"},
        {"--batching", "vllm", "--max-num-seqs", "4"},
        {"--prefill-share", "0.5"},
        {"--scheduler", "llumnix", "--balance", "llumnix"},
    };
    for (const auto& options : baselines) {
        const std::string report = simulate(options);
        EXPECT_NE(report.find("decode_tokens_per_s"), std::string::npos) << report;
        for (const std::string& other : seen) EXPECT_NE(report, other) << options.back();
        seen.push_back(report);
    }
}

TEST(BatchingOption, BudgetsAreAsGivenAndOtherwiseAsVllmHasThem) {
    BatchingArguments a;
    ASSERT_TRUE(own_batching(a).ok());
    EXPECT_FALSE(own_batching(a)->has_value());
    EXPECT_EQ(reference_batching(a).value(), sim::ReferenceBatching::Order::fifo);
    a.batching = "vllm";
    core::PromptsFirst how = own_batching(a)->value();
    EXPECT_EQ(how.max_batched_tokens, 0) << "by the model's context";
    EXPECT_EQ(how.max_seqs, 256);
    EXPECT_EQ(how.delay_factor, 0);
    a.max_batched_tokens = 4096;
    a.max_num_seqs = 64;
    a.delay_factor = 0.5;
    how = own_batching(a)->value();
    EXPECT_EQ(how.max_batched_tokens, 4096);
    EXPECT_EQ(how.max_seqs, 64);
    EXPECT_EQ(how.delay_factor, 0.5);
}

}  // namespace
}  // namespace helix::cli::batching_option_test
