#include "engine/proof/operator_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
#include "engine/ops/sums.h"
#include "engine/proof/made_data.h"

namespace helix::engine::proof {
namespace {

using base::size_of;

// Of rows * width floats.
void make_hostile(std::vector<float>& x, std::int64_t width) {
    CHECK(width >= 128 && std::ssize(x) >= 4 * width);
    std::fill_n(x.begin(), width, 0.0F);
    std::fill_n(x.begin() + width, width / 2, 1e-31F);
    x[size_of(2 * width + 40)] = std::numeric_limits<float>::infinity();
    x[size_of(3 * width + 70)] = std::numeric_limits<float>::quiet_NaN();
}

std::vector<float> hostile_kv(base::Random& random, std::size_t n, std::size_t head_dim) {
    auto x = random_floats(random, n);
    const float special[] = {1e-6F, 6e-8F, 3e-8F, 70000.0F, -65520.0F, 65519.0F, 1e-40F, -0.0F};
    for (std::size_t i = 0; i < std::min<std::size_t>(n, 8); ++i) x[i] = special[i];
    if (n > 2 * head_dim) {
        for (std::size_t i = n - head_dim; i < n; ++i) x[i] = 1e-31F;
        x[head_dim + 1] = std::numeric_limits<float>::infinity();
        x[head_dim + 2] = std::numeric_limits<float>::quiet_NaN();
    }
    return x;
}

// rooms: see AttentionCase.
ops::KvLayout layout_of(ops::KvType type, int heads, int head_dim, int block_size, int rooms) {
    heads *= rooms;
    head_dim = (head_dim + rooms - 1) / rooms;
    ops::KvLayout layout;
    layout.type = type;
    layout.n_kv_heads = heads;
    layout.head_dim = head_dim;
    layout.block_size = block_size;
    return layout;
}

// The product of an operator's rows with a small quantised matrix: a device may make them int8 for
// it in that operator. There is none of other widths than whole blocks.
class NextProduct {
  public:
    static base::Result<NextProduct> create(Device& device, const WidthCase& c,
                                            std::uint64_t seed) {
        NextProduct made;
        if (c.width % 32 != 0) return made;
        base::Random random(base::hash_pair(seed, 1));
        const StoredMatrix w =
            random_matrix(random, model::TensorType::q8_0, size_of(kOutputs), size_of(c.width));
        TRY(made.matrix_,
            device.make_matrix({model::TensorType::q8_0, 1, kOutputs, c.width}, w.bytes));
        TRY(made.y_, poisoned_buffer(device, c.rows * kOutputs));
        return made;
    }
    void multiply(Device& device, const Buffer& x, std::int64_t rows) const {
        if (matrix_ == nullptr) return;
        const ops::Projection one[] = {{*matrix_, *y_, false}};
        device.matmul({x, rows, one});
    }
    base::Status read(Device& device, std::vector<float>& values) const {
        return y_ == nullptr ? base::Status(base::Ok{}) : read_all(device, *y_, values);
    }

