#include "engine/runner/host_floats.h"

#include <cstddef>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"

namespace helix::engine {

base::Result<std::vector<float>> first_floats(model::WeightSource& source, const char* name,
                                              std::int64_t count) {
    const model::TensorInfo* info = source.file().find_tensor(name);
    CHECK(info != nullptr && info->type == model::TensorType::f32);
    TRY(const std::span<const std::byte> bytes, source.tensor(name));
    std::vector<float> values(base::size_of(count));
    const std::size_t size = values.size() * sizeof(float);
    const bool there = bytes.size() >= size;
    if (there) std::memcpy(values.data(), bytes.data(), size);
    source.release(name);
    if (there) return values;
    return base::invalid(
        fmt::format("tensor {}: {} bytes expected, {} found", name, size, info->bytes));
}

double add_products(double sum, std::span<const float> row, std::span<const double> x) {
    CHECK(row.size() == x.size());
    for (std::size_t i = 0; i < row.size(); ++i) sum += static_cast<double>(row[i]) * x[i];
    return sum;
}

}  // namespace helix::engine
