// The types of KV memory that `helix plan`, `simulate` and `serve` are asked for.

#include "cli/kv_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "own_folder.h"
#include "paper_data.h"
#include "spec/placement_file.h"

namespace helix::cli::kv_option_test {
namespace {

using spec::KvType;
using ::testing::HasSubstr;

constexpr const char* kCluster = R"(name = "one"
[[machines]]
name = "only"
type = "RTX 4090"
[links]
default = {bandwidth = "10 Gbit/s", latency = "50 us"}
)";

class KvOption : public OwnFolder {
  protected:
    void SetUp() override {
        OwnFolder::SetUp();
        std::ofstream(cluster_) << kCluster;
    }
    struct Said {
        int code = 0;
        std::string out;
        std::string err;
    };
    // `helix COMMAND CLUSTER --model MODEL ...`
    Said said(const std::string& command, const std::vector<std::string>& more) const {
        std::vector<std::string> words = {"helix", command, cluster_, "--model", model_};
        words.insert(words.end(), more.begin(), more.end());
        std::vector<const char*> argv;
        for (const std::string& word : words) argv.push_back(word.c_str());
        ::testing::internal::CaptureStderr();
        ::testing::internal::CaptureStdout();
        Said said;
        said.code = run(static_cast<int>(argv.size()), argv.data());
        said.out = ::testing::internal::GetCapturedStdout();
        said.err = ::testing::internal::GetCapturedStderr();
        return said;
    }
    Said plan(std::vector<std::string> more) const {
        more.insert(more.end(), {"--budget", "1s", "--judge", "none"});
        return said("plan", more);
    }
    Said simulate(std::vector<std::string> more) const {
        more.insert(more.end(), {"--warmup", "0s", "--duration", "60s", "--json"});
        return said("simulate", more);
    }

    std::string cluster_ = folder_ + "/cluster.toml";
    std::string model_ = "llama3-8b";
    std::string plan_ = folder_ + "/plan.json";
};

TEST_F(KvOption, ListsNameKnownTypesOnceEach) {
    EXPECT_EQ(parse_kv_list("--kv-types", "f16,q8").value(),
              (std::vector<KvType>{KvType::f16, KvType::q8}));
    EXPECT_TRUE(parse_kv_list("--kv-types", "").value().empty());
    EXPECT_EQ(parse_kv_list("--kv-types", "q8,q4").error().message,
              "--kv-types: KV cache type 'q4': expected f16, bf16, f32 or q8");
    EXPECT_EQ(parse_kv_list("--kv-types", "q8,").error().message,
              "--kv-types: KV cache type '': expected f16, bf16, f32 or q8");
    EXPECT_EQ(parse_kv_list("--kv-types", "q8,f16,q8").error().message,
              "--kv-types: q8 comes twice");
}

TEST_F(KvOption, ServeKeepsToThePlansType) {
    EXPECT_EQ(served_kv("", "").value(), KvType::f16);
    EXPECT_EQ(served_kv("bf16", "").value(), KvType::bf16);
    spec::PlacementFile file;
    file.n_layers = 2;
    file.placement.layers = {{0, 2}};
    ASSERT_TRUE(spec::write_placement_file(plan_, file).ok());
    EXPECT_EQ(served_kv("", plan_).value(), KvType::f16) << "the file says nothing of it";
    EXPECT_EQ(served_kv("q8", plan_).value(), KvType::q8);
    file.kv_type = KvType::q8;
    ASSERT_TRUE(spec::write_placement_file(plan_, file).ok());
    EXPECT_EQ(served_kv("", plan_).value(), KvType::q8);
    EXPECT_EQ(served_kv("q8", plan_).value(), KvType::q8);
    EXPECT_EQ(served_kv("f16", plan_).error().message,
              "--kv f16: " + plan_ + " is planned for KV in q8");
    EXPECT_FALSE(served_kv("", folder_ + "/none.json").ok());
}

TEST_F(KvOption, APlansTypeGoesWithItsFile) {
    const Said planned = plan({"--kv-types", "f16,q8", "--output", plan_, "--json"});
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_EQ(nlohmann::json::parse(planned.out)["kv_type"], "q8");
    EXPECT_EQ(spec::read_placement_file(plan_)->kv_type, KvType::q8);

    const Said kept = simulate({"--placement", plan_});
    ASSERT_EQ(kept.code, 0) << kept.err;
    EXPECT_EQ(simulate({"--placement", plan_, "--kv", "q8"}).out, kept.out);
    const Said other = simulate({"--placement", plan_, "--kv", "f16"});
    EXPECT_NE(other.code, 0);
    EXPECT_THAT(other.err, HasSubstr(plan_ + ": is planned for KV in q8, not in f16"));

    const Said near = plan({"--current", plan_, "--json"});
    ASSERT_EQ(near.code, 0) << near.err;
    EXPECT_EQ(nlohmann::json::parse(near.out)["kv_type"], "q8");
    const Said changed = plan({"--current", plan_, "--kv-types", "f16"});
    EXPECT_NE(changed.code, 0);
    EXPECT_THAT(changed.err, HasSubstr("is planned for KV in q8, not in f16"));
    const Said manual = plan({"--method", "manual", "--placement", plan_, "--json"});
    ASSERT_EQ(manual.code, 0) << manual.err;
    EXPECT_EQ(nlohmann::json::parse(manual.out)["kv_type"], "q8");
}

TEST_F(KvOption, WithoutItAPlanSaysNothingOfTypes) {
    const Said planned = plan({"--output", plan_, "--json"});
    ASSERT_EQ(planned.code, 0) << planned.err;
    EXPECT_FALSE(nlohmann::json::parse(planned.out).contains("kv_type"));
    EXPECT_FALSE(spec::read_placement_file(plan_)->kv_type);
    // Twice the memory and half the bytes to read: the same plan serves more.
    const auto tokens = [&](const char* type) {
        const Said served = simulate({"--placement", plan_, "--kv", type});
        EXPECT_EQ(served.code, 0) << served.err;
        return served.code == 0 ? served.out : served.err;
    };
    EXPECT_NE(tokens("f16"), tokens("q8"));
}

TEST_F(KvOption, QuestionsOfOneTypeRefuseSeveral) {
    const std::vector<std::vector<std::string>> questions = {
        {"--advise", "1"},
        {"--add", "L4"},
        {"--current", plan_},
        {"--method", "manual", "--placement", plan_}};
    for (std::vector<std::string> words : questions) {
        words.insert(words.end(), {"--kv-types", "f16,q8"});
        const Said refused = plan(words);
        EXPECT_NE(refused.code, 0);
        EXPECT_THAT(refused.err, HasSubstr("--kv-types: one type only, with ")) << words.front();
    }
}

TEST_F(KvOption, MeasuredTablesAreOfOneType) {
    cluster_ = kPaperData + "/clusters/single24.json";
    model_ = "llama2-70b";
    const Said refused = plan({"--profiles", kPaperData + "/profiles", "--kv-types", "q8"});
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.err, HasSubstr("KV in q8: not with --profiles"));
}

}  // namespace
}  // namespace helix::cli::kv_option_test