  private:
    static constexpr std::int64_t kOutputs = 3;
    std::unique_ptr<Matrix> matrix_;
    std::unique_ptr<Buffer> y_;
};

// Of matrices whose type may have factors.
std::vector<float> made_factors(model::TensorType type, std::int64_t count) {
    std::vector<float> factors;
    for (std::int64_t i = 0; i < count && !model::factor_tensor(type, ".weight").empty(); ++i)
        factors.push_back(0.37F / static_cast<float>(i + 1));
    return factors;
}

}  // namespace

Values matmul_values(Device& device, const MatmulCase& c, std::uint64_t seed) {
    base::Random random(seed);
    const std::int64_t cols = fitting_cols(c.type, c.cols);
    const StoredMatrix w = random_matrix(random, c.type, size_of(c.outputs), size_of(cols));
    std::vector<float> x = random_floats(random, size_of(c.rows * cols), 3);
    if (c.hostile) make_hostile(x, cols);
    const std::vector<float> y = random_floats(random, size_of(c.rows * c.outputs), 2);
    TRY(const auto matrix,
        device.make_matrix({c.type, 1, c.outputs, cols, made_factors(c.type, 1)}, w.bytes));
    TRY(const auto from, filled_buffer(device, x));
    TRY(const auto to, poisoned_buffer(device, std::ssize(y)));
    TRY(const auto added, filled_buffer(device, y));
    const ops::Projection both[] = {{*matrix, *to, false}, {*matrix, *added, true}};
    device.matmul({*from, c.rows, both});
    std::vector<float> values;
    TRY_VOID(read_all(device, *to, values));
    TRY_VOID(read_all(device, *added, values));
    return values;
}

Values experts_values(Device& device, const ExpertsCase& c, std::uint64_t seed) {
    base::Random random(seed);
    const std::int64_t cols = fitting_cols(c.type, c.cols);
    const std::int64_t visits = c.rows * c.n_used;
    const StoredMatrix w =
        random_matrix(random, c.type, size_of(c.n_experts * c.outputs), size_of(cols));
    const std::vector<float> x = random_floats(random, size_of(c.rows * cols));
    const std::vector<float> scores = random_floats(random, size_of(c.rows * c.n_experts));
    TRY(const auto of_rows, filled_buffer(device, scores));
    const std::unique_ptr<Routing> routing = device.make_routing();
    device.route_rows({*of_rows, c.rows, c.n_experts, c.n_used, true, *routing});
    TRY(const auto from, filled_buffer(device, x));
    TRY(const auto gathered, poisoned_buffer(device, visits * cols));
    device.gather_visits({*routing, *from, *gathered, cols});
    TRY(const auto matrix,
        device.make_matrix(
            {c.type, c.n_experts, c.outputs, cols, made_factors(c.type, c.n_experts)}, w.bytes));
    TRY(const auto products, poisoned_buffer(device, visits * c.outputs));
    const ops::Projection one[] = {{*matrix, *products, false}};
    device.expert_matmul({*routing, *gathered, one});
    TRY(const auto sums, filled_buffer(device, std::vector<float>(size_of(c.rows * c.outputs))));
    device.add_visits({*routing, *products, *sums, c.outputs});
    std::vector<float> values;
    TRY_VOID(read_all(device, *sums, values));
    return values;
}

Values routing_values(Device& device, const RoutingCase& c, std::uint64_t seed) {
    constexpr std::int64_t kWidth = 37;
    base::Random random(seed);
    std::vector<float> scores = random_floats(random, size_of(c.rows * c.n_experts), 3);
    for (float& score : scores) {
        if (random.chance(0.2)) score = 0.5F;  // ties
        if (random.chance(0.02)) score = std::numeric_limits<float>::quiet_NaN();
    }
    TRY(const auto of_rows, filled_buffer(device, scores));
    TRY(const auto from, filled_buffer(device, random_floats(random, size_of(c.rows * kWidth))));
    TRY(const auto visits, poisoned_buffer(device, c.rows * c.n_used * kWidth));
    const std::unique_ptr<Routing> routing = device.make_routing();
    TRY(const auto bias, filled_buffer(device, random_floats(random, size_of(c.n_experts), 0.3)));
    device.route_rows({*of_rows, c.rows, c.n_experts, c.n_used, c.normalise, *routing,
                       c.normalise ? 0.7F : 1.0F, c.sigmoid,
                       c.sigmoid && !c.weighted_inputs ? bias.get() : nullptr,
                       c.factors ? bias.get() : nullptr, c.n_groups, c.n_groups_used});
    device.gather_visits({*routing, *from, *visits, kWidth, c.weighted_inputs});
    device.add_visits({*routing, *visits, *from, kWidth, c.factors, !c.weighted_inputs});
    std::vector<float> values;
    TRY_VOID(read_all(device, *from, values));
    return values;
}

Values attention_values(Device& device, const AttentionCase& c, std::uint64_t seed) {
    base::Random random(seed);
    const int blocks = (c.positions + c.block_size - 1) / c.block_size;
    TRY(const auto kv,
        device.make_kv_arena(layout_of(c.type, c.n_kv_heads, c.head_dim, c.block_size, c.rooms),
                             2 * blocks + 1, 0));
    const ops::KvHeads heads{c.n_kv_heads, c.head_dim};
    // Every second page is of the other sequence; the last comes first.
    std::vector<core::PageId> pages[2];
    for (int b = 0; b < blocks; ++b) {
        for (int s = 0; s < 2; ++s)
            pages[s].push_back(static_cast<core::PageId>(2 * (blocks - b) - s));
    }
    const std::int64_t width = std::int64_t{c.n_kv_heads} * c.head_dim;
    std::vector<ops::SequenceRows> all, last;
    for (int s = 0; s < 2; ++s) {
        all.push_back({std::int64_t{s} * c.positions, c.positions, 0, pages[s]});
        last.push_back(
            {s * c.rows, c.rows, static_cast<std::int32_t>(c.positions - c.rows), pages[s]});
    }
    auto key_values = random_floats(random, size_of(2 * c.positions * width), 2);
    for (std::int64_t s = 0; c.infinite && s < 2; ++s) {
        std::fill_n(key_values.begin() + s * c.positions * width, ops::kChunkPositions * width,
                    -std::numeric_limits<float>::infinity());
    }
    TRY(const auto keys, filled_buffer(device, key_values));
    TRY(const auto values,
        filled_buffer(device, random_floats(random, size_of(2 * c.positions * width), 2)));
    device.kv_store({*kv, *keys, *values, all, heads});
    const std::int64_t floats = 2 * c.rows * c.n_heads * c.head_dim;
    auto query = random_floats(random, size_of(floats), 2);
    if (c.infinite) {
        for (float& each : query) each = std::abs(each);
    }
    TRY(const auto q, filled_buffer(device, query));
    TRY(const auto out, poisoned_buffer(device, floats));
    TRY(const auto sinks, filled_buffer(device, random_floats(random, size_of(c.n_heads), 3)));
    auto falls = random_floats(random, size_of(c.n_heads), 1);
    for (float& slope : falls) slope = std::abs(slope);
    TRY(const auto slopes, filled_buffer(device, falls));
    device.attention({*kv, *q, *out, c.n_heads, c.window, last, c.scale, c.softcap,
                      c.sinks ? sinks.get() : nullptr, heads, c.chunked, c.both_ways,
                      c.slopes ? slopes.get() : nullptr});
    std::vector<float> result;
    TRY_VOID(read_all(device, *out, result));
    return result;
}

Values kv_store_values(Device& device, const KvStoreCase& c, std::uint64_t seed) {
    constexpr core::PageId kPages = 4;
    base::Random random(seed);
    const ops::KvLayout layout = layout_of(c.type, c.n_kv_heads, c.head_dim, c.block_size, c.rooms);
    const auto width = size_of(std::int64_t{c.n_kv_heads} * c.head_dim);
    TRY(const auto keys, filled_buffer(device, hostile_kv(random, 9 * width, size_of(c.head_dim))));
    TRY(const auto values,
        filled_buffer(device, hostile_kv(random, 9 * width, size_of(c.head_dim))));
    std::vector<std::byte> page(size_of(layout.page_bytes()));
    for (std::byte& byte : page) byte = static_cast<std::byte>(random.next());
    TRY(const auto kv, device.make_kv_arena(layout, kPages, 0));
    for (core::PageId i = 0; i < kPages; ++i) TRY_VOID(kv->write(i, page.data()));
    const core::PageId first[] = {3, 0};
    const core::PageId second[] = {1, 2};
    // Rows 0 to 5 cross from one page to the next where the block is small.
    const ops::SequenceRows rows[] = {{0, 6, 2, first}, {6, 3, c.block_size, second}};
    device.kv_store({*kv, *keys, *values, rows, {c.n_kv_heads, c.head_dim}});
    std::vector<float> bytes;
    for (core::PageId i = 0; i < kPages; ++i) {
        TRY_VOID(kv->read(i, page.data()));
        for (const std::byte byte : page)
            bytes.push_back(static_cast<float>(std::to_integer<int>(byte)));
    }
    return bytes;
}

Values rms_norm_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    base::Random random(seed);
    TRY(const auto from,
        filled_buffer(device, random_floats(random, size_of(c.rows * c.width), 5)));
    TRY(const auto by, filled_buffer(device, random_floats(random, size_of(c.width))));
    TRY(const auto to, poisoned_buffer(device, c.rows * c.width));
    TRY(const NextProduct next, NextProduct::create(device, c, seed));
    device.rms_norm({*from, *by, *to, c.rows, c.width, 1e-5F});
    next.multiply(device, *to, c.rows);
    device.rms_norm({*from, *by, *from, c.rows, c.width, 1e-5F});
    std::vector<float> values;
    TRY_VOID(read_all(device, *to, values));
    TRY_VOID(read_all(device, *from, values));
    TRY_VOID(next.read(device, values));
    return values;
}

