#include "model/gguf_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace helix::model {

GgufImage::GgufImage(std::shared_ptr<WeightSource> weights) : weights_(std::move(weights)) {
    const GgufFile& file = weights_->file();
    const std::uint64_t data = file.header().size();
    pieces_.push_back({0, data, nullptr});
    for (const TensorInfo& tensor : file.tensors()) {
        const std::uint64_t begin = data + tensor.offset;
        pieces_.push_back({begin, begin + tensor.bytes, &tensor});
    }
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    // The last tensor is followed by as much as the others are.
    const std::uint64_t past = (pieces_.back().end - data) % file.alignment();
    bytes_ = pieces_.back().end + (past == 0 ? 0 : file.alignment() - past);
}

GgufImage::~GgufImage() {
    let_go();
}

base::Status GgufImage::read(std::uint64_t offset, std::span<std::byte> to) {
    CHECK(offset <= bytes_ && to.size() <= bytes_ - offset);
    std::memset(to.data(), 0, to.size());
    const std::uint64_t end = offset + to.size();
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                  [](std::uint64_t at, const Piece& p) { return at < p.end; });
    for (; piece != pieces_.end() && piece->begin < end; ++piece) {
        const std::uint64_t first = std::max(offset, piece->begin);
        const std::span<std::byte> part =
            to.subspan(first - offset, std::min(end, piece->end) - first);
        const std::uint64_t within = first - piece->begin;
        if (piece->tensor != nullptr) {
            TRY_VOID(read_tensor(piece->tensor->name, within, part));
        } else {
            std::memcpy(part.data(), weights_->file().header().data() + within, part.size());
        }
    }
    return base::Ok{};
}

base::Status GgufImage::read_tensor(std::string_view name, std::uint64_t offset,
                                    std::span<std::byte> to) {
    if (held_ != name) {
        if (const auto read = weights_->read_part(name, offset, to)) return *read;
        let_go();
        TRY(held_bytes_, weights_->tensor(name));
        held_ = name;
    }
    std::memcpy(to.data(), held_bytes_.data() + offset, to.size());
    return base::Ok{};
}

void GgufImage::let_go() {
    if (!held_.empty()) weights_->release(held_);
    held_.clear();
    held_bytes_ = {};
}

}  // namespace helix::model
