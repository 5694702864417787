#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "engine/device/device_group.h"

// How a DeviceGroup reduces rows of logits, of which each rank has its range of the vocabulary.

namespace helix::engine {
namespace {

using ops::ReducedRowAt;

// What a rank has to do with its columns.
struct RankLogits {
    std::int64_t first = 0;  // column
    std::int64_t width = 0;
    int n_top = 0;
    std::vector<ops::LogitAt> named;  // with tokens of its own
    std::vector<std::size_t> places;  // of these among all that are named
};

RankLogits logits_of_rank(const ops::ReduceLogits& op, std::int64_t first, std::int64_t end) {
    RankLogits own{first, end - first, 0, {}, {}};
    own.n_top = static_cast<int>(std::min<std::int64_t>(op.n_top, own.width));
    for (std::size_t i = 0; i < op.named.size(); ++i) {
        const ops::LogitAt& at = op.named[i];
        if (at.token < first || at.token >= end) continue;
        own.named.push_back({at.row, at.token - static_cast<std::int32_t>(first)});
        own.places.push_back(i);
    }
    return own;
}

// Adds a rank's greatest of a row to those of the ranks before it.
void merge_row(const RankLogits& own, const float* row, std::vector<ops::TopLogit>& top,
               float& broken) {
    const auto first = static_cast<std::int32_t>(own.first);
    if (row[ReducedRowAt::kBroken] >= 0) {
        if (broken < 0) broken = row[ReducedRowAt::kBroken] + static_cast<float>(first);
        return;
    }
    for (int i = 0; i < own.n_top; ++i) {
        const float token = row[ReducedRowAt::kLogits + own.n_top + i];
        top.push_back({row[ReducedRowAt::kLogits + i], static_cast<std::int32_t>(token) + first});
    }
}

}  // namespace

// A sum takes pieces that cross the edges of ranks, so for it one rank has the rows whole.
void DeviceGroup::reduce_logits(const ops::ReduceLogits& op) {
    CHECK(op.n_top >= 1 && op.n_top <= ops::kMaxTopLogits && op.n_top <= op.vocab);
    CHECK(op.vocab <= ops::kMaxReducedVocab);
    if (op.rows == 0 || error_) return;
    const State& state = static_cast<const GroupBuffer&>(op.logits).state();
    const bool divided = state.parts_valid && !state.whole_valid && state.width == op.vocab &&
                         state.rows >= op.first_row + op.rows;
    if (divided) {
        keep(op.sum ? reduce_gathered(op) : reduce_parts(op));
        return;
    }
    if (!need_whole(op.logits) || !write_whole(op.out)) return;
    const State& out = static_cast<const GroupBuffer&>(op.out).state();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->reduce_logits({*state.whole[rank], op.first_row, op.rows, op.vocab, op.n_top,
                                     op.sum, op.named, *out.whole[rank]});
    }
}

base::Status DeviceGroup::reduce_gathered(const ops::ReduceLogits& op) {
    Device& first = *ranks_.front();
    reduced_.resize(ranks_.size());
    const std::int64_t floats = ops::reduced_floats(op.rows, op.n_top, std::ssize(op.named));
    TRY_VOID(make_room(first, gathered_, op.rows * op.vocab));
    TRY_VOID(make_room(first, reduced_.front(), floats));
    TRY(const std::span<const float> rows,
        collect(static_cast<const GroupBuffer&>(op.logits).state(), op.first_row, op.rows));
    TRY_VOID(first.write(*gathered_, 0, rows));
    first.reduce_logits(
        {*gathered_, 0, op.rows, op.vocab, op.n_top, op.sum, op.named, *reduced_.front()});
    TRY(const std::span<const float> reduced, first.read(*reduced_.front(), 0, floats));
    merged_.assign(reduced.begin(), reduced.end());
    return write(op.out, 0, merged_);
}

base::Status DeviceGroup::reduce_parts(const ops::ReduceLogits& op) {
    const State& state = static_cast<const GroupBuffer&>(op.logits).state();
    std::vector<RankLogits> own;
    reduced_.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const auto r = static_cast<std::int64_t>(rank);
        own.push_back(logits_of_rank(op, first_column(op.vocab, r, ranks()),
                                     first_column(op.vocab, r + 1, ranks())));
        const std::int64_t floats =
            ops::reduced_floats(op.rows, own[rank].n_top, std::ssize(own[rank].named));
        TRY_VOID(make_room(*ranks_[rank], reduced_[rank], floats));
        ranks_[rank]->reduce_logits({*state.parts[rank], op.first_row, op.rows, own[rank].width,
                                     own[rank].n_top, false, own[rank].named, *reduced_[rank]});
    }
    start();
    const std::int64_t row_floats = ReducedRowAt::floats(op.n_top);
    merged_.assign(base::size_of(ops::reduced_floats(op.rows, op.n_top, std::ssize(op.named))),
                   0.0F);
    std::vector<std::vector<ops::TopLogit>> top(base::size_of(op.rows));
    std::vector<float> broken(base::size_of(op.rows), -1.0F);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const std::int64_t floats = ReducedRowAt::floats(own[rank].n_top);
        TRY(const std::span<const float> part,
            ranks_[rank]->read(*reduced_[rank], 0, op.rows * floats + std::ssize(own[rank].named)));
        for (std::size_t row = 0; row < top.size(); ++row)
            merge_row(own[rank], part.data() + static_cast<std::int64_t>(row) * floats, top[row],
                      broken[row]);
        for (std::size_t i = 0; i < own[rank].places.size(); ++i) {
            merged_[base::at(op.rows * row_floats) + own[rank].places[i]] =
                part[base::at(op.rows * floats) + i];
        }
    }
    for (std::size_t row = 0; row < top.size(); ++row) {
        float* to = merged_.data() + static_cast<std::int64_t>(row) * row_floats;
        to[ReducedRowAt::kBroken] = broken[row];
        if (broken[row] >= 0) continue;
        std::sort(top[row].begin(), top[row].end(), ops::is_greater);
        for (int i = 0; i < op.n_top; ++i) {
            to[ReducedRowAt::kLogits + i] = top[row][base::at(i)].logit;
            to[ReducedRowAt::kLogits + op.n_top + i] =
                static_cast<float>(top[row][base::at(i)].token);
        }
    }
    return write(op.out, 0, merged_);
}

}  // namespace helix::engine
