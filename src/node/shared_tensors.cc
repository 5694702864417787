#include "node/shared_tensors.h"

#include <fmt/format.h>

#include "base/log.h"

namespace helix::node {
namespace {

std::pair<std::uint64_t, std::uint64_t> key_of(const base::Hash128& hash) {
    return {hash.low, hash.high};
}

// A piece's bytes, which count as under way for as long as they are here.
class PieceBytes {
  public:
    PieceBytes(std::size_t size, std::shared_ptr<std::atomic<std::int64_t>> under_way)
        : bytes(size), under_way_(std::move(under_way)) {
        *under_way_ += static_cast<std::int64_t>(size);
    }
    ~PieceBytes() { *under_way_ -= static_cast<std::int64_t>(bytes.size()); }
    PieceBytes(const PieceBytes&) = delete;
    PieceBytes& operator=(const PieceBytes&) = delete;

    std::vector<std::byte> bytes;

  private:
    std::shared_ptr<std::atomic<std::int64_t>> under_way_;
};

}  // namespace

void SharedTensors::clear() {
    const std::lock_guard lock(mutex_);
    tensors_.clear();
}

void SharedTensors::use(const TensorCache& cache) {
    const std::lock_guard lock(mutex_);
    cache_ = cache;
}

void SharedTensors::add(std::int32_t index, const model::TensorDigest& tensor) {
    const std::lock_guard lock(mutex_);
    tensors_[key_of(tensor.hash)] = {index, tensor.bytes};
}

std::vector<std::int32_t> SharedTensors::indices() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::int32_t> indices;
    for (const auto& [key, tensor] : tensors_) indices.push_back(tensor.index);
    return indices;
}

void SharedTensors::ask(std::string connection, const wire::TensorRequest& request) {
    if (waiting_.size() < kMostWaiting) {
        waiting_.emplace_back(std::move(connection), request);
    } else if (refused_.size() < kMostWaiting) {
        const wire::TensorPiece piece{request.hash, request.offset, request.length,
                                      "too many wait for this worker's tensors"};
        refused_.push_back({std::move(connection), piece, {}});
    }
}

bool SharedTensors::is_behind() const {
    return !refused_.empty() || (!waiting_.empty() && *under_way_bytes_ < kMostUnderWayBytes);
}

std::vector<SharedTensors::Answer> SharedTensors::take_answers() {
    std::vector<Answer> answers = std::exchange(refused_, {});
    if (waiting_.empty() || *under_way_bytes_ >= kMostUnderWayBytes) return answers;
    auto [connection, request] = std::move(waiting_.front());
    waiting_.pop_front();
    answers.push_back(answer(std::move(connection), request));
    return answers;
}

SharedTensors::Answer SharedTensors::answer(std::string connection,
                                            const wire::TensorRequest& request) {
    Answer answer{std::move(connection), {request.hash, request.offset, request.length, ""}, {}};
    const std::lock_guard lock(mutex_);
    const auto found = tensors_.find(key_of(request.hash));
    if (found == tensors_.end()) {
        answer.piece.error = "this worker has no such tensor";
        return answer;
    }
    const std::uint64_t size = found->second.bytes;
    if (request.offset > size || request.length > size - request.offset || request.length == 0) {
        answer.piece.error =
            fmt::format("{} bytes at {} of a tensor of {}", request.length, request.offset, size);
        return answer;
    }
    const auto piece = std::make_shared<PieceBytes>(request.length, under_way_bytes_);
    const base::Status read = cache_.read_part(request.hash, size, request.offset, piece->bytes);
    if (!read.ok()) {
        LOG_WARN("{}; other workers get it elsewhere", read.error().message);
        tensors_.erase(found);
        answer.piece.error = "this worker does not have the tensor any more";
        return answer;
    }
    answer.data = {piece, piece->bytes};
    return answer;
}

}  // namespace helix::node
