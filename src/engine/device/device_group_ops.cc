#include <algorithm>

#include "base/check.h"
#include "base/index.h"
#include "engine/device/device_group.h"
#include "engine/device/group_kv_arena.h"

// The operators of a DeviceGroup: each rank's own operator, on what it has whole or on its columns.

namespace helix::engine {
namespace {

Buffer& whole_of(const Buffer& buffer, std::size_t rank) {
    return *static_cast<const GroupBuffer&>(buffer).state().whole[rank];
}

Buffer& columns_of(const Buffer& buffer, std::size_t rank) {
    return *static_cast<const GroupBuffer&>(buffer).state().parts[rank];
}

const GroupMatrix& group_matrix(const ops::Projection& projection) {
    return static_cast<const GroupMatrix&>(projection.matrix);
}

std::int64_t rows_through(std::span<const ops::SequenceRows> sequences) {
    std::int64_t rows = 0;
    for (const ops::SequenceRows& s : sequences) rows = std::max(rows, s.first_row + s.rows);
    return rows;
}

ops::KvHeads heads_of_rank(ops::KvHeads all, std::int64_t ranks) {
    CHECK(all.count % ranks == 0);
    return {all.count / static_cast<int>(ranks), all.dim};
}

// Says whether it has to be gathered before it is whole.
bool is_divided(const Buffer& buffer) {
    const GroupBuffer::State& state = static_cast<const GroupBuffer&>(buffer).state();
    return state.parts_valid && !state.whole_valid;
}

}  // namespace

void DeviceGroup::rms_norm(const ops::RmsNorm& op) {
    if (!need_whole(op.x) || !need_whole(op.weight) || !write_whole(op.y)) return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->rms_norm({whole_of(op.x, rank), whole_of(op.weight, rank),
                                whole_of(op.y, rank), op.rows, op.width, op.epsilon});
    }
}

bool DeviceGroup::write_product(const ops::Projection& to, std::int64_t rows) {
    const std::int64_t width = to.matrix.shape().rows;
    if (group_matrix(to).divided()) {
        if (!to.accumulate) return write_parts(to.y, rows, width);
        if (!need_parts(to.y, rows, width)) return false;
        only_parts(to.y);
        return true;
    }
    if (!to.accumulate) return write_whole(to.y);
    if (!need_whole(to.y)) return false;
    only_whole(to.y);
    return true;
}

bool DeviceGroup::prepare_products(const Buffer& x, std::int64_t rows,
                                   std::span<const ops::Projection> to) {
    if (rows == 0 || !need_whole(x)) return false;
    return std::all_of(to.begin(), to.end(), [&](const ops::Projection& projection) {
        return write_product(projection, rows);
    });
}

std::vector<ops::Projection> DeviceGroup::products_of(std::size_t rank,
                                                      std::span<const ops::Projection> to) const {
    std::vector<ops::Projection> own;
    for (const ops::Projection& one : to) {
        const GroupMatrix& matrix = group_matrix(one);
        Buffer& y = matrix.divided() ? columns_of(one.y, rank) : whole_of(one.y, rank);
        own.push_back({matrix.part(rank), y, one.accumulate});
    }
    return own;
}

void DeviceGroup::matmul(const ops::Matmul& op) {
    if (!prepare_products(op.x, op.rows, op.to)) return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        ranks_[rank]->matmul({whole_of(op.x, rank), op.rows, products_of(rank, op.to)});
}

void DeviceGroup::expert_matmul(const ops::ExpertMatmul& op) {
    const auto& routing = static_cast<const GroupRouting&>(op.routing);
    if (!prepare_products(op.x, routing.visits, op.to)) return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->expert_matmul(
            {*routing.of_rank[rank], whole_of(op.x, rank), products_of(rank, op.to)});
    }
}

void DeviceGroup::rope(const ops::Rope& op) {
    if (!need_whole(op.angles)) return;
    for (const ops::ProjectedHeads& heads : op.heads) {
        const std::int64_t width = std::int64_t{heads.n_heads} * op.head_dim;
        CHECK(heads.n_heads % ranks() == 0);
        if (heads.bias != nullptr && !need_parts(*heads.bias, 1, width)) return;
        if (heads.norm != nullptr && !need_whole(*heads.norm)) return;
        if (!need_parts(heads.x, op.rows, width)) return;
        only_parts(heads.x);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        std::vector<ops::ProjectedHeads> own;
        for (const ops::ProjectedHeads& heads : op.heads) {
            own.push_back({columns_of(heads.x, rank), heads.n_heads / static_cast<int>(ranks()),
                           heads.bias == nullptr ? nullptr : &columns_of(*heads.bias, rank),
                           heads.norm == nullptr ? nullptr : &whole_of(*heads.norm, rank),
                           heads.rotate});
        }
        ranks_[rank]->rope({own, whole_of(op.angles, rank), op.rows, op.head_dim, op.rope_dim,
                            op.pairs, op.epsilon});
    }
}

