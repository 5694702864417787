#include "engine/device/device_group.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "engine/device/group_kv_arena.h"

namespace helix::engine {
namespace {

// Below so many outputs for each rank every rank computes all of them, which takes less than to
// gather them: what a router of a few experts says.
constexpr std::int64_t kFewOutputs = 16;

const GroupBuffer& group_buffer(const Buffer& buffer) {
    return static_cast<const GroupBuffer&>(buffer);
}

}  // namespace

base::Status check_heads(int ranks, const model::ModelConfig& config) {
    if (ranks < 1) return base::invalid(fmt::format("{} tensor parallel ranks: at least 1", ranks));
    for (const std::int32_t heads : {config.n_kv_heads, config.windowed_kv_heads}) {
        if (heads % ranks == 0) continue;
        return base::invalid(
            fmt::format("{} tensor parallel ranks cannot share the model's {} key-value heads "
                        "evenly",
                        ranks, heads));
    }
    return base::Ok{};
}

DeviceGroup::DeviceGroup(std::vector<std::unique_ptr<Device>> ranks) : ranks_(std::move(ranks)) {
    CHECK(!ranks_.empty());
}

std::int64_t DeviceGroup::memory_bytes() const {
    std::int64_t least = ranks_.front()->memory_bytes();
    for (const auto& rank : ranks_) least = std::min(least, rank->memory_bytes());
    return ranks() * least;
}

std::int32_t DeviceGroup::compute_threads() const {
    std::int32_t sum = 0;
    for (const auto& rank : ranks_) sum += rank->compute_threads();
    return sum;
}

bool DeviceGroup::lost() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->lost(); });
}

void DeviceGroup::start() {
    for (const auto& rank : ranks_) rank->start();
}

std::int64_t DeviceGroup::columns(std::int64_t width, std::int64_t rank) const {
    return first_column(width, rank + 1, ranks()) - first_column(width, rank, ranks());
}

// ---- errors

bool DeviceGroup::keep(const base::Status& status) {
    if (!status.ok() && !error_) error_ = status.error();
    return !error_.has_value();
}

// The first error; those that the ranks have besides are of the same cause and forgotten.
base::Error DeviceGroup::fail() {
    for (std::size_t rank = 0; rank < nothing_.size(); ++rank) {
        const auto waited = ranks_[rank]->read(*nothing_[rank], 0, 0);
        if (!waited.ok() && !error_) error_ = waited.error();
    }
    const base::Error error = *error_;
    error_.reset();
    return error;
}

// ---- what it holds

base::Result<std::unique_ptr<Buffer>> DeviceGroup::make_buffer(std::int64_t floats) {
    while (std::ssize(nothing_) < ranks()) {
        TRY(auto one, ranks_[nothing_.size()]->make_buffer(1));
        nothing_.push_back(std::move(one));
    }
    return std::unique_ptr<Buffer>(std::make_unique<GroupBuffer>(floats));
}

base::Result<std::unique_ptr<KvArena>> DeviceGroup::make_kv_arena(const ops::KvLayout& page,
                                                                  std::int64_t pages,
                                                                  std::int64_t swap_pages) {
    return GroupKvArena::make(page, pages, swap_pages, ranks_);
}

std::unique_ptr<Routing> DeviceGroup::make_routing() {
    auto routing = std::make_unique<GroupRouting>();
    for (const auto& rank : ranks_) routing->of_rank.push_back(rank->make_routing());
    return routing;
}

// Whole on each rank, and once more in parts.
std::int64_t DeviceGroup::buffer_bytes(std::int64_t floats) const {
    std::int64_t sum = ranks_.front()->buffer_bytes(floats);
    for (const auto& rank : ranks_) sum += rank->buffer_bytes(floats);
    return sum;
}

bool DeviceGroup::divides(const MatrixShape& shape) const {
    return shape.rows >= kFewOutputs * ranks();
}

MatrixShape DeviceGroup::shape_of_rank(const MatrixShape& shape, std::int64_t rank) const {
    MatrixShape part = shape;
    if (divides(shape)) part.rows = columns(shape.rows, rank);
    return part;
}

