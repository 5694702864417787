// helix model quantize, imatrix and compare, from the command line to the files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "own_folder.h"

namespace helix::cli::quantize_command_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Ended {
    int code = 0;
    std::string out;
    std::string error;
};

class QuantizeCommand : public OwnFolder {
  protected:
    void SetUp() override {
        OwnFolder::SetUp();
        ASSERT_EQ(helix({"model", "synth", "--shape", "small", "--quant", "f16", model_}).code, 0);
        std::ofstream text(text_);
        for (int i = 0; i < 40; ++i) text << "The quick brown fox " << i << " jumps over it. ";
    }

    static Ended helix(std::vector<std::string> words) {
        words.insert(words.begin(), "helix");
        std::vector<const char*> arguments;
        for (const std::string& word : words) arguments.push_back(word.c_str());
        Ended ended;
        ::testing::internal::CaptureStdout();
        ::testing::internal::CaptureStderr();
        ended.code = run(static_cast<int>(arguments.size()), arguments.data());
        ended.out = ::testing::internal::GetCapturedStdout();
        ended.error = ::testing::internal::GetCapturedStderr();
        return ended;
    }
    std::string file(const std::string& name) const { return folder_ + "/" + name; }

    const std::string model_ = file("model.gguf");
    const std::string text_ = file("words.txt");
};

TEST_F(QuantizeCommand, ATextMakesAMatrixThatMakesAModelThatIsCompared) {
    const std::string imatrix = file("words.imatrix");
    const Ended counted = helix({"model", "imatrix", model_, "--text", text_, "--tokens", "200",
                                 "--chunk", "64", "--threads", "2", "--output", imatrix, "--json"});
    ASSERT_EQ(counted.code, 0) << counted.error;
    const auto count = nlohmann::json::parse(counted.out);
    EXPECT_GE(count["tokens"], 200);
    EXPECT_EQ(count["unseen_matrices"], 0);
    EXPECT_GE(count["chunks"], 4);
    const std::string small = file("small.gguf");
    const Ended made = helix({"model", "quantize", model_, small, "--type", "Q3_K", "--imatrix",
                              imatrix, "--output-type", "q6_k", "--threads", "2", "--json"});
    ASSERT_EQ(made.code, 0) << made.error;
    // Slow machines also say how far they are.
    EXPECT_THAT(made.error, Not(HasSubstr("says nothing of")))
        << "the matrix says something of every tensor but the embedding, which is no head";
    const auto report = nlohmann::json::parse(made.out);
    EXPECT_EQ(report["file_bytes"], std::filesystem::file_size(small));
    EXPECT_LT(report["bits_per_weight"], 6);
    const Ended info = helix({"model", "info", small, "--json"});
    ASSERT_EQ(info.code, 0) << info.error;
    EXPECT_THAT(info.out, HasSubstr("q3_k"));
    const Ended compared = helix({"model", "compare", model_, small, "--text", text_, "--tokens",
                                  "100", "--threads", "2", "--json"});
    ASSERT_EQ(compared.code, 0) << compared.error;
    const auto distance = nlohmann::json::parse(compared.out);
    EXPECT_GT(distance["mean_kl"], 0);
    EXPECT_EQ(distance["tokens"], 100);
    const Ended lines = helix(
        {"model", "compare", model_, model_, "--text", text_, "--tokens", "50", "--threads", "2"});
    ASSERT_EQ(lines.code, 0) << lines.error;
    EXPECT_THAT(lines.out, HasSubstr("same first token 100.00 %"));
}

TEST_F(QuantizeCommand, SaysWhatItWouldWriteAndWritesNothing) {
    const Ended dry = helix({"model", "quantize", model_, file("no.gguf"), "--type", "q4_k_m",
                             "--tensor", "blk.0.*=q8_0", "--dry-run"});
    ASSERT_EQ(dry.code, 0) << dry.error;
    for (const char* word : {"q4_k", "q5_k", "q6_k", "q8_0", "would be written: "})
        EXPECT_THAT(dry.out, HasSubstr(word));
    EXPECT_FALSE(std::filesystem::exists(file("no.gguf")));
}

TEST_F(QuantizeCommand, SaysWhenAnotherTypeStandsIn) {
    const std::string tiny = file("tiny.gguf");
    ASSERT_EQ(helix({"model", "synth", "--shape", "tiny", "--quant", "f16", tiny}).code, 0);
    const Ended made = helix({"model", "quantize", tiny, file("to.gguf"), "--type", "q4_k"});
    ASSERT_EQ(made.code, 0) << made.error;
    EXPECT_THAT(made.error, HasSubstr("no multiple of 256: q5_0 stands in for q4_k"));
    EXPECT_THAT(helix({"model", "info", file("to.gguf")}).out, HasSubstr("q5_0"));
}

TEST_F(QuantizeCommand, RefusesByName) {
    const std::string out = file("out.gguf");
    const auto error = [&](std::vector<std::string> more) {
        std::vector<std::string> words{"model", "quantize", model_, out};
        words.insert(words.end(), more.begin(), more.end());
        const Ended ended = helix(words);
        EXPECT_EQ(ended.code, 1) << ended.out;
        EXPECT_FALSE(std::filesystem::exists(out));
        return ended.error;
    };
    EXPECT_THAT(error({"--type", "q7_k"}), HasSubstr("type \"q7_k\" is unknown"));
    EXPECT_THAT(error({"--type", "tq1_0"}), HasSubstr("type tq1_0: there is no search"));
    EXPECT_THAT(error({"--type", "q4_k", "--tensor", "blk.99.*=q6_k"}),
                HasSubstr("no matrix is called \"blk.99.*\""));
    EXPECT_THAT(error({"--type", "q4_k", "--tensor", "q6_k"}), HasSubstr("expected PATTERN=TYPE"));
    EXPECT_THAT(error({"--type", "q4_k", "--imatrix", text_}), HasSubstr("words.txt: is neither"));
    EXPECT_THAT(error({"--type", "q4_k", "--imatrix", model_}), HasSubstr("general.type is not"));
    std::ofstream(out) << "mine";
    const Ended there = helix({"model", "quantize", model_, out, "--type", "q4_k"});
    EXPECT_EQ(there.code, 1);
    EXPECT_THAT(there.error, HasSubstr("is there already; --force writes over it"));
    EXPECT_EQ(read(out), "mine");
    const std::string again = file("again.gguf");
    ASSERT_EQ(helix({"model", "quantize", model_, out, "--type", "q8_0", "--force"}).code, 0);
    EXPECT_THAT(helix({"model", "quantize", out, again, "--type", "q4_k"}).error,
                HasSubstr("is q8_0 already"));
    EXPECT_EQ(helix({"model", "quantize", out, again, "--type", "q4_k", "--allow-requantize"}).code,
              0);
    EXPECT_EQ(helix({"model", "imatrix", model_, "--text", text_, "--output", out}).code, 1);
    EXPECT_THAT(
        helix({"model", "imatrix", model_, "--text", file("no.txt"), "--output", file("x.imatrix")})
            .error,
        HasSubstr("no.txt"));
    EXPECT_EQ(helix({"model", "quantize", model_, again}).code, 2) << "without --type";
}

}  // namespace
}  // namespace helix::cli::quantize_command_test
