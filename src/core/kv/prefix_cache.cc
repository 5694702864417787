#include "core/kv/prefix_cache.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace helix::core {

base::Hash128 PrefixCache::root(LayerRange layers) {
    const std::array<std::int32_t, 2> range{layers.begin, layers.end};
    return base::hash128(std::as_bytes(std::span(range)));
}

void PrefixCache::add(const base::Hash128& hash, std::int64_t depth, std::span<const PageId> pages,
                      KvBlockPool& pool) {
    CHECK(!pages.empty());
    const auto kept = [&](PageId page) { return pool.kept(page); };
    if (std::any_of(pages.begin(), pages.end(), kept)) return;
    const auto [entry, is_new] = entries_.try_emplace(hash);
    if (!is_new) return;
    entry->second = {{pages.begin(), pages.end()}, depth, 0};
    for (const PageId page : pages) pool.keep(page);
    CHECK(by_first_page_.emplace(pages.front(), entry).second);
}

const std::vector<PageId>* PrefixCache::find(const base::Hash128& hash) const {
    const auto entry = entries_.find(hash);
    return entry == entries_.end() ? nullptr : &entry->second.pages;
}

void PrefixCache::note_idle(KvBlockPool& pool) {
    ++clock_;
    for (const PageId page : pool.take_idle()) {
        const auto found = by_first_page_.find(page);
        if (found == by_first_page_.end() || pool.references(page) != 1) continue;
        Entry& entry = found->second->second;
        if (entry.idle_since != 0) idle_.erase(idle_key(entry));
        entry.idle_since = clock_;
        idle_.insert(idle_key(entry));
    }
}

void PrefixCache::make_room(std::int64_t pages, KvBlockPool& pool) {
    if (pool.unused() >= pages) return;
    note_idle(pool);
    while (pool.unused() < pages) {
        if (idle_.empty()) {
            give_up_torn(pool);
            CHECK(pool.unused() >= pages);
            return;
        }
        const auto entry = by_first_page_.at(std::get<PageId>(*idle_.begin()));
        if (pool.references(entry->second.pages.front()) == 1) {
            give_up(entry, pool);
        } else {  // in use again; it comes back when that ends
            idle_.erase(idle_.begin());
            entry->second.idle_since = 0;
        }
    }
}

void PrefixCache::give_up(Entries::iterator entry, KvBlockPool& pool) {
    if (entry->second.idle_since != 0) idle_.erase(idle_key(entry->second));
    by_first_page_.erase(entry->second.pages.front());
    for (const PageId page : entry->second.pages) pool.give_up(page);
    entries_.erase(entry);
}

void PrefixCache::give_up_torn(KvBlockPool& pool) {
    const auto idle = [&](PageId page) { return pool.references(page) == 1; };
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const auto next = std::next(entry);
        const std::vector<PageId>& pages = entry->second.pages;
        if (std::any_of(pages.begin(), pages.end(), idle)) give_up(entry, pool);
        entry = next;
    }
}

void PrefixCache::clear(KvBlockPool& pool) {
    while (!entries_.empty()) give_up(entries_.begin(), pool);
    pool.take_idle();
}

std::vector<PageId> PrefixCache::pages() const {
    std::vector<PageId> all;
    for (const auto& [hash, entry] : entries_) {
        all.insert(all.end(), entry.pages.begin(), entry.pages.end());
    }
    return all;
}

}  // namespace helix::core
