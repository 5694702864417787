#include "engine/runner/pool_rows.h"

#include <cmath>

#include <fmt/format.h>

namespace helix::engine {

ChunkRows rows_to_pool(const core::BatchChunk& chunk) {
    const std::int64_t rows = std::ssize(chunk.tokens);
    switch (chunk.pooling) {
        case spec::Pooling::mean:
            return {0, rows};
        case spec::Pooling::cls:
            return {0, chunk.first_position == 0 ? 1 : 0};
        case spec::Pooling::last:
        case spec::Pooling::rank:
            return {rows - 1, chunk.sample ? 1 : 0};
        case spec::Pooling::none:
            break;
    }
    return {};
}

void add_rows(std::span<const float> rows, std::vector<double>& so_far) {
    const std::size_t width = so_far.size();
    for (std::size_t row = 0; row < rows.size(); row += width) {
        for (std::size_t i = 0; i < width; ++i) so_far[i] += static_cast<double>(rows[row + i]);
    }
}

// The mean has the direction of the sum, so it need not be computed.
base::Result<std::vector<float>> to_embedding(std::span<const double> sum) {
    double squares = 0;
    for (const double value : sum) squares += value * value;
    const double length = std::sqrt(squares);
    if (!(length > 0) || !std::isfinite(length)) {
        return base::Error{base::Errc::internal,
                           fmt::format("the embedding has length {}", length)};
    }
    std::vector<float> values;
    values.reserve(sum.size());
    for (const double value : sum) values.push_back(static_cast<float>(value / length));
    return values;
}

}  // namespace helix::engine