namespace {

std::vector<float> hostile_rows(base::Random& random, const WidthCase& c) {
    std::vector<float> x = random_floats(random, size_of(c.rows * c.width), 20);
    if (x.size() > 8) {
        x[1] = 90;
        x[2] = -95;
        x[3] = -0.0F;
        x[4] = std::numeric_limits<float>::infinity();
        x[5] = -std::numeric_limits<float>::infinity();
        x[6] = std::numeric_limits<float>::quiet_NaN();
    }
    return x;
}

template <typename Run>
Values gated_values(Device& device, const WidthCase& c, std::uint64_t seed, const Run& run) {
    base::Random random(seed);
    TRY(const auto to, filled_buffer(device, hostile_rows(random, c)));
    TRY(const auto up, filled_buffer(device, random_floats(random, size_of(c.rows * c.width))));
    TRY(const NextProduct next, NextProduct::create(device, c, seed));
    run(*to, *up);
    next.multiply(device, *to, c.rows);
    std::vector<float> values;
    TRY_VOID(read_all(device, *to, values));
    TRY_VOID(next.read(device, values));
    return values;
}

}  // namespace

Values swiglu_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    return gated_values(device, c, seed, [&](Buffer& gate, const Buffer& up) {
        device.swiglu({gate, up, c.rows, c.width});
    });
}