void DeviceGroup::kv_store(const ops::KvStore& op) {
    const auto& kv = static_cast<const GroupKvArena&>(op.kv);
    const std::int64_t rows = rows_through(op.sequences);
    const ops::KvLayout layout = kv.layout().of_heads(op.heads);
    const std::int64_t width = std::int64_t{layout.n_kv_heads} * layout.head_dim;
    if (rows == 0 || !need_parts(op.keys, rows, width) || !need_parts(op.values, rows, width))
        return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->kv_store({kv.of_rank(rank), columns_of(op.keys, rank),
                                columns_of(op.values, rank), op.sequences,
                                heads_of_rank(op.heads, ranks())});
    }
}

void DeviceGroup::attention(const ops::Attention& op) {
    const auto& kv = static_cast<const GroupKvArena&>(op.kv);
    const std::int64_t rows = rows_through(op.sequences);
    const std::int64_t width = std::int64_t{op.n_heads} * kv.layout().of_heads(op.heads).head_dim;
    CHECK(op.n_heads % ranks() == 0);
    if (op.sinks != nullptr && !need_parts(*op.sinks, 1, op.n_heads)) return;
    if (op.slopes != nullptr && !need_parts(*op.slopes, 1, op.n_heads)) return;
    if (rows == 0 || !need_parts(op.q, rows, width) || !write_parts(op.out, rows, width)) return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->attention({kv.of_rank(rank), columns_of(op.q, rank), columns_of(op.out, rank),
                                 op.n_heads / static_cast<int>(ranks()), op.window, op.sequences,
                                 op.scale, op.softcap,
                                 op.sinks == nullptr ? nullptr : &columns_of(*op.sinks, rank),
                                 heads_of_rank(op.heads, ranks()), op.chunked, op.both_ways,
                                 op.slopes == nullptr ? nullptr : &columns_of(*op.slopes, rank)});
    }
}

// Of each rank's columns, or of all on every rank.
template <typename Gated, typename Run>
void DeviceGroup::run_gated(const Gated& op, const Run& run) {
    if (op.rows == 0) return;
    const bool parts = is_divided(op.gate);
    if (parts) {
        if (!need_parts(op.gate, op.rows, op.width) || !need_parts(op.up, op.rows, op.width))
            return;
        only_parts(op.gate);
    } else {
        if (!need_whole(op.gate) || !need_whole(op.up)) return;
        only_whole(op.gate);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const auto of = [&](const Buffer& buffer) -> Buffer& {
            return parts ? columns_of(buffer, rank) : whole_of(buffer, rank);
        };
        const std::int64_t width =
            parts ? columns(op.width, static_cast<std::int64_t>(rank)) : op.width;
        run(*ranks_[rank], Gated{of(op.gate), of(op.up), op.rows, width});
    }
}

void DeviceGroup::swiglu(const ops::Swiglu& op) {
    run_gated(op, [](Device& device, const ops::Swiglu& own) { device.swiglu(own); });
}

void DeviceGroup::geglu(const ops::Geglu& op) {
    run_gated(op, [&op](Device& device, const ops::Geglu& own) {
        device.geglu({own.gate, own.up, own.rows, own.width, op.exact});
    });
}

void DeviceGroup::reglu(const ops::Reglu& op) {
    run_gated(op, [](Device& device, const ops::Reglu& own) { device.reglu(own); });
}

// The same of one buffer, which run gets with its width.
template <typename InPlace, typename Run>
void DeviceGroup::run_in_place(const InPlace& op, const Run& run) {
    if (op.rows == 0) return;
    const bool parts = is_divided(op.x);
    if (parts ? !need_parts(op.x, op.rows, op.width) : !need_whole(op.x)) return;
    parts ? only_parts(op.x) : only_whole(op.x);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const std::int64_t width =
            parts ? columns(op.width, static_cast<std::int64_t>(rank)) : op.width;
        run(*ranks_[rank], parts ? columns_of(op.x, rank) : whole_of(op.x, rank), width);
    }
}

void DeviceGroup::gelu(const ops::Gelu& op) {
    run_in_place(op, [&op](Device& device, Buffer& x, std::int64_t width) {
        device.gelu({x, op.rows, width});
    });
}

void DeviceGroup::clamped_swiglu(const ops::ClampedSwiglu& op) {
    run_gated(op,
              [](Device& device, const ops::ClampedSwiglu& own) { device.clamped_swiglu(own); });
}

void DeviceGroup::add_bias(const ops::AddBias& op) {
    if (op.rows == 0) return;
    const bool parts = is_divided(op.x);
    const std::int64_t biases = op.bias.size() / op.width;
    if (parts ? !need_parts(op.bias, biases, op.width) || !need_parts(op.x, op.rows, op.width)
              : !need_whole(op.bias) || !need_whole(op.x)) {
        return;
    }
    parts ? only_parts(op.x) : only_whole(op.x);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const auto of = [&](const Buffer& buffer) -> Buffer& {
            return parts ? columns_of(buffer, rank) : whole_of(buffer, rank);
        };
        const Routing* routing =
            op.routing == nullptr
                ? nullptr
                : static_cast<const GroupRouting*>(op.routing)->of_rank[rank].get();
        const std::int64_t width =
            parts ? columns(op.width, static_cast<std::int64_t>(rank)) : op.width;
        ranks_[rank]->add_bias({of(op.x), of(op.bias), op.rows, width, routing});
    }
}

