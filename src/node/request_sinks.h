#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "api/service.h"

namespace helix::node {

// Who hears about which request. Sinks are added and dropped on any thread, and told on the
// coordinator's. Once drop() has returned, the sink hears nothing more.
class RequestSinks {
  public:
    void add(core::RequestId id, std::shared_ptr<api::TokenSink> sink);
    void drop(core::RequestId id);
    bool has(core::RequestId id) const;
    // Calls tell(sink) if the request still has a sink; with last it then forgets the sink.
    template <typename Tell>
    void tell(core::RequestId id, bool last, const Tell& tell_sink);
    // Ends all with this error.
    void finish_all(const std::string& error);

  private:
    struct Entry {
        std::mutex mutex;  // held while the sink hears something
        std::shared_ptr<api::TokenSink> sink;
    };
    std::shared_ptr<Entry> find(core::RequestId id, bool take);

    mutable std::mutex mutex_;
    std::map<core::RequestId, std::shared_ptr<Entry>> entries_;
};

inline void RequestSinks::add(core::RequestId id, std::shared_ptr<api::TokenSink> sink) {
    auto entry = std::make_shared<Entry>();
    entry->sink = std::move(sink);
    const std::lock_guard lock(mutex_);
    entries_[id] = std::move(entry);
}

inline bool RequestSinks::has(core::RequestId id) const {
    const std::lock_guard lock(mutex_);
    return entries_.contains(id);
}

inline std::shared_ptr<RequestSinks::Entry> RequestSinks::find(core::RequestId id, bool take) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return nullptr;
    std::shared_ptr<Entry> entry = found->second;
    if (take) entries_.erase(found);
    return entry;
}

inline void RequestSinks::drop(core::RequestId id) {
    const std::shared_ptr<Entry> entry = find(id, true);
    if (entry == nullptr) return;
    const std::lock_guard lock(entry->mutex);
    entry->sink.reset();
}

template <typename Tell>
void RequestSinks::tell(core::RequestId id, bool last, const Tell& tell_sink) {
    const std::shared_ptr<Entry> entry = find(id, last);
    if (entry == nullptr) return;
    const std::lock_guard lock(entry->mutex);
    if (entry->sink != nullptr) tell_sink(*entry->sink);
}

inline void RequestSinks::finish_all(const std::string& error) {
    std::map<core::RequestId, std::shared_ptr<Entry>> entries;
    {
        const std::lock_guard lock(mutex_);
        entries.swap(entries_);
    }
    for (const auto& [id, entry] : entries) {
        const std::lock_guard lock(entry->mutex);
        if (entry->sink != nullptr) entry->sink->on_finish(core::FinishReason::error, error);
    }
}

}  // namespace helix::node
