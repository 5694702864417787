#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/index.h"
#include "base/random.h"
#include "engine/measure/kernel_speed.h"
#include "engine/proof/made_data.h"

namespace helix::engine::measure {
namespace {

// Rows that are drawn and quantised; a matrix has them again and again.
constexpr std::int64_t kDrawnRows = 64;
constexpr std::int64_t kMostMatrices = 256;
constexpr std::size_t kOutputs = 2;  // that are written in turn

// Two from each number that is drawn, since there may be many millions.
std::vector<float> uniform_floats(base::Random& random, std::int64_t n) {
    std::vector<float> values(base::size_of(n));
    for (std::size_t i = 0; i < values.size(); i += 2) {
        const std::uint64_t bits = random.next();
        values[i] = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F;
        if (i + 1 < values.size())
            values[i + 1] = static_cast<float>(static_cast<std::int32_t>(bits >> 32U)) * 0x1p-31F;
    }
    return values;
}

}  // namespace

base::Result<RotatedMatrices> RotatedMatrices::create(Device& device, model::TensorType type,
                                                      std::int64_t outputs, std::int64_t cols,
                                                      std::int64_t bytes, std::uint64_t seed) {
    RotatedMatrices made(device, outputs, cols, seed);
    base::Random random(seed);
    const std::int64_t drawn = std::min(outputs, kDrawnRows);
    const std::vector<std::byte> some =
        proof::random_matrix(random, type, base::size_of(drawn), base::size_of(cols)).bytes;
    const model::TensorTypeInfo& info = *model::tensor_type_info(type);
    std::vector<std::byte> stored(
        base::size_of(outputs * cols / info.block_size * info.block_bytes));
    for (std::size_t at = 0; at < stored.size(); at += some.size())
        std::copy_n(some.begin(), std::min(some.size(), stored.size() - at), &stored[at]);
    made.stored_bytes_ = static_cast<double>(stored.size());
    const MatrixShape shape{type, 1, outputs, cols};
    const std::int64_t each = device.matrix_bytes(shape);
    const std::int64_t count =
        std::clamp<std::int64_t>((bytes + each - 1) / each, 2, kMostMatrices);
    device.expect_matrices(count * each);
    for (std::int64_t i = 0; i < count; ++i) {
        TRY(auto matrix, device.make_matrix(shape, stored));
        made.matrices_.push_back(std::move(matrix));
    }
    device.expect_matrices(0);
    return made;
}

base::Result<Timing> RotatedMatrices::time(std::int64_t rows, double budget_s) {
    base::Random random(base::hash_pair(seed_, static_cast<std::uint64_t>(rows)));
    TRY(const auto x, filled_buffer(*device_, uniform_floats(random, rows * cols_)));
    std::vector<std::unique_ptr<Buffer>> outputs;
    for (std::size_t i = 0; i < kOutputs; ++i) {
        TRY(auto y, proof::poisoned_buffer(*device_, rows * outputs_));
        outputs.push_back(std::move(y));
    }
    TRY(const Timing timing, time_calls(budget_s, [&](std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i) {
                ++next_;
                const ops::Projection one[] = {
                    {*matrices_[next_ % matrices_.size()], *outputs[next_ % kOutputs], false}};
                device_->matmul({*x, rows, one});
            }
            return wait_for(*device_, *outputs[next_ % kOutputs]);
        }));
    std::vector<float> computed;
    TRY_VOID(proof::read_all(*device_, *outputs[next_ % kOutputs], computed));
    if (std::any_of(computed.begin(), computed.end(), [](float y) { return std::isnan(y); })) {
        return base::Error{base::Errc::internal,
                           fmt::format("a product of {} rows with {} x {} was not computed", rows,
                                       outputs_, cols_)};
    }
    return timing;
}

}  // namespace helix::engine::measure
