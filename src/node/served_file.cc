#include "node/served_file.h"

#include <utility>

#include "model/gguf_image.h"

namespace helix::node {
namespace {

class ServedFile final : public api::ModelFile {
  public:
    explicit ServedFile(const ServedModel& model)
        : weights_(model.weights),
          hash_(base::to_hex(model.hash)),
          bytes_(model::GgufImage(weights_).bytes()) {}

    std::uint64_t bytes() const override { return bytes_; }
    std::string hash() const override { return hash_; }
    std::unique_ptr<Reader> open() const override { return std::make_unique<Image>(weights_); }

  private:
    struct Image final : Reader {
        explicit Image(std::shared_ptr<model::WeightSource> weights) : image(std::move(weights)) {}
        base::Status read(std::uint64_t offset, std::span<std::byte> to) override {
            return image.read(offset, to);
        }
        model::GgufImage image;
    };

    std::shared_ptr<model::WeightSource> weights_;
    std::string hash_;
    std::uint64_t bytes_;
};

}  // namespace

std::shared_ptr<const api::ModelFile> served_file(const ServedModel& model) {
    if (model.weights == nullptr || model.manifest == nullptr) return nullptr;
    return std::make_shared<const ServedFile>(model);
}

}  // namespace helix::node
