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

base::Result<const TensorInfo*> LocalWeights::find(std::string_view name) const {
    if (const TensorInfo* info = file_->find_tensor(name)) return info;
    return base::Error{base::Errc::not_found,
                       fmt::format("{}: tensor {}: missing", file_->label(), name)};
}

base::Result<std::span<const std::byte>> LocalWeights::tensor(std::string_view name) {
    TRY(const TensorInfo* info, find(name));
    return held_.use(name, [&] { return file_->read(*info); });
}

std::optional<base::Status> LocalWeights::read_part(std::string_view name, std::uint64_t offset,
                                                    std::span<std::byte> to) {
    const auto info = find(name);
    if (!info.ok()) return base::Status(info.error());
    return file_->read(**info, offset, to);
}

void LocalWeights::release(std::string_view name) {
    held_.release(name);
}

base::Result<std::vector<base::FileStamp>> LocalWeights::stamps() const {
    TRY(const base::FileStamp stamp, file_->stamp());
    return std::vector<base::FileStamp>{stamp};
}

}  // namespace helix::model
