#include "model/hf/hf_pooling.h"

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "model/arch/decoder.h"
#include "spec/json_place.h"
#include "spec/pooling.h"
#include "spec/text_file.h"

namespace helix::model {
namespace {

constexpr const char* kPoolingFolder = "1_Pooling";

// What is behind the last dot: "sentence_transformers.models.Pooling".
std::string_view last_word(std::string_view type) {
    return type.substr(type.rfind('.') + 1);
}

base::Result<nlohmann::json> document_in(const std::string& file) {
    TRY(const std::string text, spec::read_text_file(file));
    return spec::parse_json(text, file);
}

base::Status check_modules(const std::string& file) {
    TRY(const nlohmann::json document, document_in(file));
    const spec::JsonPlace root(document, file);
    TRY(const std::size_t n, root.array_size());
    for (std::size_t i = 0; i < n; ++i) {
        TRY(const spec::JsonPlace place, root.element(i).member("type"));
        TRY(const std::string type, place.text());
        const std::string_view word = last_word(type);
        if (word == "Transformer" || word == "Pooling" || word == "Normalize") continue;
        return place.error("a module that is Transformer, Pooling or Normalize");
    }
    return base::Ok{};
}

base::Result<spec::Pooling> read_modes(const spec::JsonPlace& root) {
    TRY_VOID(root.expect_object());
    constexpr std::string_view kBegin = "pooling_mode_";
    spec::Pooling pooling = spec::Pooling::none;
    for (const auto& [key, value] : root.value().items()) {
        if (!key.starts_with(kBegin) || !value.is_boolean() || !value.get<bool>()) continue;
        const std::string_view mode = std::string_view(key).substr(kBegin.size());
        if (pooling != spec::Pooling::none)
            return root.child(key).error("false: embeddings are pooled in one way");
        if (mode == "cls_token") pooling = spec::Pooling::cls;
        if (mode == "mean_tokens") pooling = spec::Pooling::mean;
        if (mode == "lasttoken") pooling = spec::Pooling::last;
        if (pooling == spec::Pooling::none) {
            return root.child(key).error(
                "false: supported are pooling_mode_cls_token, pooling_mode_mean_tokens and "
                "pooling_mode_lasttoken");
        }
    }
    if (pooling != spec::Pooling::none) return pooling;
    return root.complaint(
        "expected pooling_mode_cls_token, pooling_mode_mean_tokens or pooling_mode_lasttoken");
}

}  // namespace

base::Status read_hf_pooling(const std::string& folder, const HfConfig& config,
                             GgufBuilder& metadata) {
    std::error_code ignored;
    const std::string modules = folder + "/modules.json";
    if (std::filesystem::exists(modules, ignored)) TRY_VOID(check_modules(modules));
    if (config.ranks_pairs) return base::Ok{};
    const std::string file = fmt::format("{}/{}/config.json", folder, kPoolingFolder);
    if (!std::filesystem::exists(file, ignored)) return base::Ok{};
    TRY(const nlohmann::json document, document_in(file));
    TRY(const spec::Pooling pooling, read_modes(spec::JsonPlace(document, file)));
    metadata.set(metadata_key(*config.traits, "pooling_type"), static_cast<std::uint32_t>(pooling));
    return base::Ok{};
}

}  // namespace helix::model
