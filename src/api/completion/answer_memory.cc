#include "api/completion/answer_memory.h"

#include <fmt/format.h>

namespace helix::api {
namespace {

// The share grows by at least this much.
constexpr std::int64_t kShareStep = std::int64_t{16} << 10U;

}  // namespace

std::optional<ApiError> AnswerMemory::keep(std::int64_t bytes) {
    kept_bytes_ += bytes;
    if (kept_bytes_ > most_bytes_) {
        return from_error({base::Errc::too_large,
                           fmt::format("The answer is longer than the {} bytes (max_answer_bytes) "
                                       "that are kept of one until it can be sent; ask for less of "
                                       "it, or stream it.",
                                       most_bytes_)});
    }
    const std::int64_t all = before_bytes_ + kept_bytes_;
    if (all <= share_->bytes()) return {};
    const base::Status held = share_->resize(all + kShareStep);
    if (held.ok()) return {};
    return from_error(held.error());
}

}  // namespace helix::api
