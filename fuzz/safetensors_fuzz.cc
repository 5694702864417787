// rooms: model
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "model/hf/hf_config.h"
#include "model/hf/safetensors.h"

// Any bytes are a safetensors file or an error that names it; any text is a config.json or an error
// that names it.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using helix::model::SafetensorsFile;
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto file = SafetensorsFile::from_image({bytes.begin(), bytes.end()}, "fuzz.st");
    if (!file.ok()) {
        CHECK(file.error().message.starts_with("fuzz.st: "));
    } else {
        std::size_t sum = 0;
        for (const auto& [name, tensor] : (*file)->tensors()) {
            const auto content = (*file)->read(tensor);
            CHECK(content.ok());
            for (const std::byte byte : *content) {
                sum += std::to_integer<std::size_t>(byte);
            }
            CHECK((*file)->find(name) == &tensor);
        }
        CHECK(sum + 1 > 0);
    }
    helix::model::GgufBuilder builder;
    const auto config = helix::model::read_hf_config(
        std::string(reinterpret_cast<const char*>(data), size), "fuzz.json", builder);
    if (!config.ok()) {
        CHECK(config.error().message.starts_with("fuzz.json"));
    } else {
        CHECK(config->n_layers > 0 && config->hidden > 0 && config->head_dim > 0);
    }
    return 0;
}
