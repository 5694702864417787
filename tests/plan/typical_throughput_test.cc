#include "plan/problem/typical_throughput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "paper_data.h"
#include "spec/csv_table.h"

namespace helix::plan::typical_throughput_test {
namespace {

using testing::HasSubstr;

const std::string kProfiles = kPaperData + "/profiles";

TEST(TypicalThroughput, EqualsEveryPublishedFigure) {
    std::size_t compared = 0;
    for (const std::string model : {"llama2-70b", "llama1-30b"}) {
        const auto tables = spec::ProfileTables::read(kProfiles, model);
        ASSERT_TRUE(tables.ok()) << tables.error().message;
        for (const std::string mix :
             {"single24", "highhet42", "a100x4", "l4x8", "t4x12", "ablation10"}) {
            SCOPED_TRACE(model + " " + mix);
            const auto counts = read_machine_mix(kProfiles, mix);
            ASSERT_TRUE(counts.ok()) << counts.error().message;
            const auto computed = typical_throughput(*tables, *counts);
            ASSERT_TRUE(computed.ok()) << computed.error().message;
            const auto published = spec::read_node_throughput(kProfiles, model, mix);
            ASSERT_TRUE(published.ok()) << published.error().message;
            ASSERT_EQ(computed->size(), published->size());
            for (const auto& [type, by_layers] : *published) {
                const std::vector<double>& own = computed->at(type);
                ASSERT_EQ(own.size(), by_layers.size()) << type;
                for (std::size_t j = 1; j < own.size(); ++j, ++compared)
                    EXPECT_NEAR(own[j] / by_layers[j], 1, 1e-9) << type << " " << j;
            }
        }
    }
    EXPECT_EQ(compared, 325U);  // every row of both files
}

TEST(TypicalThroughput, DependsOnTheMixAndNotOnItsSize) {
    const auto tables = spec::ProfileTables::read(kProfiles, "llama2-70b");
    ASSERT_TRUE(tables.ok());
    const auto one = typical_throughput(*tables, {{"A100", 40}, {"L4", 80}, {"T4", 120}});
    const auto ten = typical_throughput(*tables, {{"A100", 400}, {"L4", 800}, {"T4", 1200}});
    const auto slow = typical_throughput(*tables, {{"A100", 40}, {"T4", 800}});
    ASSERT_TRUE(one.ok() && ten.ok() && slow.ok());
    for (std::size_t j = 1; j <= 12; ++j)
        EXPECT_NEAR(one->at("A100")[j] / ten->at("A100")[j], 1, 1e-12);
    EXPECT_NE(one->at("A100")[12], slow->at("A100")[12]);
    EXPECT_FALSE(slow->contains("L4"));
}

TEST(TypicalThroughput, ErrorsNameTheTypeAndWhatIsKnown) {
    const auto tables = spec::ProfileTables::read(kProfiles, "llama2-70b");
    ASSERT_TRUE(tables.ok());
    EXPECT_THAT(typical_throughput(*tables, {}).error().message, HasSubstr("empty"));
    EXPECT_THAT(typical_throughput(*tables, {{"T4", 0}}).error().message, HasSubstr("at least 1"));
    const auto unknown = typical_throughput(*tables, {{"T5", 2}});
    EXPECT_THAT(unknown.error().message, HasSubstr("\"T5\""));
    EXPECT_THAT(unknown.error().message, HasSubstr("T4x4"));
    const auto mix = read_machine_mix(kProfiles, "mine");
    EXPECT_EQ(mix.error().code, base::Errc::not_found);
    EXPECT_THAT(mix.error().message, HasSubstr("single24"));
}

TEST(MachineCounts, CountsTypes) {
    spec::ClusterSpec cluster;
    for (const char* type : {"T4", "L4", "T4"})
        cluster.nodes.push_back({.name = "n", .type = type, .region = "", .host = ""});
    EXPECT_EQ(machine_counts(cluster), (MachineCounts{{"L4", 1}, {"T4", 2}}));
}

}  // namespace
}  // namespace helix::plan::typical_throughput_test