base::Result<std::unique_ptr<Matrix>> DeviceGroup::make_matrix(const MatrixShape& shape,
                                                               std::span<const std::byte> data) {
    const std::int64_t all_rows = shape.count * shape.rows;
    if (all_rows <= 0 || std::ssize(data) % all_rows != 0) {
        return base::invalid(fmt::format("{} rows in {} bytes of a matrix", all_rows, data.size()));
    }
    const bool divided = divides(shape);
    const std::int64_t row_bytes = std::ssize(data) / all_rows;
    std::vector<std::unique_ptr<Matrix>> parts;
    std::vector<std::byte> own;  // of several matrices, one after the other
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
        const MatrixShape part = shape_of_rank(shape, rank);
        const std::int64_t first = divided ? first_column(shape.rows, rank, ranks()) : 0;
        const std::size_t bytes = base::size_of(part.rows * row_bytes);
        std::span<const std::byte> stored = data;
        if (shape.count == 1) {
            stored = data.subspan(base::size_of(first * row_bytes), bytes);
        } else if (divided) {
            own.resize(base::size_of(part.count) * bytes);
            for (std::int64_t i = 0; i < part.count; ++i) {
                std::memcpy(own.data() + base::size_of(i) * bytes,
                            data.data() + (i * shape.rows + first) * row_bytes, bytes);
            }
            stored = own;
        }
        TRY(auto made, ranks_[base::at(rank)]->make_matrix(part, stored));
        parts.push_back(std::move(made));
    }
    return std::unique_ptr<Matrix>(std::make_unique<GroupMatrix>(shape, divided, std::move(parts)));
}

std::int64_t DeviceGroup::matrix_bytes(const MatrixShape& shape) const {
    std::int64_t sum = 0;
    for (std::int64_t rank = 0; rank < ranks(); ++rank)
        sum += ranks_[base::at(rank)]->matrix_bytes(shape_of_rank(shape, rank));
    return sum;
}

void DeviceGroup::expect_matrices(std::int64_t bytes) {
    for (const auto& rank : ranks_) rank->expect_matrices((bytes + ranks() - 1) / ranks());
}

// ---- whole and in parts

base::Status DeviceGroup::allocate_whole(const GroupBuffer& buffer) {
    State& state = buffer.state();
    for (const auto& rank : ranks_) {
        if (std::ssize(state.whole) == ranks()) break;
        TRY(auto made, rank->make_buffer(buffer.size()));
        state.whole.push_back(std::move(made));
    }
    return base::Ok{};
}

base::Status DeviceGroup::allocate_parts(State& state, std::int64_t rows, std::int64_t width) {
    CHECK(width >= ranks());
    state.parts.resize(ranks_.size());
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
        TRY_VOID(make_room(*ranks_[base::at(rank)], state.parts[base::at(rank)],
                           rows * columns(width, rank)));
    }
    state.rows = rows;
    state.width = width;
    return base::Ok{};
}

base::Result<std::span<const float>> DeviceGroup::collect(const State& state,
                                                          std::int64_t first_row,
                                                          std::int64_t rows) {
    start();
    collected_.resize(base::size_of(rows * state.width));
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
        const std::int64_t own = columns(state.width, rank);
        TRY(const std::span<const float> part,
            ranks_[base::at(rank)]->read(*state.parts[base::at(rank)], first_row * own,
                                         rows * own));
        float* to = collected_.data() + first_column(state.width, rank, ranks());
        for (std::int64_t row = 0; row < rows; ++row) {
            std::copy_n(part.data() + row * own, own, to + row * state.width);
        }
    }
    return std::span<const float>(collected_);
}

base::Status DeviceGroup::gather(const GroupBuffer& buffer) {
    State& state = buffer.state();
    TRY(const std::span<const float> values, collect(state, 0, state.rows));
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        TRY_VOID(ranks_[rank]->write(*state.whole[rank], 0, values));
    return base::Ok{};
}

