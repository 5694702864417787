#include "api/protocols/kept_responses.h"

#include <utility>

#include "base/log.h"

namespace helix::api {
namespace {

// The most bytes that all take.
constexpr std::int64_t kMostResponseBytes = std::int64_t{1} << 30U;
// The most bytes that wait for a database that is away.
constexpr std::int64_t kMostUnsavedBytes = std::int64_t{64} << 20U;

std::int64_t bytes_of(const store::ResponseRecord& record) {
    return std::ssize(record.body) + std::ssize(record.items);
}

}  // namespace

base::Result<std::unique_ptr<KeptResponses>> KeptResponses::open(const store::Place& place) {
    TRY(auto store, store::ResponseStore::open(place, kMostResponseBytes));
    return std::unique_ptr<KeptResponses>(new KeptResponses(std::move(store)));
}

void KeptResponses::keep(store::ResponseRecord record) {
    auto kept = std::make_shared<const store::ResponseRecord>(std::move(record));
    const std::lock_guard lock(mutex_);
    forget(kept->id);
    if (unsaved_bytes_ + bytes_of(*kept) > kMostUnsavedBytes && !unsaved_.empty()) {
        LOG_ERROR("{} is not kept: {} MiB of others wait to be written already", kept->id,
                  kMostUnsavedBytes >> 20U);
        return;
    }
    unsaved_bytes_ += bytes_of(*kept);
    unsaved_[kept->id] = kept;
}

// With the mutex held.
void KeptResponses::forget(const std::string& id) {
    const auto found = unsaved_.find(id);
    if (found == unsaved_.end()) return;
    unsaved_bytes_ -= bytes_of(*found->second);
    unsaved_.erase(found);
}

KeptResponses::~KeptResponses() {
    if (flush()) return;
    LOG_ERROR("{} responses are not kept: their database is away", unsaved_.size());
}

bool KeptResponses::flush() {
    const std::lock_guard store_lock(store_mutex_);
    while (true) {
        std::shared_ptr<const store::ResponseRecord> next;
        {
            const std::lock_guard lock(mutex_);
            if (unsaved_.empty()) return true;
            next = unsaved_.begin()->second;
        }
        const base::Status saved = store_->save(*next);
        if (!saved.ok() && saved.error().code == base::Errc::unavailable) return false;
        if (!saved.ok()) LOG_ERROR("{} is not kept: {}", next->id, saved.error().message);
        const std::lock_guard lock(mutex_);
        const auto still = unsaved_.find(next->id);
        if (still != unsaved_.end() && still->second == next) forget(next->id);
    }
}

base::Result<store::ResponseRecord> KeptResponses::find(std::string_view id) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = unsaved_.find(id);
        if (found != unsaved_.end()) return *found->second;
    }
    const std::lock_guard store_lock(store_mutex_);
    return store_->find(id);
}

base::Status KeptResponses::remove(std::string_view id) {
    const std::lock_guard store_lock(store_mutex_);
    {
        const std::lock_guard lock(mutex_);
        if (unsaved_.contains(id)) {
            forget(std::string(id));
            return base::Ok{};
        }
    }
    return store_->remove(id);
}

}  // namespace helix::api
