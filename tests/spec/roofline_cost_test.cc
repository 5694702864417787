#include "spec/roofline_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "paper_data.h"
#include "spec/csv_table.h"
#include "spec/model_shape.h"
#include "spec/profile_tables.h"

namespace helix::spec::roofline_cost_test {
namespace {

using testing::HasSubstr;

ModelSpec llama70b() {
    return *find_model("llama2-70b", WeightFormat::f16);
}

TEST(RooflineCost, DecodesReadTheWeightsAndPromptsCompute) {
    const MachineType type = *find_machine_type("A100");
    const ModelSpec model = llama70b();
    EXPECT_EQ(RooflineCost::layer_s(type, model, 879, 0, 0), 0);
    const double one = RooflineCost::layer_s(type, model, 0, 1, 0);
    const double weights_s = static_cast<double>(model.layer_bytes) / (0.85 * 1555e9);
    EXPECT_NEAR(one, weights_s + 50e-6, 0.01e-3);
    const double prompt = RooflineCost::layer_s(type, model, 0, 0, 4000);
    EXPECT_NEAR(prompt, 4000 * model.flops_per_token_layer / (0.78 * 312e12) + 50e-6, 1e-6);
    // Context costs its KV, and a prompt beside decodes shares their reading of weights.
    EXPECT_NEAR(RooflineCost::layer_s(type, model, 1000, 100, 0) -
                    RooflineCost::layer_s(type, model, 0, 100, 0),
                100 * 1000 * 4096 / 1555e9, 1e-9);
    EXPECT_LT(RooflineCost::layer_s(type, model, 879, 8, 100),
              RooflineCost::layer_s(type, model, 879, 8, 0) +
                  RooflineCost::layer_s(type, model, 879, 0, 100));
}

TEST(RooflineCost, QuantisedWeightsDecodeFaster) {
    const MachineType type = *find_machine_type("RTX 3060");
    const double half = RooflineCost::layer_s(type, llama70b(), 879, 1, 0);
    const ModelSpec quantised = *find_model("llama2-70b", WeightFormat::q4_0);
    const double quarter = RooflineCost::layer_s(type, quantised, 879, 1, 0);
    EXPECT_GT(half / quarter, 3);
    EXPECT_LT(half / quarter, 2 / 0.5625);  // overhead and KV stay
}

TEST(RooflineCost, MeasurementsWinAndUnknownTypesAreNamed) {
    NodeSpec node;
    node.name = "n";
    node.type = "abacus";
    node.decode_s_per_layer = 1e-3;
    node.decode_batch_s_per_layer = 2e-3;
    node.prefill_s_per_token_layer = 1e-4;
    ClusterSpec cluster{.name = "c", .nodes = {node}, .links = {}};
    const auto measured = RooflineCost::make(cluster, llama70b());
    ASSERT_TRUE(measured.ok()) << measured.error().message;
    EXPECT_DOUBLE_EQ(measured->layer_s(node, 1, 0), 1e-3);
    cluster.nodes[0].prefill_s_per_token_layer = 0;
    const auto unknown = RooflineCost::make(cluster, llama70b());
    EXPECT_THAT(unknown.error().message, HasSubstr("node n: has no measurements"));
    EXPECT_THAT(unknown.error().message, HasSubstr("\"abacus\""));
    cluster.nodes[0].type = "L4";
    const auto known = RooflineCost::make(cluster, llama70b(), 500);
    ASSERT_TRUE(known.ok()) << known.error().message;
    EXPECT_DOUBLE_EQ(known->layer_s(cluster.nodes[0], 3, 7),
                     RooflineCost::layer_s(*find_machine_type("L4"), llama70b(), 500, 3, 7));
    ModelSpec empty;
    EXPECT_THAT(RooflineCost::make(cluster, empty).error().message, HasSubstr("size and work"));
}

struct Error {
    double sum = 0;
    double worst = 0;
    int points = 0;
    double mean() const { return sum / points; }
};

// The error against the points of one measured curve, as far as the published simulator uses it.
Error curve_error(const std::string& path, const MachineType& type, const ModelSpec& model,
                  bool decode) {
    const auto table = CsvTable::read(path, {"batch_tokens", "one_layer_time_ms"});
    EXPECT_TRUE(table.ok());
    Error error;
    for (std::size_t row = 0; row < table->n_rows(); ++row) {
        const auto x = static_cast<std::int32_t>(*table->number(row, 0));
        if (x == 0 || x > (decode ? 480 : 6144)) continue;
        const double measured_s = *table->number(row, 1) / 1e3;
        const double s = RooflineCost::layer_s(type, model, 879, decode ? x : 0, decode ? 0 : x);
        error.sum += std::abs(s / measured_s - 1);
        error.worst = std::max(error.worst, std::abs(s / measured_s - 1));
        ++error.points;
    }
    return error;
}

TEST(RooflineCost, IsNearTheMeasuredTables) {
    const std::string profiles = kPaperData + "/profiles";
    std::printf("%-11s %-5s %18s %18s\n", "model", "type", "decode mean/worst",
                "prompt mean/worst");
    double sum = 0;
    int curves = 0;
    for (const std::string name : {"llama2-70b", "llama1-30b"}) {
        ModelSpec model = *find_model(name, WeightFormat::f16);
        model.activation_bytes_per_token /= 2;  // these machines reduce 16-bit numbers
        for (const std::string type : {"T4", "T4x2", "T4x4", "L4", "L4x2", "V100", "A100"}) {
            const std::string stem = profiles + "/" + name + "_" + type + "_";
            const MachineType machine = *find_machine_type(type);
            const Error decode = curve_error(stem + "decode_time.csv", machine, model, true);
            const Error prompt = curve_error(stem + "prompt_time.csv", machine, model, false);
            std::printf("%-11s %-5s %9.1f %% %4.0f %% %9.1f %% %4.0f %%\n", name.c_str(),
                        type.c_str(), 100 * decode.mean(), 100 * decode.worst, 100 * prompt.mean(),
                        100 * prompt.worst);
            EXPECT_LT(decode.mean(), 0.12) << name << " " << type;
            EXPECT_LT(prompt.mean(), 0.09) << name << " " << type;
            sum += decode.mean() + prompt.mean();
            curves += 2;
        }
    }
    EXPECT_LT(sum / curves, 0.06);
}

}  // namespace
}  // namespace helix::spec::roofline_cost_test
