#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/id_map.h"
#include "base/prefetch.h"
#include "core/coordinator/request_state.h"

namespace helix::core {

// RequestTable has the requests by rising id, and finds each in no more time than in a table of a
// few.
class RequestTable {
  public:
    using Map = std::map<RequestId, RequestState>;
    Map::iterator find(RequestId id) {
        const Map::iterator* it = index_.find(id.value);
        return it == nullptr ? by_id_.end() : *it;
    }
    RequestState& at(RequestId id) {
        const auto it = find(id);
        CHECK(it != by_id_.end());
        return it->second;
    }
    const RequestState* by_id(RequestId id) const {  // null if it is not here
        const Map::iterator* it = index_.find(id.value);
        return it == nullptr ? nullptr : &(*it)->second;
    }
    // Asks for what is looked at when something of the request comes, before it is needed.
    void prefetch(RequestId id) const {
        if (const RequestState* state = by_id(id)) base::prefetch<sizeof(RequestState)>(state);
    }
    // Asks for what the next two, and by_id(), look at first.
    void prefetch_place(RequestId id) const { index_.prefetch(id.value); }
    // The same for what tells whether it runs, and as which attempt.
    void prefetch_attempt(RequestId id) const {
        if (const RequestState* state = by_id(id)) base::prefetch<64>(state);
    }
    bool contains(RequestId id) const { return index_.find(id.value) != nullptr; }
    // Adds a request whose id is new.
    void emplace(RequestId id, RequestState state) {
        index_.insert(id.value, by_id_.emplace_hint(by_id_.end(), id, std::move(state)));
    }
    void erase(Map::iterator it) {
        index_.erase(it->first.value);
        by_id_.erase(it);
    }
    // The pauses after failed moves of requests are over (core/coordinator/failed_moves.h).
    void forget_failed_moves() {
        for (auto& [id, state] : by_id_) state.moves_again.clear();
    }
    bool empty() const { return by_id_.empty(); }
    std::size_t size() const { return by_id_.size(); }
    Map::iterator begin() { return by_id_.begin(); }
    Map::iterator end() { return by_id_.end(); }
    Map::const_iterator begin() const { return by_id_.begin(); }
    Map::const_iterator end() const { return by_id_.end(); }

  private:
    Map by_id_;
    base::IdMap<Map::iterator> index_;
};

}  // namespace helix::core