// Of heads, of which each rank has some.
void DeviceGroup::norm_heads(const ops::LayerNorm& op) {
    const std::int64_t rows = op.rows / op.n_weights;
    const std::int64_t width = op.n_weights * op.width;
    CHECK(op.n_weights % ranks() == 0 && &op.x == &op.y);
    if (!need_parts(op.weight, 1, width) || !need_parts(op.y, rows, width)) return;
    only_parts(op.y);
    const int each = op.n_weights / static_cast<int>(ranks());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->layer_norm({columns_of(op.x, rank), columns_of(op.weight, rank),
                                  columns_of(op.y, rank), rows * each, op.width, op.epsilon, each});
    }
}

void DeviceGroup::layer_norm(const ops::LayerNorm& op) {
    if (op.n_weights > 1) return norm_heads(op);
    if (!need_whole(op.x) || !need_whole(op.weight) || !write_whole(op.y)) return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->layer_norm({whole_of(op.x, rank), whole_of(op.weight, rank),
                                  whole_of(op.y, rank), op.rows, op.width, op.epsilon});
    }
}

void DeviceGroup::scale_rows(const ops::ScaleRows& op) {
    run_in_place(op, [&op](Device& device, Buffer& x, std::int64_t width) {
        device.scale_rows({x, op.rows, width, op.factor, op.cap});
    });
}

void DeviceGroup::add_rows(const ops::AddRows& op) {
    if (op.rows == 0) return;
    if (!is_divided(op.y)) {
        if (!need_whole(op.x) || !need_whole(op.y)) return;
        only_whole(op.y);
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            ranks_[rank]->add_rows(
                {whole_of(op.x, rank), whole_of(op.y, rank), op.rows, op.width, op.factor});
        return;
    }
    if (!need_parts(op.x, op.rows, op.width) || !need_parts(op.y, op.rows, op.width)) return;
    only_parts(op.y);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->add_rows({columns_of(op.x, rank), columns_of(op.y, rank), op.rows,
                                columns(op.width, static_cast<std::int64_t>(rank)), op.factor});
    }
}

void DeviceGroup::copy_rows(const ops::CopyRows& op) {
    if (!need_whole(op.from) || !need_whole(op.to)) return;
    only_whole(op.to);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        ranks_[rank]->copy_rows(
            {whole_of(op.from, rank), whole_of(op.to, rank), op.width, op.ranges});
}

// Every rank has the same scores and so the same order of visits.
void DeviceGroup::route_rows(const ops::RouteRows& op) {
    auto& routing = static_cast<GroupRouting&>(op.routing);
    routing.rows = op.rows;
    routing.visits = op.rows * op.n_used;
    if (!need_whole(op.scores) || (op.bias != nullptr && !need_whole(*op.bias)) ||
        (op.expert_factors != nullptr && !need_whole(*op.expert_factors))) {
        return;
    }
    only_whole(op.scores);
    const auto of = [](const Buffer* buffer, std::size_t rank) {
        return buffer == nullptr ? nullptr : &whole_of(*buffer, rank);
    };
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->route_rows({whole_of(op.scores, rank), op.rows, op.n_experts, op.n_used,
                                  op.normalise, *routing.of_rank[rank], op.factor, op.sigmoid,
                                  of(op.bias, rank), of(op.expert_factors, rank), op.n_groups,
                                  op.n_groups_used});
    }
}

void DeviceGroup::gather_visits(const ops::GatherVisits& op) {
    const auto& routing = static_cast<const GroupRouting&>(op.routing);
    if (!need_whole(op.x) || !write_whole(op.y)) return;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->gather_visits({*routing.of_rank[rank], whole_of(op.x, rank),
                                     whole_of(op.y, rank), op.width, op.weighted});
    }
}

void DeviceGroup::add_visits(const ops::AddVisits& op) {
    const auto& routing = static_cast<const GroupRouting&>(op.routing);
    if (routing.visits == 0) return;
    if (!is_divided(op.x)) {
        if (!need_whole(op.x) || !(op.replace ? write_whole(op.y) : need_whole(op.y))) return;
        only_whole(op.y);
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            ranks_[rank]->add_visits({*routing.of_rank[rank], whole_of(op.x, rank),
                                      whole_of(op.y, rank), op.width, op.replace, op.weighted});
        }
        return;
    }
    if (!need_parts(op.x, routing.visits, op.width) ||
        !(op.replace ? write_parts(op.y, routing.rows, op.width)
                     : need_parts(op.y, routing.rows, op.width))) {
        return;
    }
    only_parts(op.y);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank]->add_visits(
            {*routing.of_rank[rank], columns_of(op.x, rank), columns_of(op.y, rank),
             columns(op.width, static_cast<std::int64_t>(rank)), op.replace, op.weighted});
    }
}

}  // namespace helix::engine
