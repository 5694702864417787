#include "spec/attention_window.h"

#include "base/check.h"

namespace helix::spec {

std::vector<bool> all_but_every(std::int32_t period, std::int32_t n_layers) {
    std::vector<bool> layers;
    for (std::int32_t layer = 0; layer < n_layers; ++layer)
        layers.push_back(period == 0 || (layer + 1) % period != 0);
    return layers;
}

std::int32_t AttentionWindow::count(LayerRange range) const {
    if (!any()) return 0;
    std::int32_t n = 0;
    for (std::int32_t layer = range.begin; layer < range.end; ++layer) n += has(layer) ? 1 : 0;
    return n;
}

std::int64_t AttentionWindow::first_position(std::int64_t next) const {
    if (!any()) return 0;
    if (chunked) return next / positions * positions;
    return std::max<std::int64_t>(0, next - positions + 1);
}

std::int64_t AttentionWindow::most_blocks(std::int64_t tokens, std::int64_t rows,
                                          std::int32_t block_size) const {
    CHECK(rows > 0 && block_size > 0);
    const std::int64_t all = (tokens + block_size - 1) / block_size;
    if (!any()) return all;
    // So many positions in a row lie in the most blocks when the first has one of them only.
    const std::int64_t span = positions - 1 + rows;
    return std::min(all, (span - 2 + block_size) / block_size + 1);
}

}  // namespace helix::spec
