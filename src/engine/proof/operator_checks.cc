#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "base/random.h"
#include "engine/ops/kv_type.h"
#include "engine/proof/device_proof.h"
#include "engine/proof/made_data.h"
#include "model/quant/codes.h"

namespace helix::engine::proof {
namespace {

using model::TensorType;

constexpr ops::KvType kKvTypes[] = {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32,
                                    ops::KvType::q8};

// What one check tries: fixed cases and such that are drawn.
template <typename Case>
Check make_check(std::string name, const std::vector<Case>& cases,
                 Values (*values)(Device&, const Case&, std::uint64_t),
                 std::string (*shape)(const Case&)) {
    Check check;
    check.name = std::move(name);
    for (const Case& c : cases) {
        check.cases.push_back({shape(c), [c, values](Device& device, std::uint64_t seed) {
                                   return values(device, c, seed);
                               }});
    }
    return check;
}

int drawn(base::Random& random, int low, int high) {
    return static_cast<int>(random.between(low, high));
}

std::string matmul_shape(const MatmulCase& c) {
    return fmt::format("{} rows x {} outputs x {} columns{}", c.rows, c.outputs,
                       fitting_cols(c.type, c.cols), c.hostile ? " of no numbers" : "");
}

// Row counts on both sides of what tiles take; columns of one segment, of several, and with a short
// last one.
Check matmul_check(TensorType type, base::Random& random, bool quick) {
    std::vector<MatmulCase> cases = {
        {type, 1, 48, 256}, {type, 2, 5, 32},         {type, 8, 40, 512}, {type, 33, 20, 288},
        {type, 1, 3, 4608}, {type, 4, 16, 256, true}, {type, 7, 33, 800}};
    // Rows of one size of tile, since every size is a program that a device of software is long in
    // compiling.
    if (quick) cases = {cases[2], cases[3]};
    if (!quick) {
        for (const int rows : {9, 17, 64, 65, 130}) cases.push_back({type, rows, 35, 544});
    }
    for (int i = 0; i < (quick ? 1 : 4); ++i) {
        cases.push_back({type, drawn(random, quick ? 8 : 1, 100), drawn(random, 1, 150),
                         std::int64_t{32} * drawn(random, 1, 40)});
    }
    return make_check(fmt::format("matmul {}", model::tensor_type_info(type)->name), cases,
                      matmul_values, matmul_shape);
}

Check experts_check(TensorType type, base::Random& random, bool quick) {
    std::vector<ExpertsCase> cases = {{type, 1, 5, 2, 19, 256}, {type, 31, 5, 2, 19, 256}};
    for (int i = 0; i < (quick ? 0 : 3); ++i) {
        const int n_experts = drawn(random, 2, 24);
        cases.push_back({type, drawn(random, 1, 60), n_experts,
                         drawn(random, 1, std::min(8, n_experts)), drawn(random, 1, 40),
                         std::int64_t{32} * drawn(random, 1, 20)});
    }
    return make_check<ExpertsCase>(
        fmt::format("experts {}", model::tensor_type_info(type)->name), cases, experts_values,
        [](const ExpertsCase& c) {
            return fmt::format("{} rows, {} of {} experts, {} outputs x {} columns", c.rows,
                               c.n_used, c.n_experts, c.outputs, fitting_cols(c.type, c.cols));
        });
}

Check routing_check(base::Random& random) {
    std::vector<RoutingCase> cases;
    for (const bool normalise : {false, true}) {
        cases.push_back({1, 4, 1, normalise});
        cases.push_back({7, 8, 2, normalise});
        cases.push_back({drawn(random, 20, 50), drawn(random, 30, 128), 6, normalise});
        cases.push_back({9, 40, 5, normalise, true});
        cases.push_back({9, 40, 5, normalise, false, true});
        cases.push_back({9, 16, 2, normalise, true, false, true});
        cases.push_back({9, 40, 5, normalise, true, false, false, 8, 3});
    }
    return make_check<RoutingCase>("routing", cases, routing_values, [](const RoutingCase& c) {
        return fmt::format("{} rows, {} of {} experts{}{}{}{}{}", c.rows, c.n_used, c.n_experts,
                           c.normalise ? ", normalised" : "", c.sigmoid ? ", by sigmoid" : "",
                           c.factors ? ", with factors" : "",
                           c.weighted_inputs ? ", weighted inputs" : "",
                           c.n_groups > 1 ? ", in groups" : "");
    });
}

std::string rooms_text(int rooms) {
    return rooms == 1 ? "" : fmt::format(", each in the room of {}", rooms);
}

Check attention_check(ops::KvType type, base::Random& random, bool quick) {
    std::vector<AttentionCase> cases = {
        {type, 1, 1, 8, 4, 1, 1},             // one position
        {type, 4, 2, 16, 16, 37, 37},         // a prompt
        {type, 6, 2, 20, 5, 130, 1},          // over two chunks
        {type, 3, 1, 64, 16, 300, 2},         // over three
        {type, 8, 4, 24, 16, 270, 40},        // many rows
        {type, 4, 4, 32, 16, 290, 3, 100},    // a window that begins within a chunk
        {type, 2, 1, 136, 32, 150, 70, 130},  // many dimensions
        {type, 24, 2, 64, 16, 140, 5},        // more heads of a group than a workgroup takes
        {type, 2, 1, 16, 16, 140, 2, 0, true},
        {type, 64, 64, 8, 16, 140, 128},  // so many rows and heads that chunks are not taken apart
        {type, 4, 2, 16, 16, 150, 9, 0, false, 0.3F, 2.0F},  // capped scores
        {type, 4, 2, 16, 16, 150, 9, 0, false, 0, 0, true},  // sinks
        {type, 4, 2, 32, 16, 300, 1, 20, false, 0, 0, true},
        {type, 6, 2, 56, 16, 140, 3, 0, false, 1.0F, 0, false, 4},  // in the room of four heads
        {type, 4, 2, 16, 16, 300, 40, 70, false, 0, 0, false, 1, true},  // chunks of 70 positions
    };
    if (quick) cases.resize(3);
    for (const int positions : {37, 150}) {  // prompts that attend both ways
        AttentionCase c{type, 4, 4, 16, 16, positions, positions};
        c.both_ways = true;
        cases.push_back(c);
        c.slopes = true;
        cases.push_back(c);
        c.slopes = false;
        c.window = positions / 2;
        cases.push_back(c);
    }
    for (int i = 0; i < (quick ? 1 : 3); ++i) {
        const int kv_heads = drawn(random, 1, 4);
        const int positions = drawn(random, 1, 600);
        cases.push_back({type, kv_heads * drawn(random, 1, 4), kv_heads, 4 * drawn(random, 2, 32),
                         drawn(random, 1, 32), positions, drawn(random, 1, std::min(positions, 40)),
                         random.chance(0.3) ? drawn(random, 1, positions) : 0});
    }
    return make_check<AttentionCase>(
        fmt::format("attention {}", ops::to_string(type)), cases, attention_values,
        [](const AttentionCase& c) {
            return fmt::format(
                "{} rows after {} positions, {} heads, {} key-value heads of {}, blocks of {}, "
                "{} {}{}{}{}",
                c.rows, c.positions - c.rows, c.n_heads, c.n_kv_heads, c.head_dim, c.block_size,
                c.chunked ? "chunks of" : "window", c.window, rooms_text(c.rooms),
                c.both_ways ? ", both ways" : "", c.slopes ? ", with slopes" : "");
        });
}

Check kv_store_check(ops::KvType type, base::Random& random) {
    const std::vector<KvStoreCase> cases = {
        {type, 1, 8, 5},
        {type, 2, 20, 16},
        {type, 4, 64, 7},
        {type, 2, 56, 7, 4},
        {type, drawn(random, 1, 8), 4 * drawn(random, 2, 32), drawn(random, 5, 32)}};
    return make_check<KvStoreCase>(fmt::format("KV store {}", ops::to_string(type)), cases,
                                   kv_store_values, [](const KvStoreCase& c) {
                                       return fmt::format(
                                           "{} key-value heads of {}, blocks of {}{}", c.n_kv_heads,
                                           c.head_dim, c.block_size, rooms_text(c.rooms));
                                   });
}

std::vector<WidthCase> width_cases(base::Random& random) {
    return {{1, 1},    {1, 16},    {3, 5},
            {2, 31},   {7, 64},    {5, 172},
            {2, 2048}, {9, 14592}, {drawn(random, 1, 40), drawn(random, 1, 5000)}};
}

std::string width_shape(const WidthCase& c) {
    return fmt::format("{} rows x {}", c.rows, c.width);
}

Check rope_check(base::Random& random) {
    constexpr auto kAdjacent = model::RopePairs::adjacent;
    constexpr auto kHalves = model::RopePairs::halves;
    const std::vector<RopeCase> cases = {{1, 1, 8, 8, false, false, true, kAdjacent},
                                         {3, 2, 20, 12, true, false, true, kHalves},
                                         {5, 4, 64, 64, false, true, true, kHalves},
                                         {2, 3, 128, 64, true, true, true, kAdjacent},
                                         {2, 3, 96, 96, true, true, false, kAdjacent},
                                         {drawn(random, 1, 40), drawn(random, 1, 16), 128, 128,
                                          random.chance(0.5), random.chance(0.5), true, kHalves}};
    return make_check<RopeCase>("rope", cases, rope_values, [](const RopeCase& c) {
        return fmt::format("{} rows, {} heads of {}, {} of it rotated{}{}", c.rows, c.n_heads,
                           c.head_dim, c.rotate ? c.rope_dim : 0, c.bias ? ", bias" : "",
                           c.norm ? ", norm" : "");
    });
}

}  // namespace

std::vector<Check> operator_checks(std::uint64_t seed, bool quick) {
    base::Random random(seed);
    std::vector<Check> checks;
    for (const TensorType type : kAllTypes) {
        // What looks up a grid is long in compiling, too: a quick proof tries one of them alone.
        const bool has_codes = model::quant::find_decoder(type) != nullptr;
        if (quick && has_codes && type != TensorType::iq3_s) continue;
        checks.push_back(matmul_check(type, random, quick));
    }
    for (const ops::KvType type : kKvTypes) {
        checks.push_back(kv_store_check(type, random));
        checks.push_back(attention_check(type, random, quick));
    }
    checks.push_back(make_check("RMS norm", width_cases(random), rms_norm_values, width_shape));
    checks.push_back(
        make_check<WidthCase>("LayerNorm", {{3, 5}, {7, 160}}, layer_norm_values, width_shape));
    checks.push_back(make_check<WidthCase>("clamped SwiGLU", {{3, 5}, {7, 160}},
                                           clamped_swiglu_values, width_shape));
    checks.push_back(
        make_check<WidthCase>("biases", {{3, 5}, {9, 160}}, add_bias_values, width_shape));
    checks.push_back(make_check<WidthCase>("GeGLU", {{3, 5}, {7, 160}}, geglu_values, width_shape));
    checks.push_back(make_check<WidthCase>("ReGLU", {{3, 5}, {7, 160}}, reglu_values, width_shape));
    checks.push_back(
        make_check<WidthCase>("exact GeGLU", {{3, 5}, {7, 160}}, exact_geglu_values, width_shape));
    checks.push_back(make_check<WidthCase>("GELU", {{3, 5}, {7, 160}}, gelu_values, width_shape));
    checks.push_back(
        make_check<WidthCase>("scaled rows", {{3, 5}, {7, 160}}, scale_rows_values, width_shape));
    checks.push_back(make_check("SwiGLU", width_cases(random), swiglu_values, width_shape));
    checks.push_back(rope_check(random));
    checks.push_back(
        make_check<WidthCase>("sum of rows", {{1, 5}, {9, 1024}}, add_rows_values, width_shape));
    checks.push_back(
        make_check<WidthCase>("copy of rows", {{6, 5}, {9, 1024}}, copy_rows_values, width_shape));
    checks.push_back(routing_check(random));
    // One format for each way of scaling.
    for (const TensorType type :
         {TensorType::bf16, TensorType::q8_0, TensorType::q4_k, TensorType::q6_k})
        checks.push_back(experts_check(type, random, quick));
    return checks;
}

}  // namespace helix::engine::proof
