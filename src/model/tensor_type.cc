#include "model/tensor_type.h"

#include "base/check.h"
#include "model/quant/format.h"
#include "model/quant/fp8.h"
#include "model/quant/int4.h"
#include "model/quant/iq1.h"
#include "model/quant/iq2.h"
#include "model/quant/iq3.h"
#include "model/quant/iq4_nl.h"
#include "model/quant/iq4_xs.h"
#include "model/quant/mxfp4.h"
#include "model/quant/nvfp4.h"
#include "model/quant/plain.h"
#include "model/quant/q2_k.h"
#include "model/quant/q3_k.h"
#include "model/quant/q4_0.h"
#include "model/quant/q4_1.h"
#include "model/quant/q4_k.h"
#include "model/quant/q5_0.h"
#include "model/quant/q5_1.h"
#include "model/quant/q5_k.h"
#include "model/quant/q6_k.h"
#include "model/quant/q8_0.h"
#include "model/quant/tq.h"

namespace helix::model {
namespace {

constexpr const quant::Format* kFormats[] = {
    &quant::kF32,   &quant::kF16,    &quant::kBf16, &quant::kQ8_0,   &quant::kQ4_0,
    &quant::kQ4_1,  &quant::kQ5_0,   &quant::kQ5_1, &quant::kQ2K,    &quant::kQ3K,
    &quant::kQ4K,   &quant::kQ5K,    &quant::kQ6K,  &quant::kIq4Nl,  &quant::kIq4Xs,
    &quant::kMxfp4, &quant::kIq3Xxs, &quant::kIq3S, &quant::kIq2Xxs, &quant::kIq2Xs,
    &quant::kIq2S,  &quant::kIq1S,   &quant::kIq1M, &quant::kTq1_0,  &quant::kTq2_0,
    &quant::kNvfp4, &quant::kFp8,    &quant::kInt4,
};

const quant::Format* find_format(TensorType type) {
    for (const quant::Format* format : kFormats) {
        if (format->type == type) return format;
    }
    return nullptr;
}

// ggml's enum ggml_type; numbers without a name were removed there.
constexpr const char* kGgmlNames[] = {
    "f32",     "f16",   "q4_0",   "q4_1",  nullptr, nullptr,  "q5_0",  "q5_1",    "q8_0",
    "q8_1",    "q2_k",  "q3_k",   "q4_k",  "q5_k",  "q6_k",   "q8_k",  "iq2_xxs", "iq2_xs",
    "iq3_xxs", "iq1_s", "iq4_nl", "iq3_s", "iq2_s", "iq4_xs", "i8",    "i16",     "i32",
    "i64",     "f64",   "iq1_m",  "bf16",  nullptr, nullptr,  nullptr, "tq1_0",   "tq2_0",
    nullptr,   nullptr, nullptr,  "mxfp4", "nvfp4", "q1_0",   "q2_0"};

}  // namespace

const TensorTypeInfo* tensor_type_info(TensorType type) {
    const quant::Format* format = find_format(type);
    return format == nullptr ? nullptr : &format->info;
}

const TensorType* tensor_type_by_name(std::string_view name) {
    for (const quant::Format* format : kFormats) {
        if (format->info.name == name) return &format->type;
    }
    return nullptr;
}

std::string tensor_type_names() {
    std::string names;
    for (const quant::Format* format : kFormats) {
        if (!names.empty()) names += ", ";
        names += format->info.name;
    }
    return names;
}

const char* ggml_type_name(std::uint32_t number) {
    return number < std::size(kGgmlNames) ? kGgmlNames[number] : nullptr;
}

std::string factor_tensor(TensorType type, std::string_view name) {
    constexpr std::string_view kEnding = ".weight";
    if (type != TensorType::nvfp4 || !name.ends_with(kEnding)) return "";
    return std::string(name.substr(0, name.size() - kEnding.size())) + ".scale";
}

quant::Decode quant::find_decoder(TensorType type) {
    const Format* format = find_format(type);
    return format == nullptr ? nullptr : format->decode;
}

std::span<const std::uint32_t> quant::find_grid(TensorType type) {
    const Format* format = find_format(type);
    return format == nullptr ? std::span<const std::uint32_t>() : format->grid;
}

void dequantize_row(TensorType type, std::span<const std::byte> bytes, float* out) {
    const quant::Format* format = find_format(type);
    CHECK(format != nullptr);
    const auto block_bytes = static_cast<std::size_t>(format->info.block_bytes);
    CHECK(bytes.size() % block_bytes == 0);
    format->dequantize(bytes.data(), bytes.size() / block_bytes, out);
}

void quantize_row(TensorType type, std::span<const float> values, std::byte* out) {
    const quant::Format* format = find_format(type);
    CHECK(format != nullptr);
    const auto block_size = static_cast<std::size_t>(format->info.block_size);
    CHECK(values.size() % block_size == 0);
    format->quantize(values.data(), values.size() / block_size, out);
}

}  // namespace helix::model
