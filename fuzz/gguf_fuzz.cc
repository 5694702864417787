// rooms: model
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/gguf.h"
#include "model/info.h"
#include "model/manifest.h"
#include "model/model_config.h"

// Any bytes either give an error that names the file, or a file of which everything can be used.

namespace {

using helix::model::GgufFile;

void use(const GgufFile& file) {
    std::size_t sum = 0;
    for (const auto& tensor : file.tensors()) {
        const auto data = file.read(tensor);
        CHECK(data.ok() == file.has_data());
        if (data.ok()) {
            for (const std::byte byte : *data) sum += std::to_integer<std::size_t>(byte);
        }
        CHECK(file.find_tensor(tensor.name) == &tensor);
    }
    CHECK(!helix::model::describe_text(file).empty());
    CHECK(!helix::model::describe_json(file).empty());
    const auto config = helix::model::read_model_config(file);
    if (config.ok()) CHECK(config->head_dim > 0 && config->n_layers > 0 && config->vocab > 0);
    CHECK(sum + 1 > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto file = GgufFile::from_image({bytes.begin(), bytes.end()}, "fuzz.gguf");
    if (!file.ok()) {
        CHECK(file.error().message.starts_with("fuzz.gguf: "));
    } else {
        use(**file);
        const auto manifest = helix::model::build_manifest(**file, 1);
        CHECK(manifest.ok() && helix::model::open_manifest(*manifest).ok());
    }
    const auto header = GgufFile::from_header({bytes.begin(), bytes.end()});
    if (header.ok()) use(**header);
    return 0;
}
