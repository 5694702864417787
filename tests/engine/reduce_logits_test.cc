// What devices reduce rows of logits to: the CPU's against plain loops, several devices' against
// one's.

#include "engine/ops/reduce_logits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_device.h"
#include "engine/device/device_group.h"
#include "logit_rows.h"
#include "numerics_reference.h"

namespace helix::engine::test::reduce_logits_test {
namespace {

std::unique_ptr<Device> make_cpu(std::optional<ops::Isa> isa = {}) {
    model::ModelConfig config;
    config.n_kv_heads = 1;
    auto device = CpuDevice::create({.threads = 1, .cpus = {}, .ranks = 1, .isa = isa}, config);
    CHECK(device.ok());
    return std::move(*device);
}

std::vector<float> by_definition(const LogitRows& of, int n_top, bool sum) {
    std::vector<float> values;
    for (std::int64_t r = 0; r < of.rows; ++r) {
        const auto row = std::span(of.logits).subspan(base::at(r * of.vocab), base::at(of.vocab));
        const auto broken =
            std::find_if_not(row.begin(), row.end(), [](float x) { return std::isfinite(x); });
        if (broken != row.end()) {
            values.push_back(static_cast<float>(broken - row.begin()));
            values.resize(values.size() + base::size_of(1 + 2 * n_top));
            continue;
        }
        std::vector<std::size_t> order(row.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
        order.resize(base::size_of(n_top));
        values.push_back(-1);
        values.push_back(sum ? numerics::logit_weights(row, 256) : 0.0F);
        for (const std::size_t token : order) values.push_back(row[token]);
        for (const std::size_t token : order) values.push_back(static_cast<float>(token));
    }
    for (const ops::LogitAt& at : of.named)
        values.push_back(of.logits[base::at(at.row * of.vocab + at.token)]);
    return values;
}

TEST(ReduceLogits, TheCpusAreTheDefinitionBitByBit) {
    base::Random random(101);
    for (const std::int64_t vocab : {1, 5, 255, 256, 257, 3000, 33001}) {
        const LogitRows rows = random_logits(random, 5, vocab);
        for (const int wanted : {1, 2, 40, 128}) {
            const int n_top = static_cast<int>(std::min<std::int64_t>(wanted, vocab));
            const bool sum = wanted != 2;
            const auto expected = by_definition(rows, n_top, sum);
            for (const ops::Isa isa : machine_isas()) {
                const auto device = make_cpu(isa);
                auto logits = device->make_buffer(std::ssize(rows.logits));
                ASSERT_TRUE(logits.ok() && device->write(**logits, 0, rows.logits).ok());
                const auto got = reduced(*device, **logits, 0, rows, n_top, sum);
                EXPECT_TRUE(same_bits(got, expected))
                    << ops::to_string(isa) << ", the greatest " << n_top << " of " << vocab;
            }
        }
    }
}

// The logits are products, so that each rank has its part of a row.
TEST(ReduceLogits, AGroupsAreThoseOfOneDevice) {
    constexpr std::int64_t kRows = 4, kWidth = 32;
    base::Random random(102);
    for (const std::int64_t vocab : {64, 397, 1501}) {
        const auto x = random_floats(random, base::size_of(kRows * kWidth));
        auto weights = random_floats(random, base::size_of(vocab * kWidth));
        std::copy_n(weights.begin(), kWidth, weights.end() - kWidth);  // equal logits
        LogitRows rows = random_logits(random, kRows, vocab);
        const auto product = [&](Device& device) {
            auto matrix = device.make_matrix({TensorType::f32, 1, vocab, kWidth},
                                             std::as_bytes(std::span(weights)));
            auto from = device.make_buffer(std::ssize(x));
            auto to = device.make_buffer(kRows * vocab);
            CHECK(matrix.ok() && from.ok() && to.ok());
            CHECK(device.write(**from, 0, x).ok());
            const ops::Projection projection[] = {{**matrix, **to}};
            device.matmul({**from, kRows, projection});
            return std::move(*to);
        };
        const auto one = make_cpu();
        const auto expected = product(*one);
        for (const int ranks : {1, 2, 3}) {
            std::vector<std::unique_ptr<Device>> devices;
            for (int rank = 0; rank < ranks; ++rank) devices.push_back(make_cpu());
            DeviceGroup group(std::move(devices));
            for (const bool sum : {false, true}) {
                for (const int n_top : {1, 30, 64}) {
                    const auto logits = product(group);
                    EXPECT_TRUE(same_bits(reduced(group, *logits, 1, rows, n_top, sum),
                                          reduced(*one, *expected, 1, rows, n_top, sum)))
                        << ranks << " ranks, the greatest " << n_top << " of " << vocab;
                    // Afterwards rows are there as before.
                    const auto row = group.read(*logits, 2 * vocab, vocab);
                    const auto same = one->read(*expected, 2 * vocab, vocab);
                    ASSERT_TRUE(row.ok() && same.ok());
                    EXPECT_TRUE(same_bits(*row, *same));
                }
            }
        }
    }
}

TEST(ReduceLogits, AGroupSaysTheFirstBrokenLogitOfAllItsRanks) {
    constexpr std::int64_t kVocab = 90;
    std::vector<std::unique_ptr<Device>> devices;
    for (int rank = 0; rank < 3; ++rank) devices.push_back(make_cpu());
    DeviceGroup group(std::move(devices));
    std::vector<float> weights(kVocab, 1.0F);
    weights[88] = weights[47] = std::numeric_limits<float>::quiet_NaN();
    auto matrix = group.make_matrix({TensorType::f32, 1, kVocab, 1},
                                    std::as_bytes(std::span<const float>(weights)));
    auto from = group.make_buffer(1);
    auto to = group.make_buffer(kVocab);
    auto out = group.make_buffer(ops::reduced_floats(1, 40, 0));
    ASSERT_TRUE(matrix.ok() && from.ok() && to.ok() && out.ok());
    const float x[] = {2};
    ASSERT_TRUE(group.write(**from, 0, x).ok());
    const ops::Projection projection[] = {{**matrix, **to}};
    group.matmul({**from, 1, projection});
    group.reduce_logits({**to, 0, 1, kVocab, 40, false, {}, **out});
    const auto read = group.read(**out, 0, 1);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->front(), 47);
}

}  // namespace
}  // namespace helix::engine::test::reduce_logits_test
