#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "engine/device/device.h"
#include "op_helpers.h"

// Rows of logits for devices to reduce.

namespace helix::engine::test {

struct LogitRows {
    std::int64_t rows = 0;
    std::int64_t vocab = 0;
    std::vector<float> logits;
    std::vector<ops::LogitAt> named;
};

// With equal ones, both zeros, and rows that are broken: a row in three, from the third on.
inline LogitRows random_logits(base::Random& random, std::int64_t rows, std::int64_t vocab) {
    LogitRows made{rows, vocab, {}, {}};
    made.logits = random_floats(random, base::size_of(rows * vocab), 5);
    for (float& logit : made.logits) {
        if (random.chance(0.1)) logit = 7.5F;
        if (random.chance(0.1)) logit = random.chance(0.5) ? 0.0F : -0.0F;
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kBroken[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
    for (std::int64_t row = 2; row < rows; row += 3) {
        for (const float broken : kBroken) {
            const auto at = row * vocab + random.between(0, vocab - 1);
            made.logits[base::at(at)] = broken;
        }
    }
    for (std::int64_t row = rows - 1; row >= 0; --row) {
        for (int i = 0; i < 3; ++i) {
            made.named.push_back({static_cast<std::int32_t>(row),
                                  static_cast<std::int32_t>(random.between(0, vocab - 1))});
        }
    }
    return made;
}

// What the device makes of the rows from first_row on. Where a row is broken, only what holds.
inline std::vector<float> reduced(Device& device, const Buffer& logits, std::int64_t first_row,
                                  const LogitRows& of, int n_top, bool sum) {
    std::vector<ops::LogitAt> named;
    for (ops::LogitAt at : of.named) {
        at.row -= static_cast<std::int32_t>(first_row);
        if (at.row >= 0) named.push_back(at);
    }
    const std::int64_t rows = of.rows - first_row;
    const std::int64_t floats = ops::reduced_floats(rows, n_top, std::ssize(named));
    auto out = device.make_buffer(floats);
    CHECK(out.ok());
    device.reduce_logits({logits, first_row, rows, of.vocab, n_top, sum, named, **out});
    const auto read = device.read(**out, 0, floats);
    CHECK(read.ok());
    std::vector<float> values(read->begin(), read->end());
    const std::int64_t each = ops::ReducedRowAt::floats(n_top);
    for (std::int64_t row = 0; row < rows; ++row) {
        const auto first = values.begin() + row * each;
        if (first[ops::ReducedRowAt::kBroken] >= 0) std::fill(first + 1, first + each, 0.0F);
    }
    return values;
}

}  // namespace helix::engine::test
