#include "engine/measure/rotated_pages.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/index.h"
#include "base/random.h"
#include "engine/ops/kv_layout.h"
#include "engine/proof/made_data.h"

namespace helix::engine::measure {
namespace {

constexpr std::int32_t kPagePositions = 16;
constexpr std::int64_t kStoredRows = 2048;  // at a time
constexpr std::size_t kQueries = 4;         // outputs that are written in turn

}  // namespace

base::Result<RotatedPages> RotatedPages::create(Device& device, const PageShape& shape,
                                                std::int32_t context, std::int32_t sequences,
                                                std::uint64_t seed) {
    RotatedPages made(device, shape, context, seed);
    ops::KvLayout layout;
    layout.n_kv_heads = shape.n_kv_heads;
    layout.head_dim = shape.head_dim;
    layout.block_size = kPagePositions;
    const std::int32_t blocks = (context + kPagePositions - 1) / kPagePositions;
    made.bytes_of_sequence_ = static_cast<double>(blocks * layout.page_bytes());
    TRY(made.kv_, device.make_kv_arena(layout, std::int64_t{blocks} * sequences, 0));
    // Pages of the sequences lie between each other, as they do after a while.
    made.pages_.resize(base::size_of(sequences));
    for (std::int32_t b = 0; b < blocks; ++b) {
        for (std::int32_t s = 0; s < sequences; ++s)
            made.pages_[base::at(s)].push_back(static_cast<core::PageId>(b * sequences + s));
    }
    TRY_VOID(made.fill());
    return made;
}

base::Status RotatedPages::fill() {
    base::Random random(seed_);
    const std::int64_t width = std::int64_t{shape_.n_kv_heads} * shape_.head_dim;
    const std::int64_t rows = std::min<std::int64_t>(kStoredRows, context_);
    TRY(const auto keys,
        filled_buffer(*device_, proof::random_floats(random, base::size_of(rows * width))));
    TRY(const auto values,
        filled_buffer(*device_, proof::random_floats(random, base::size_of(rows * width))));
    for (const std::vector<core::PageId>& pages : pages_) {
        for (std::int64_t at = 0; at < context_; at += rows) {
            const ops::SequenceRows some[] = {
                {0, std::min(rows, context_ - at), static_cast<std::int32_t>(at), pages}};
            device_->kv_store({*kv_, *keys, *values, some});
        }
    }
    return wait_for(*device_, *keys);
}

double RotatedPages::operations(std::int32_t sequences, std::int64_t rows) const {
    // Of the last row all positions, of each before it one less.
    const double positions =
        static_cast<double>(rows) * (context_ - 0.5 * static_cast<double>(rows - 1));
    return 4.0 * sequences * positions * shape_.n_heads * shape_.head_dim;
}

base::Result<Timing> RotatedPages::time(std::int32_t sequences, std::int64_t rows,
                                        double budget_s) {
    base::Random random(base::hash_pair(seed_, static_cast<std::uint64_t>(sequences * rows)));
    const std::int64_t floats = sequences * rows * shape_.n_heads * shape_.head_dim;
    TRY(const auto q, filled_buffer(*device_, proof::random_floats(random, base::size_of(floats))));
    std::vector<std::unique_ptr<Buffer>> outputs;
    for (std::size_t i = 0; i < kQueries; ++i) {
        TRY(auto out, proof::poisoned_buffer(*device_, floats));
        outputs.push_back(std::move(out));
    }
    TRY(const Timing timing, time_calls(budget_s, [&](std::int64_t n) {
            std::vector<ops::SequenceRows> last;
            for (std::int64_t i = 0; i < n; ++i) {
                last.clear();
                for (std::int32_t s = 0; s < sequences; ++s) {
                    last.push_back({s * rows, rows, static_cast<std::int32_t>(context_ - rows),
                                    pages_[next_++ % pages_.size()]});
                }
                device_->attention(
                    {*kv_, *q, *outputs[base::at(i) % kQueries], shape_.n_heads, 0, last});
            }
            return wait_for(*device_, *outputs[base::at(n - 1) % kQueries]);
        }));
    std::vector<float> computed;
    TRY_VOID(proof::read_all(*device_, *outputs[0], computed));
    if (std::any_of(computed.begin(), computed.end(), [](float y) { return std::isnan(y); }))
        return base::Error{base::Errc::internal, "attention was not computed"};
    return timing;
}

}  // namespace helix::engine::measure
