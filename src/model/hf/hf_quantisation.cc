#include "model/hf/hf_quantisation.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace helix::model {
namespace {

using spec::JsonPlace;

// More columns than any matrix has.
constexpr std::int64_t kMostColumns = std::int64_t{1} << 31;

// What is there, in lower case, or the first that is allowed.
base::Result<std::string> one_of(const JsonPlace& place, const char* key,
                                 std::initializer_list<std::string_view> allowed) {
    if (!place.present(key)) return std::string(*allowed.begin());
    TRY(std::string text, place.child(key).text());
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return text;
    return place.child(key).error(fmt::format("\"{}\"", fmt::join(allowed, "\" or \"")));
}

base::Status expect_false(const JsonPlace& place, const char* key) {
    if (!place.present(key) || place.child(key).value() == false) return base::Ok{};
    return place.child(key).error("false");
}

base::Result<std::int64_t> positive(const JsonPlace& place) {
    TRY(const std::int64_t value, place.integer());
    if (value < 1 || value > kMostColumns) return place.error("a whole number above zero");
    return value;
}

base::Status read_blocks(const JsonPlace& place, const char* key, HfQuantisation& to) {
    if (!place.present(key)) return base::Ok{};
    const JsonPlace sizes = place.child(key);
    TRY(const std::size_t n, sizes.array_size());
    if (n != 2) return sizes.error("two whole numbers");
    TRY(to.block_rows, positive(sizes.element(0)));
    TRY(to.block_cols, positive(sizes.element(1)));
    if (to.block_cols % 64 != 0) return sizes.element(1).error("a multiple of 64");
    return base::Ok{};
}

base::Status read_group_size(const JsonPlace& place, HfQuantisation& to) {
    if (!place.present("group_size")) return base::Ok{};
    const JsonPlace size = place.child("group_size");
    TRY(to.group_size, size.integer());
    const bool fits = to.group_size == -1 || (to.group_size > 0 && to.group_size <= kMostColumns &&
                                              to.group_size % 32 == 0);
    return fits ? base::Status(base::Ok{}) : size.error("-1 or a multiple of 32");
}

base::Result<HfQuantisation> read_fp8(const JsonPlace& place) {
    HfQuantisation to{.method = HfQuantMethod::fp8};
    TRY_VOID(one_of(place, "fmt", {"e4m3", "float8_e4m3fn"}));
    TRY_VOID(read_blocks(place, "weight_block_size", to));
    return to;
}

base::Result<HfQuantisation> read_gptq(const JsonPlace& place) {
    HfQuantisation to{.method = HfQuantMethod::gptq};
    TRY(const JsonPlace bits, place.member("bits"));
    TRY(to.bits, bits.integer());
    if (to.bits != 4 && to.bits != 8) return bits.error("4 or 8");
    TRY_VOID(read_group_size(place, to));
    // Modules may differ then; their scales' shapes say how.
    if (place.present("dynamic")) to.group_size = 0;
    TRY(const std::string format, one_of(place, "checkpoint_format", {"gptq", "gptq_v2"}));
    to.zeros_less_one = format == "gptq";
    TRY_VOID(one_of(place, "pack_dtype", {"int32"}));
    TRY_VOID(expect_false(place, "is_marlin_format"));
    to.may_be_ordered = place.present("desc_act") && place.child("desc_act").value() != false;
    return to;
}

base::Result<HfQuantisation> read_awq(const JsonPlace& place) {
    HfQuantisation to{.method = HfQuantMethod::awq};
    TRY(const JsonPlace bits, place.member("bits"));
    TRY(to.bits, bits.integer());
    if (to.bits != 4) return bits.error("4");
    TRY_VOID(read_group_size(place, to));
    TRY_VOID(one_of(place, "version", {"gemm"}));
    TRY_VOID(one_of(place, "backend", {"autoawq"}));
    return to;
}

// How the weights of one group of modules are stored.
base::Status read_compressed_group(const JsonPlace& group, HfQuantisation& to) {
    TRY_VOID(group.expect_object());
    TRY_VOID(one_of(group, "format", {"pack-quantized", "float-quantized", "naive-quantized"}));
    if (!group.present("weights")) return base::Ok{};
    const JsonPlace weights = group.child("weights");
    TRY_VOID(weights.expect_object());
    TRY(const JsonPlace place, weights.member("num_bits"));
    TRY(const std::int64_t bits, place.integer());
    TRY(const std::string type, one_of(weights, "type", {"int", "float"}));
    const std::int64_t expected = type == "int" ? 4 : 8;
    if (bits != expected) return place.error(fmt::format("{}, of {} numbers", expected, type));
    // "weight" reorders before groups are formed, and leaves no trace.
    TRY_VOID(one_of(weights, "actorder", {"weight", "static"}));
    TRY_VOID(expect_false(weights, "dynamic"));
    return read_blocks(weights, "block_structure", to);
}

base::Result<HfQuantisation> read_compressed(const JsonPlace& place) {
    HfQuantisation to{.method = HfQuantMethod::compressed, .may_be_ordered = true};
    TRY_VOID(one_of(place, "format",
                    {"pack-quantized", "float-quantized", "naive-quantized", "mixed-precision"}));
    if (place.present("sparsity_config"))
        TRY_VOID(one_of(place.child("sparsity_config"), "format", {"dense"}));
    if (place.present("transform_config") && !place.child("transform_config").value().empty())
        return place.child("transform_config").error("nothing");
    TRY(const JsonPlace groups, place.member("config_groups"));
    TRY_VOID(groups.expect_object());
    for (const auto& [name, group] : groups.value().items())
        TRY_VOID(read_compressed_group(groups.child(name), to));
    return to;
}

}  // namespace

base::Result<HfQuantisation> read_hf_quantisation(const JsonPlace& root) {
    if (!root.present("quantization_config")) return HfQuantisation{};
    const JsonPlace place = root.child("quantization_config");
    TRY_VOID(place.expect_object());
    TRY_VOID(place.member("quant_method"));
    TRY(const std::string method,
        one_of(place, "quant_method", {"fp8", "gptq", "awq", "compressed-tensors"}));
    if (method == "fp8") return read_fp8(place);
    if (method == "gptq") return read_gptq(place);
    if (method == "awq") return read_awq(place);
    return read_compressed(place);
}

}  // namespace helix::model