// Each rank takes its columns of what it has whole.
base::Status DeviceGroup::divide(State& state, std::int64_t rows, std::int64_t width) {
    TRY_VOID(allocate_parts(state, rows, width));
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
        const std::int64_t own = columns(width, rank);
        ranges_.clear();
        for (std::int64_t row = 0; row < rows; ++row) {
            ranges_.push_back({row * width + first_column(width, rank, ranks()), row * own, own});
        }
        ranks_[base::at(rank)]->copy_rows(
            {*state.whole[base::at(rank)], *state.parts[base::at(rank)], 1, ranges_});
    }
    return base::Ok{};
}

bool DeviceGroup::need_whole(const Buffer& buffer) {
    if (error_) return false;
    State& state = group_buffer(buffer).state();
    if (state.whole_valid) return true;
    if (!keep(allocate_whole(group_buffer(buffer)))) return false;
    if (state.parts_valid && !keep(gather(group_buffer(buffer)))) return false;
    state.whole_valid = true;
    return true;
}

bool DeviceGroup::need_parts(const Buffer& buffer, std::int64_t rows, std::int64_t width) {
    CHECK(rows * width <= buffer.size());
    State& state = group_buffer(buffer).state();
    if (error_) return false;
    if (state.parts_valid && state.width == width && state.rows >= rows) return true;
    if (!need_whole(buffer)) return false;
    state.parts_valid = keep(divide(state, rows, width));
    return state.parts_valid;
}

bool DeviceGroup::write_whole(Buffer& buffer) {
    if (error_) return false;
    if (!keep(allocate_whole(group_buffer(buffer)))) return false;
    only_whole(buffer);
    return true;
}

bool DeviceGroup::write_parts(Buffer& buffer, std::int64_t rows, std::int64_t width) {
    CHECK(rows * width <= buffer.size());
    State& state = group_buffer(buffer).state();
    if (error_) return false;
    if (!keep(allocate_parts(state, rows, width))) return false;
    only_parts(buffer);
    return true;
}

void DeviceGroup::only_whole(Buffer& buffer) {
    State& state = group_buffer(buffer).state();
    state.whole_valid = true;
    state.parts_valid = false;
}

void DeviceGroup::only_parts(Buffer& buffer) {
    State& state = group_buffer(buffer).state();
    state.whole_valid = false;
    state.parts_valid = true;
}

// ---- what goes in and out

base::Status DeviceGroup::write(Buffer& buffer, std::int64_t first, std::span<const float> values) {
    CHECK(first >= 0 && first + std::ssize(values) <= buffer.size());
    const State& state = group_buffer(buffer).state();
    const bool all =
        first == 0 && state.parts_valid && std::ssize(values) >= state.rows * state.width;
    if (all ? !write_whole(buffer) : !need_whole(buffer)) return fail();
    only_whole(buffer);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        TRY_VOID(ranks_[rank]->write(*state.whole[rank], first, values));
    return base::Ok{};
}

base::Result<std::span<const float>> DeviceGroup::read(const Buffer& buffer, std::int64_t first,
                                                       std::int64_t count) {
    CHECK(first >= 0 && first + count <= buffer.size());
    const State& state = group_buffer(buffer).state();
    const bool in_parts =
        state.parts_valid && !state.whole_valid && first + count <= state.rows * state.width;
    if (!in_parts && !need_whole(buffer)) return fail();
    if (error_) return fail();
    // Of the parts only rows that are asked for.
    const std::int64_t first_row = in_parts ? first / state.width : 0;
    const std::int64_t end_row = in_parts ? (first + count + state.width - 1) / state.width : 0;
    auto values = in_parts ? collect(state, first_row, end_row - first_row)
                           : ranks_.front()->read(*state.whole[0], first, count);
    if (!values.ok()) {
        keep(values.error());
        return fail();
    }
    if (!in_parts) return *values;
    return values->subspan(base::size_of(first - first_row * state.width), base::size_of(count));
}

}  // namespace helix::engine
