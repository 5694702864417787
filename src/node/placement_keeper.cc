#include "node/placement_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/log.h"

namespace helix::node {

using base::Result;

namespace {

// Layers of one model may not fit where those of another did, nor with larger KV pages.
std::string fingerprint(const ServedModel& model) {
    return fmt::format("{} {} {} layers, {} KV", base::to_hex(model.hash), model.spec.name,
                       model.spec.n_layers, engine::ops::to_string(model.kv_type));
}

store::PlacementRecord to_record(const core::RememberedPlacement& placement, std::string model) {
    store::PlacementRecord record;
    record.model = std::move(model);
    for (const auto& holder : placement.holders) {
        record.holders.push_back(
            {holder.worker, holder.layers.begin, holder.layers.end, holder.memory_bytes});
    }
    for (const auto& flow : placement.flows) {
        record.flows.push_back({flow.from, flow.to, flow.tokens_per_s});
    }
    return record;
}

Result<core::RememberedPlacement> from_record(const store::PlacementRecord& record,
                                              std::int32_t n_layers) {
    core::RememberedPlacement placement;
    for (const auto& holder : record.holders) {
        constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
        if (std::min(holder.begin, holder.end) < 0 || std::max(holder.begin, holder.end) > kMost) {
            return base::invalid("worker " + holder.worker + " has layers that no model has");
        }
        const spec::LayerRange layers{static_cast<std::int32_t>(holder.begin),
                                      static_cast<std::int32_t>(holder.end)};
        placement.holders.push_back({holder.worker, layers, holder.memory_bytes});
    }
    for (const auto& flow : record.flows) {
        placement.flows.push_back({flow.from, flow.to, flow.tokens_per_s});
    }
    TRY_VOID(core::check_remembered(placement, n_layers));
    return placement;
}

}  // namespace

Result<std::unique_ptr<PlacementKeeper>> PlacementKeeper::open(const store::Place& place,
                                                               const ServedModel& model) {
    auto store = store::PlacementStore::open(place);
    if (!store.ok() && (store.error().code == base::Errc::unavailable ||
                        store.error().code == base::Errc::denied)) {
        return store.error();
    }
    std::unique_ptr<PlacementKeeper> keeper;
    if (store.ok()) {
        keeper.reset(new PlacementKeeper(std::move(*store), fingerprint(model)));
        keeper->read(model.spec.n_layers);
        keeper->read_drains();
    } else {
        LOG_WARN("{}; it is left as it is, and neither placement nor drains are remembered",
                 store.error().message);
        keeper.reset(new PlacementKeeper(nullptr, ""));
    }
    return keeper;
}

PlacementKeeper::PlacementKeeper(std::unique_ptr<store::PlacementStore> store, std::string model)
    : store_(std::move(store)), model_(std::move(model)), thread_([this] { work(); }) {}

PlacementKeeper::~PlacementKeeper() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void PlacementKeeper::read(std::int32_t n_layers) {
    const auto record = store_->load();
    if (!record.ok()) {
        LOG_WARN("{}; the placement from before the restart is not known", record.error().message);
        return;
    }
    if (!record->has_value()) return;
    if ((*record)->model != model_) {
        LOG_INFO(
            "{}: the placement that was kept is of another model ({}), not of {}: it is not "
            "used",
            store_->path(), (*record)->model, model_);
        return;
    }
    auto placement = from_record(**record, n_layers);
    if (placement.ok()) {
        remembered_ = std::move(*placement);
    } else {
        LOG_WARN("{}: the placement that was kept is not used: {}", store_->path(),
                 placement.error().message);
    }
}

void PlacementKeeper::read_drains() {
    const auto records = store_->load_drains();
    if (!records.ok()) {
        LOG_WARN("{}; the drains from before the restart are not known", records.error().message);
        return;
    }
    for (const store::DrainRecord& one : *records) drains_.push_back({one.worker, one.remove});
}

void PlacementKeeper::keep(const core::RememberedPlacement& placement) {
    if (store_ == nullptr) return;
    {
        const std::lock_guard lock(mutex_);
        to_write_ = to_record(placement, model_);
    }
    changed_.notify_all();
}

void PlacementKeeper::keep_drains(const std::vector<core::RememberedDrain>& drains) {
    if (store_ == nullptr) return;
    std::vector<store::DrainRecord> records;
    for (const core::RememberedDrain& one : drains) records.push_back({one.worker, one.remove});
    {
        const std::lock_guard lock(mutex_);
        drains_to_write_ = std::move(records);
    }
    changed_.notify_all();
}

// False: the database is away, and the record is still to be written.
template <typename Record>
bool PlacementKeeper::save(const char* what, std::optional<Record>& record,
                           base::Status (store::PlacementStore::*write)(const Record&) const) {
    if (!record) return true;
    const base::Status written = (store_.get()->*write)(*record);
    if (!written.ok() && written.error().code == base::Errc::unavailable) return false;
    if (!written.ok()) LOG_WARN("{} not kept: {}", what, written.error().message);
    record.reset();
    return true;
}

void PlacementKeeper::work() {
    constexpr std::chrono::seconds kAgainAfter{1};
    std::optional<store::PlacementRecord> placement;
    std::optional<std::vector<store::DrainRecord>> drains;
    bool told = false;
    std::unique_lock lock(mutex_);
    while (true) {
        const auto wanted = [this] { return stopping_ || to_write_ || drains_to_write_; };
        if (placement || drains) {
            changed_.wait_for(lock, kAgainAfter, wanted);
        } else {
            changed_.wait(lock, wanted);
        }
        const bool last = stopping_;
        if (to_write_) placement = std::exchange(to_write_, std::nullopt);
        if (drains_to_write_) drains = std::exchange(drains_to_write_, std::nullopt);
        lock.unlock();
        const bool there = save("the placement is", placement, &store::PlacementStore::save) &&
                           save("the drains are", drains, &store::PlacementStore::save_drains);
        if (!there && (!told || last)) {
            LOG_WARN("placement and drains are not kept: {} is away{}", store_->path(),
                     last ? "" : ", and is tried again");
        }
        told = !there;
        if (last) return;
        lock.lock();
    }
}

}  // namespace helix::node
