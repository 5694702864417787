#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "core/kv/block_pool.h"
#include "core/protocol/types.h"

namespace helix::core {

// PrefixCache has blocks of KV pages kept for later sequences that begin with the same tokens. A
// block goes by the hash of the layers and of all tokens up to its end. The cache has references of
// its own to its pages. When pages are needed it gives up those that nobody else uses: the least
// recently used first, and of one sequence the later blocks before the earlier.
class PrefixCache {
  public:
    // Returns the hash that the first block's hash (core/kv/block_hash.h) is computed from.
    static base::Hash128 root(LayerRange layers);

    // Keeps a block of pages in use, one for each layer, unless a block with its hash is kept
    // already or another kept block has one of its pages. depth is the number of blocks before it.
    void add(const base::Hash128& hash, std::int64_t depth, std::span<const PageId> pages,
             KvBlockPool& pool);
    const std::vector<PageId>* find(const base::Hash128& hash) const;  // null if it is not kept
    // Sequences that used pages have ended or moved on: the pages they left count as used last.
    void note_idle(KvBlockPool& pool);
    // Gives blocks up until this many pages of the pool are unused. The pool must have as many
    // free.
    void make_room(std::int64_t pages, KvBlockPool& pool);
    void clear(KvBlockPool& pool);

    std::size_t size() const { return entries_.size(); }  // blocks
    std::vector<PageId> pages() const;                    // of all blocks

  private:
    struct Less {
        bool operator()(const base::Hash128& a, const base::Hash128& b) const {
            return a.high != b.high ? a.high < b.high : a.low < b.low;
        }
    };
    struct Entry {
        std::vector<PageId> pages;
        std::int64_t depth = 0;
        std::uint64_t idle_since = 0;  // 0 = not listed as idle
    };
    using Entries = std::map<base::Hash128, Entry, Less>;
    // Idle orders blocks as they are given up: by since when they have been idle, minus their
    // depth, then by their first page.
    using Idle = std::tuple<std::uint64_t, std::int64_t, PageId>;

    static Idle idle_key(const Entry& entry) {
        return {entry.idle_since, -entry.depth, entry.pages.front()};
    }
    void give_up(Entries::iterator entry, KvBlockPool& pool);
    // Gives up blocks of which somebody uses only some layers.
    void give_up_torn(KvBlockPool& pool);

    Entries entries_;
    std::map<PageId, Entries::iterator> by_first_page_;
    // These are the blocks that nobody else used when they were listed; they may be in use again.
    std::set<Idle> idle_;
    std::uint64_t clock_ = 0;
};

}  // namespace helix::core
