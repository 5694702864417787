#include "api/protocols/kept_responses.h"

#include <utility>

#include "base/log.h"

namespace helix::api {
namespace {

// The most bytes that all take.
constexpr std::int64_t kMostResponseBytes = std::int64_t{1} << 30U;

}  // namespace

base::Result<std::unique_ptr<KeptResponses>> KeptResponses::open(const std::string& folder) {
    TRY(auto store, store::ResponseStore::open(folder, kMostResponseBytes));
    return std::unique_ptr<KeptResponses>(new KeptResponses(std::move(store)));
}

void KeptResponses::keep(store::ResponseRecord record) {
    auto kept = std::make_shared<const store::ResponseRecord>(std::move(record));
    const std::lock_guard lock(mutex_);
    unsaved_[kept->id] = kept;
}

void KeptResponses::flush() {
    const std::lock_guard store_lock(store_mutex_);
    while (true) {
        std::shared_ptr<const store::ResponseRecord> next;
        {
            const std::lock_guard lock(mutex_);
            if (unsaved_.empty()) return;
            next = unsaved_.begin()->second;
        }
        const base::Status saved = store_->save(*next);
        if (!saved.ok()) LOG_ERROR("{} is not kept: {}", next->id, saved.error().message);
        const std::lock_guard lock(mutex_);
        unsaved_.erase(next->id);
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
        const auto found = unsaved_.find(id);
        if (found != unsaved_.end()) {
            unsaved_.erase(found);
            return base::Ok{};
        }
    }
    return store_->remove(id);
}

}  // namespace helix::api
