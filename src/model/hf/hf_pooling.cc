#include "model/hf/hf_pooling.h"

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "model/arch/decoder.h"
#include "model/limits.h"
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

// A layer without a bias, of which nothing else is made. module: its entry of modules.json.
base::Result<HfDense> read_dense(const std::string& folder, const spec::JsonPlace& module) {
    TRY(const spec::JsonPlace place, module.member("path"));
    HfDense dense;
    TRY(dense.folder, place.text());
    const bool plain = dense.folder.find('/') == std::string::npos && dense.folder != "." &&
                       dense.folder != ".." && !dense.folder.empty();
    if (!plain) return place.error("the name of a folder in the same folder");
    const std::string file = fmt::format("{}/{}/config.json", folder, dense.folder);
    TRY(const nlohmann::json document, document_in(file));
    const spec::JsonPlace root(document, file);
    TRY_VOID(root.expect_object());
    TRY(dense.inputs, root.count("in_features", limits::kMaxFeedForward));
    TRY(dense.outputs, root.count("out_features", limits::kMaxFeedForward));
    TRY(const bool bias, root.flag_or("bias", true));
    if (bias) return root.complaint("bias: expected false");
    TRY(const std::string activation, root.text_or("activation_function", "torch.nn.Tanh"));
    if (last_word(activation) != "Identity")
        return root.complaint("activation_function: expected Identity");
    return dense;
}

base::Status check_dense_layers(const spec::JsonPlace& root, const HfConfig& config) {
    const std::vector<HfDense>& dense = config.dense_layers;
    if (dense.size() != 2)
        return root.error(fmt::format("two modules Dense, there are {}", dense.size()));
    if (dense[0].inputs == config.hidden && dense[1].outputs == config.hidden &&
        dense[0].outputs == dense[1].inputs)
        return base::Ok{};
    return root.complaint(fmt::format(
        "modules Dense of {} to {} and {} to {} numbers, expected the first to begin and the "
        "second "
        "to end with the hidden size {}, and one number between them",
        dense[0].inputs, dense[0].outputs, dense[1].inputs, dense[1].outputs, config.hidden));
}

base::Status read_modules(const std::string& folder, const std::string& file, HfConfig& config) {
    TRY(const nlohmann::json document, document_in(file));
    const spec::JsonPlace root(document, file);
    TRY(const std::size_t n, root.array_size());
    bool pooled = false;
    for (std::size_t i = 0; i < n; ++i) {
        TRY(const spec::JsonPlace place, root.element(i).member("type"));
        TRY(const std::string type, place.text());
        const std::string_view word = last_word(type);
        pooled = pooled || word == "Pooling";
        if (word == "Transformer" || word == "Pooling" || word == "Normalize") continue;
        if (word != "Dense" || !config.traits->dense_embeddings || !pooled)
            return place.error("a module that is Transformer, Pooling or Normalize");
        TRY(HfDense dense, read_dense(folder, root.element(i)));
        config.dense_layers.push_back(std::move(dense));
    }
    if (!config.traits->dense_embeddings) return base::Ok{};
    TRY_VOID(check_dense_layers(root, config));
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

base::Status read_hf_pooling(const std::string& folder, HfConfig& config, GgufBuilder& metadata) {
    std::error_code ignored;
    const std::string modules = folder + "/modules.json";
    if (config.traits->dense_embeddings || std::filesystem::exists(modules, ignored))
        TRY_VOID(read_modules(folder, modules, config));
    if (config.ranks_pairs) return base::Ok{};
    const char* name = "dense_2";
    for (const HfDense& dense : config.dense_layers) {
        const auto set = [&](const char* end, std::int32_t value) {
            metadata.set(metadata_key(*config.traits, fmt::format("{}_{}", name, end)),
                         static_cast<std::uint32_t>(value));
        };
        set("feat_in", dense.inputs);
        set("feat_out", dense.outputs);
        name = "dense_3";
    }
    const std::string file = fmt::format("{}/{}/config.json", folder, kPoolingFolder);
    if (!std::filesystem::exists(file, ignored)) return base::Ok{};
    TRY(const nlohmann::json document, document_in(file));
    TRY(const spec::Pooling pooling, read_modes(spec::JsonPlace(document, file)));
    metadata.set(metadata_key(*config.traits, "pooling_type"), static_cast<std::uint32_t>(pooling));
    return base::Ok{};
}

}  // namespace helix::model
