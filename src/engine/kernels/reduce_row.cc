#include "engine/kernels/reduce_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/index.h"
#include "engine/ops/sums.h"

namespace helix::engine::ops {
namespace {

constexpr std::size_t kPiece = kLogitSegment;

std::span<const float> piece_of(std::span<const float> values, std::size_t piece) {
    return values.subspan(piece * kPiece, std::min(kPiece, values.size() - piece * kPiece));
}

// Sixteen sums, folded.
float sum_piece(std::span<const float> values) {
    std::array<float, 16> sums{};
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % 16] += values[i];
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) sums[i] += sums[i + apart];
    }
    return sums[0];
}

}  // namespace

RowReducer::Row RowReducer::reduce(std::span<const float> logits, std::int64_t n_top, bool sum) {
    Row row;
    tops_.resize((logits.size() + kPiece - 1) / kPiece);
    kernels_->logit_tops(logits.data(), std::ssize(logits), tops_.data());
    for (std::size_t piece = 0; piece < tops_.size(); ++piece) {
        if (!std::isnan(tops_[piece])) continue;
        const auto values = piece_of(logits, piece);
        const auto broken = std::find_if_not(values.begin(), values.end(),
                                             [](float x) { return std::isfinite(x); });
        row.broken = static_cast<std::int32_t>(piece * kPiece + base::at(broken - values.begin()));
        return row;
    }
    find_top(logits, std::min(base::size_of(n_top), logits.size()));
    row.top = top_;
    if (sum) row.sum = sum_weights(logits, top_.front().logit);
    return row;
}

// The n greatest are in the n pieces whose own greatest are greatest, and of those that these begin
// with none is less than the least.
void RowReducer::find_top(std::span<const float> logits, std::size_t n_top) {
    segments_.resize(tops_.size());
    std::iota(segments_.begin(), segments_.end(), 0);
    float least = std::numeric_limits<float>::lowest();
    if (n_top <= segments_.size()) {
        const auto last = segments_.begin() + static_cast<std::ptrdiff_t>(n_top - 1);
        std::nth_element(segments_.begin(), last, segments_.end(),
                         [this](std::int32_t a, std::int32_t b) {
                             return is_greater({tops_[base::at(a)], a}, {tops_[base::at(b)], b});
                         });
        least = tops_[base::at(*last)];
        segments_.resize(n_top);
    }
    top_.clear();
    for (const std::int32_t segment : segments_) {
        const auto values = piece_of(logits, base::at(segment));
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (values[i] < least) continue;
            top_.push_back({values[i], segment * kLogitSegment + static_cast<std::int32_t>(i)});
        }
    }
    const auto end = top_.begin() + static_cast<std::ptrdiff_t>(n_top);
    std::partial_sort(top_.begin(), end, top_.end(), is_greater);
    top_.erase(end, top_.end());
}

float RowReducer::sum_weights(std::span<const float> logits, float top) {
    sums_.resize(tops_.size());
    kernels_->weight_sums(logits.data(), std::ssize(logits), top, sums_.data());
    while (sums_.size() > 1) {
        const std::size_t pieces = (sums_.size() + kPiece - 1) / kPiece;
        for (std::size_t piece = 0; piece < pieces; ++piece)
            sums_[piece] = sum_piece(piece_of(sums_, piece));
        sums_.resize(pieces);
    }
    return sums_.front();
}

}  // namespace helix::engine::ops
