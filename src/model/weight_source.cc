#include "model/weight_source.h"

#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "model/local_weights.h"
#include "model/model_folder.h"
#include "model/split_weights.h"

namespace helix::model {

base::Result<std::shared_ptr<WeightSource>> open_weights(const std::string& path,
                                                         const WeightOptions& options) {
    std::optional<TensorType> quantize;
    if (!options.quantize.empty()) {
        const TensorType* type = tensor_type_by_name(options.quantize);
        if (type == nullptr) {
            return base::invalid(fmt::format("quantisation \"{}\" is unknown; known: {}",
                                             options.quantize, tensor_type_names()));
        }
        quantize = *type;
    }
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
        TRY(auto folder, ModelFolder::open(path, quantize));
        return std::shared_ptr<WeightSource>(std::move(folder));
    }
    if (quantize) {
        return base::invalid(fmt::format(
            "{}: only folders of safetensors are quantised when they are loaded", path));
    }
    TRY(auto file, GgufFile::open(path));
    if (SplitWeights::is_part(*file)) {
        TRY(auto split, SplitWeights::open(std::move(file)));
        return std::shared_ptr<WeightSource>(std::move(split));
    }
    return std::shared_ptr<WeightSource>(std::make_shared<LocalWeights>(std::move(file)));
}

}  // namespace helix::model
