#include "model/local_weights.h"

#include <fmt/format.h>

#include "base/check.h"

namespace helix::model {

base::Result<std::unique_ptr<LocalWeights>> LocalWeights::open(const std::string& path) {
    TRY(auto file, GgufFile::open(path));
    return std::make_unique<LocalWeights>(std::move(file));
}

LocalWeights::LocalWeights(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {
    CHECK(file_ != nullptr && file_->has_data());
}

base::Result<std::span<const std::byte>> LocalWeights::tensor(std::string_view name) {
    const TensorInfo* info = file_->find_tensor(name);
    if (info == nullptr) {
        return base::Error{base::Errc::not_found,
                           fmt::format("{}: tensor {}: missing", file_->label(), name)};
    }
    return file_->data(*info);
}

void LocalWeights::release(std::string_view name) {
    if (const TensorInfo* info = file_->find_tensor(name)) file_->let_go(*info);
}

}  // namespace helix::model
