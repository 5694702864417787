#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "spec/layer_range.h"

// Which KV a model needs: all of it, or in some layers only that of a window of positions.

namespace helix::spec {

// Returns the first position that a row attends to. positions: those of which its own is the last,
// or, chunked, that a chunk has, of whose it attends to its own; 0: all before it. It never falls
// while the row's position rises.
inline std::int32_t first_attended(std::int32_t position, std::int32_t positions, bool chunked) {
    if (positions <= 0) return 0;
    return chunked ? position / positions * positions : std::max(0, position - positions + 1);
}

// Of so many layers those whose number, counted from 1, is no multiple of the period; all where it
// is 0.
std::vector<bool> all_but_every(std::int32_t period, std::int32_t n_layers);

// AttentionWindow says which layers of a model attend to a window of positions only. The KV of what
// lies before it is never read again, so that pages which lie there as a whole can be given back.
struct AttentionWindow {
    std::int32_t positions = 0;  // as first_attended() has them
    bool chunked = false;
    std::vector<bool> layers = {};  // [n_layers]: whether it has the window; empty: none has

    bool operator==(const AttentionWindow&) const = default;

    bool any() const { return positions > 0 && !layers.empty(); }
    bool has(std::int32_t layer) const {
        const auto at = static_cast<std::size_t>(layer);
        return positions > 0 && at < layers.size() && layers[at];
    }
    std::int32_t count(LayerRange range) const;  // layers of the range that have it
    // Returns the first position that rows from `next` on attend to.
    std::int64_t first_position(std::int64_t next) const;
    // Returns how many blocks, from the first on, rows from `next` on attend to nothing of.
    std::int64_t needless_blocks(std::int64_t next, std::int32_t block_size) const {
        return first_position(next) / block_size;
    }
    // Returns the most blocks that a sequence of so many tokens needs at once in a layer with the
    // window, while it is computed so many rows at a time: what the first of them attends to and
    // they themselves.
    std::int64_t most_blocks(std::int64_t tokens, std::int64_t rows, std::int32_t block_size) const;
};

}  // namespace helix::spec
