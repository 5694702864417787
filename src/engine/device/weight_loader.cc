#include "engine/device/weight_loader.h"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace helix::engine {

base::Result<const model::TensorInfo*> WeightLoader::find(std::string_view name) const {
    const model::TensorInfo* info = source_.file().find_tensor(name);
    if (info == nullptr) {
        return base::Error{base::Errc::not_found, fmt::format("the model has no tensor {}", name)};
    }
    return info;
}

void WeightLoader::expect(std::int64_t bytes) {
    expected_bytes_ = bytes;
    memory_ = nullptr;
}

// Where there are several memory nodes, a matrix has pages of its own: parts of it belong to one
// node or the other.
std::shared_ptr<ops::MatrixMemory> WeightLoader::memory() {
    if (memory_ == nullptr && expected_bytes_ > 0 && !pool_.several_nodes()) {
        auto memory = ops::MatrixMemory::allocate(expected_bytes_);
        if (memory.ok()) memory_ = std::move(*memory);  // otherwise each will ask for its own
    }
    return memory_;
}

base::Result<std::int64_t> WeightLoader::bytes(std::string_view name) const {
    TRY(const model::TensorInfo* info, find(name));
    if (info->shape.size() < 2) return static_cast<std::int64_t>(info->bytes);
    const std::int64_t count = info->shape.size() > 2 ? info->shape[2] : 1;
    return count *
           ops::PackedMatrix::packed_bytes(info->type, info->rows() / count, info->row_length());
}

base::Result<ops::PackedMatrix> WeightLoader::matrix(std::string_view name, std::int64_t rows,
                                                     std::int64_t cols) {
    TRY(const model::TensorInfo* info, find(name));
    if (info->rows() != rows || info->row_length() != cols) {
        return base::invalid(fmt::format("tensor {}: shape {} x {} expected, {} x {} found", name,
                                         rows, cols, info->rows(), info->row_length()));
    }
    TRY(const std::span<const std::byte> data, source_.tensor(name));
    auto packed = ops::PackedMatrix::pack(info->type, rows, cols, data, pool_, memory());
    source_.release(name);
    if (!packed.ok()) {
        return base::Error{packed.error().code,
                           fmt::format("tensor {}: {}", name, packed.error().message)};
    }
    return packed;
}

base::Result<std::vector<ops::PackedMatrix>> WeightLoader::matrices(std::string_view name,
                                                                    std::int64_t count,
                                                                    std::int64_t rows,
                                                                    std::int64_t cols) {
    TRY(const model::TensorInfo* info, find(name));
    if (info->shape != std::vector<std::int64_t>{cols, rows, count}) {
        return base::invalid(fmt::format("tensor {}: shape [{}, {}, {}] expected, [{}] found", name,
                                         cols, rows, count, fmt::join(info->shape, ", ")));
    }
    TRY(const std::span<const std::byte> data, source_.tensor(name));
    const std::size_t each = data.size() / static_cast<std::size_t>(count);
    std::vector<ops::PackedMatrix> all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        auto packed = ops::PackedMatrix::pack(info->type, rows, cols, data.subspan(i * each, each),
                                              pool_, memory());
        if (!packed.ok()) {
            return base::Error{packed.error().code, fmt::format("tensor {}, matrix {}: {}", name, i,
                                                                packed.error().message)};
        }
        all.push_back(std::move(*packed));
    }
    source_.release(name);
    return all;
}

base::Result<std::vector<float>> WeightLoader::vector(std::string_view name, std::int64_t size) {
    TRY(const model::TensorInfo* info, find(name));
    TRY(const std::span<const std::byte> data, source_.tensor(name));
    std::vector<float> values(static_cast<std::size_t>(size));
    if (info->type != model::TensorType::f32 || data.size() != values.size() * sizeof(float)) {
        return base::invalid(fmt::format("tensor {}: {} floats expected, {} bytes of type {} found",
                                         name, size, data.size(),
                                         static_cast<unsigned>(info->type)));
    }
    std::memcpy(values.data(), data.data(), data.size());
    source_.release(name);
    return values;
}

}  // namespace helix::engine
