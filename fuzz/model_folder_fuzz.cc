// rooms: model
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "model/manifest.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "shm_folder.h"

// Any files make a folder that is opened and used whole, or an error that names the folder or one
// of its files. An input is files one after the other: the number of the name, three bytes of
// length (the least first), the content; the last may be shorter than it says.

namespace {

constexpr const char* kNames[] = {"config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "model.safetensors",
                                  "chat_template.jinja",
                                  "generation_config.json",
                                  "model.safetensors.index.json"};

void use(helix::model::WeightSource& weights, const std::string& folder) {
    const auto config = helix::model::read_model_config(weights);
    if (!config.ok()) return;
    CHECK(config->head_dim > 0 && config->n_layers > 0 && config->vocab > 0);
    CHECK(helix::model::read_model_spec(weights.file()).ok());
    CHECK(weights.file().label() == folder);
    const auto manifest = helix::model::build_manifest(weights, 1);
    // That a quantised weight is no number shows when it is read.
    if (!manifest.ok()) return CHECK(manifest.error().message.starts_with(folder));
    CHECK(helix::model::open_manifest(*manifest).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string& folder = helix::fuzz::empty_shm_folder();
    while (size > 4) {
        const std::size_t told = data[1] | std::size_t{data[2]} << 8U | std::size_t{data[3]} << 16U;
        const std::size_t length = std::min(told, size - 4);
        const std::string name = kNames[data[0] % std::size(kNames)];
        helix::fuzz::write_file(folder + "/" + name, data + 4, length);
        data += 4 + length;
        size -= 4 + length;
    }
    for (const char* quantize : {"", "q8_0"}) {
        const auto weights = helix::model::open_weights(folder, {quantize});
        if (weights.ok()) {
            use(**weights, folder);
        } else {
            CHECK(weights.error().message.starts_with(folder));
        }
    }
    return 0;
}