Values geglu_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    return gated_values(device, c, seed, [&](Buffer& gate, const Buffer& up) {
        device.geglu({gate, up, c.rows, c.width});
    });
}

Values exact_geglu_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    return gated_values(device, c, seed, [&](Buffer& gate, const Buffer& up) {
        device.geglu({gate, up, c.rows, c.width, true});
    });
}

Values reglu_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    return gated_values(device, c, seed, [&](Buffer& gate, const Buffer& up) {
        device.reglu({gate, up, c.rows, c.width});
    });
}

Values gelu_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    base::Random random(seed);
    TRY(const auto x, filled_buffer(device, hostile_rows(random, c)));
    TRY(const NextProduct next, NextProduct::create(device, c, seed));
    device.gelu({*x, c.rows, c.width});
    next.multiply(device, *x, c.rows);
    std::vector<float> values;
    TRY_VOID(read_all(device, *x, values));
    TRY_VOID(next.read(device, values));
    return values;
}

Values clamped_swiglu_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    return gated_values(device, c, seed, [&](Buffer& gate, const Buffer& up) {
        device.clamped_swiglu({gate, up, c.rows, c.width});
    });
}

Values add_bias_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    constexpr int kExperts = 5;
    base::Random random(seed);
    TRY(const auto x, filled_buffer(device, random_floats(random, size_of(c.rows * c.width))));
    TRY(const auto visits, filled_buffer(device, random_floats(random, size_of(c.rows * c.width))));
    TRY(const auto bias, filled_buffer(device, random_floats(random, size_of(c.width), 3)));
    TRY(const auto biases,
        filled_buffer(device, random_floats(random, size_of(kExperts * c.width), 3)));
    TRY(const auto scores,
        filled_buffer(device, random_floats(random, size_of(c.rows * kExperts), 3)));
    const std::unique_ptr<Routing> routing = device.make_routing();
    device.route_rows({*scores, c.rows, kExperts, 1, true, *routing});
    device.add_bias({*x, *bias, c.rows, c.width});
    device.add_bias({*visits, *biases, c.rows, c.width, routing.get()});
    std::vector<float> values;
    TRY_VOID(read_all(device, *x, values));
    TRY_VOID(read_all(device, *visits, values));
    return values;
}

