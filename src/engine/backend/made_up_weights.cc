#include "engine/backend/made_up_weights.h"

#include <cstddef>

#include <fmt/format.h>

#include "base/random.h"
#include "model/tensor_type.h"

namespace helix::engine {
namespace {

// Random rows: rows that are all the same would send every token to the same experts.
void make_up_router(const model::TensorInfo& info, std::vector<std::byte>& bytes) {
    base::Random random(1);
    std::vector<float> values(static_cast<std::size_t>(info.row_length() * info.rows()));
    for (float& value : values) value = static_cast<float>(random.uniform()) - 0.5F;
    model::quantize_row(info.type, values, bytes.data());
}

}  // namespace

base::Result<std::span<const std::byte>> MadeUpWeights::tensor(std::string_view name) {
    const model::TensorInfo* info = file().find_tensor(name);
    if (info == nullptr) {
        return base::Error{base::Errc::not_found, fmt::format("the model has no tensor {}", name)};
    }
    std::vector<std::byte>& bytes = made_[info->name];
    bytes.assign(info->bytes, std::byte{0x3c});
    if (info->name.ends_with("ffn_gate_inp.weight")) make_up_router(*info, bytes);
    return std::span<const std::byte>(bytes);
}

}  // namespace helix::engine
