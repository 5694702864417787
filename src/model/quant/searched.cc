#include "model/quant/searched.h"

#include <cstring>
#include <vector>

#include "base/check.h"

namespace helix::model::quant {
namespace {

struct Row {
    TensorType type;
    Search search;
};
constexpr Row kRows[] = {
    {TensorType::q8_0, search_q8_0},       {TensorType::q4_0, search_q4_0},
    {TensorType::q4_1, search_q4_1},       {TensorType::q5_0, search_q5_0},
    {TensorType::q5_1, search_q5_1},       {TensorType::iq4_nl, search_iq4_nl},
    {TensorType::q2_k, search_q2_k},       {TensorType::q3_k, search_q3_k},
    {TensorType::q4_k, search_q4_k},       {TensorType::q5_k, search_q5_k},
    {TensorType::q6_k, search_q6_k},       {TensorType::iq4_xs, search_iq4_xs},
    {TensorType::iq2_xxs, search_iq2_xxs}, {TensorType::iq2_xs, search_iq2_xs},
    {TensorType::iq2_s, search_iq2_s},     {TensorType::iq3_xxs, search_iq3_xxs},
    {TensorType::iq3_s, search_iq3_s},
};

double error_of(std::span<const float> values, std::span<const float> weights,
                std::span<const float> stored) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double off = double{values[i]} - double{stored[i]};
        sum += double{weights[i]} * off * off;
    }
    return sum;
}

}  // namespace

Search find_search(TensorType type) {
    for (const Row& row : kRows) {
        if (row.type == type) return row.search;
    }
    return nullptr;
}

double search_row(TensorType type, std::span<const float> values, std::span<const float> weights,
                  std::byte* out) {
    const Search search = find_search(type);
    CHECK(search != nullptr && weights.size() == values.size());
    const TensorTypeInfo& info = *tensor_type_info(type);
    const auto size = static_cast<std::size_t>(info.block_size);
    const auto bytes = static_cast<std::size_t>(info.block_bytes);
    CHECK(values.size() % size == 0);
    std::vector<float> stored(size);
    std::vector<std::byte> plain(bytes);
    double sum = 0;
    for (std::size_t first = 0; first < values.size(); first += size, out += bytes) {
        const auto x = values.subspan(first, size);
        const auto w = weights.subspan(first, size);
        const auto error = [&](const std::byte* block) {
            dequantize_row(type, {block, bytes}, stored.data());
            return error_of(x, w, stored);
        };
        search(x.data(), w.data(), out);
        quantize_row(type, x, plain.data());
        const double searched = error(out);
        const double rounded = error(plain.data());
        if (rounded < searched) std::memcpy(out, plain.data(), bytes);
        sum += rounded < searched ? rounded : searched;
    }
    return sum;
}

}  // namespace helix::model::quant
