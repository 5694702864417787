#include "engine/device/weight_loader.h"

#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.h"

namespace helix::engine {
namespace {

base::Result<std::vector<float>> read_floats(model::WeightSource& source,
                                             const model::TensorInfo& info, std::int64_t size) {
    TRY(const std::span<const std::byte> data, source.tensor(info.name));
    std::vector<float> values(base::size_of(size));
    if (info.type != model::TensorType::f32 || data.size() != values.size() * sizeof(float)) {
        return base::invalid(fmt::format("tensor {}: {} floats expected, {} bytes of type {} found",
                                         info.name, size, data.size(),
                                         static_cast<unsigned>(info.type)));
    }
    std::memcpy(values.data(), data.data(), data.size());
    source.release(info.name);
    return values;
}

}  // namespace

base::Result<std::vector<float>> read_factors(model::WeightSource& source,
                                              const model::TensorInfo& matrices) {
    const std::string name = model::factor_tensor(matrices.type, matrices.name);
    const model::TensorInfo* info = source.file().find_tensor(name);
    if (info == nullptr) return std::vector<float>();
    return read_floats(source, *info, matrices.shape.size() > 2 ? matrices.shape[2] : 1);
}

base::Result<const model::TensorInfo*> WeightLoader::find(std::string_view name) const {
    const model::TensorInfo* info = source_.file().find_tensor(name);
    if (info == nullptr) {
        return base::Error{base::Errc::not_found, fmt::format("the model has no tensor {}", name)};
    }
    return info;
}

base::Result<std::int64_t> WeightLoader::bytes(std::string_view name) const {
    TRY(const model::TensorInfo* info, find(name));
    if (model::is_vector(name, info->shape.size()))
        return device_.buffer_bytes(info->row_length() * info->rows());
    const std::int64_t count = info->shape.size() > 2 ? info->shape[2] : 1;
    return device_.matrix_bytes({info->type, count, info->rows() / count, info->row_length()});
}

std::int64_t WeightLoader::vector_bytes(std::int64_t size) const {
    return device_.buffer_bytes(size);
}

base::Result<std::int64_t> WeightLoader::split_bytes(std::string_view name,
                                                     std::span<const std::int64_t> rows) const {
    TRY(const model::TensorInfo* info, find(name));
    const std::int64_t count = info->shape.size() > 2 ? info->shape[2] : 1;
    std::int64_t sum = 0;
    for (const std::int64_t n : rows)
        sum += device_.matrix_bytes({info->type, count, n, info->row_length()});
    return sum;
}

base::Result<std::unique_ptr<Matrix>> WeightLoader::make(const model::TensorInfo& info,
                                                         MatrixShape shape) {
    TRY(shape.factors, read_factors(source_, info));
    TRY(const std::span<const std::byte> data, source_.tensor(info.name));
    auto made = device_.make_matrix(shape, data);
    source_.release(info.name);
    if (!made.ok()) {
        return base::Error{made.error().code,
                           fmt::format("tensor {}: {}", info.name, made.error().message)};
    }
    device_.name_matrix(**made, info.name);
    return made;
}

base::Result<std::vector<std::unique_ptr<Matrix>>> WeightLoader::split_matrices(
    std::string_view name, std::int64_t count, std::span<const std::int64_t> rows,
    std::int64_t cols) {
    TRY(const model::TensorInfo* info, find(name));
    const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    if (info->rows() != count * all || info->row_length() != cols) {
        return base::invalid(fmt::format("tensor {}: shape {} x {} expected, {} x {} found", name,
                                         count * all, cols, info->rows(), info->row_length()));
    }
    TRY(const std::vector<float> factors, read_factors(source_, *info));
    TRY(const std::span<const std::byte> data, source_.tensor(name));
    const std::int64_t row_bytes = std::ssize(data) / (count * all);
    std::vector<std::unique_ptr<Matrix>> parts;
    base::Status status = base::Ok{};
    std::int64_t first = 0;
    for (const std::int64_t n : rows) {
        const auto of = [&](std::int64_t i) {
            return data.subspan(base::size_of((i * all + first) * row_bytes),
                                base::size_of(n * row_bytes));
        };
        std::vector<std::byte> together;  // of several experts
        if (count > 1) together.reserve(base::size_of(count * n * row_bytes));
        for (std::int64_t i = 0; count > 1 && i < count; ++i)
            together.insert(together.end(), of(i).begin(), of(i).end());
        auto made = device_.make_matrix({info->type, count, n, cols, factors},
                                        count > 1 ? std::span<const std::byte>(together) : of(0));
        first += n;
        if (made.ok()) {
            device_.name_matrix(**made, name);
            parts.push_back(std::move(*made));
        } else if (status.ok()) {
            status = base::Error{made.error().code,
                                 fmt::format("tensor {}: {}", name, made.error().message)};
        }
    }
    source_.release(name);
    TRY_VOID(std::move(status));
    return parts;
}

base::Result<std::unique_ptr<Matrix>> WeightLoader::matrix(std::string_view name, std::int64_t rows,
                                                           std::int64_t cols) {
    TRY(const model::TensorInfo* info, find(name));
    if (info->rows() != rows || info->row_length() != cols) {
        return base::invalid(fmt::format("tensor {}: shape {} x {} expected, {} x {} found", name,
                                         rows, cols, info->rows(), info->row_length()));
    }
    return make(*info, {info->type, 1, rows, cols});
}

base::Result<std::unique_ptr<Matrix>> WeightLoader::matrices(std::string_view name,
                                                             std::int64_t count, std::int64_t rows,
                                                             std::int64_t cols) {
    TRY(const model::TensorInfo* info, find(name));
    if (info->shape != std::vector<std::int64_t>{cols, rows, count}) {
        return base::invalid(fmt::format("tensor {}: shape [{}, {}, {}] expected, [{}] found", name,
                                         cols, rows, count, fmt::join(info->shape, ", ")));
    }
    return make(*info, {info->type, count, rows, cols});
}

base::Result<std::vector<float>> WeightLoader::floats(std::string_view name, std::int64_t size) {
    TRY(const model::TensorInfo* info, find(name));
    return read_floats(source_, *info, size);
}

base::Result<float> WeightLoader::number(std::string_view name) {
    TRY(const std::vector<float> values, floats(name, 1));
    return values[0];
}

base::Result<std::unique_ptr<Buffer>> WeightLoader::vector(std::string_view name, std::int64_t size,
                                                           float factor) {
    TRY(std::vector<float> values, floats(name, size));
    for (float& value : values) value *= factor;
    return filled_buffer(device_, values);
}

base::Result<std::vector<std::unique_ptr<Buffer>>> WeightLoader::split_vectors(
    std::string_view name, std::span<const std::int64_t> sizes) {
    const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    TRY(const std::vector<float> values, floats(name, all));
    std::vector<std::unique_ptr<Buffer>> parts;
    std::size_t first = 0;
    for (const std::int64_t size : sizes) {
        TRY(auto part,
            filled_buffer(device_, std::span(values).subspan(first, base::size_of(size))));
        parts.push_back(std::move(part));
        first += base::size_of(size);
    }
    return parts;
}

}  // namespace helix::engine