Values layer_norm_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    base::Random random(seed);
    TRY(const auto from,
        filled_buffer(device, random_floats(random, size_of(c.rows * c.width), 5)));
    TRY(const auto by, filled_buffer(device, random_floats(random, size_of(c.width))));
    TRY(const auto to, poisoned_buffer(device, c.rows * c.width));
    device.layer_norm({*from, *by, *to, c.rows, c.width, 1e-5F});
    device.layer_norm({*from, *by, *from, c.rows, c.width, 1e-5F});
    std::vector<float> values;
    TRY_VOID(read_all(device, *to, values));
    TRY_VOID(read_all(device, *from, values));
    return values;
}

Values scale_rows_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    base::Random random(seed);
    const std::vector<float> x = hostile_rows(random, c);
    TRY(const auto factored, filled_buffer(device, x));
    TRY(const auto capped, filled_buffer(device, x));
    device.scale_rows({*factored, c.rows, c.width, 0.3F});
    device.scale_rows({*capped, c.rows, c.width, 0.7F, 30.0F});
    std::vector<float> values;
    TRY_VOID(read_all(device, *factored, values));
    TRY_VOID(read_all(device, *capped, values));
    return values;
}

Values add_rows_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    base::Random random(seed);
    TRY(const auto x, filled_buffer(device, random_floats(random, size_of(c.rows * c.width))));
    TRY(const auto y, filled_buffer(device, random_floats(random, size_of(c.rows * c.width), 3)));
    device.add_rows({*x, *y, c.rows, c.width});
    device.add_rows({*x, *y, c.rows, c.width, 0.22F});
    std::vector<float> values;
    TRY_VOID(read_all(device, *y, values));
    return values;
}

Values copy_rows_values(Device& device, const WidthCase& c, std::uint64_t seed) {
    base::Random random(seed);
    CHECK(c.rows >= 6);
    const ops::RowRange ranges[] = {{0, 3, 2}, {4, 0, 1}, {5, c.rows, 1}, {2, 2, 0}};
    TRY(const auto from, filled_buffer(device, random_floats(random, size_of(c.rows * c.width))));
    TRY(const auto to,
        filled_buffer(device, std::vector<float>(size_of((c.rows + 1) * c.width), 42.0F)));
    device.copy_rows({*from, *to, c.width, ranges});
    std::vector<float> values;
    TRY_VOID(read_all(device, *to, values));
    return values;
}

Values rope_values(Device& device, const RopeCase& c, std::uint64_t seed) {
    base::Random random(seed);
    const auto width = size_of(std::int64_t{c.n_heads} * c.head_dim);
    TRY(const auto heads, filled_buffer(device, random_floats(random, size_of(c.rows) * width)));
    TRY(const auto biases, filled_buffer(device, random_floats(random, width)));
    TRY(const auto norms, filled_buffer(device, random_floats(random, size_of(c.head_dim))));
    TRY(const auto table,
        filled_buffer(device, random_floats(random, size_of(c.rows * c.rope_dim))));
    const ops::ProjectedHeads of[] = {{*heads, c.n_heads, c.bias ? biases.get() : nullptr,
                                       c.norm ? norms.get() : nullptr, c.rotate}};
    device.rope({of, *table, c.rows, c.head_dim, c.rope_dim, c.pairs, 1e-6F});
    std::vector<float> values;
    TRY_VOID(read_all(device, *heads, values));
    return values;
}

}  // namespace helix::engine::proof
