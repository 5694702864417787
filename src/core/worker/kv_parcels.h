#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/kv/block_pool.h"
#include "core/protocol/messages.h"

namespace helix::core {

// KV of one attempt of a request that waits at a worker until the attempt's first rows come: pages
// of one range of layers, by member and block. It has a reference of its own to each page that it
// lists. All its calls take the pool of those pages.
class KvParcel {
  public:
    // key names member 0. spare are pages, each with a reference that becomes the parcel's.
    KvParcel(const SequenceKey& key, LayerRange layers, std::span<const PageId> spare)
        : key_(key), layers_(layers) {
        add_spare(spare);
    }

    const SequenceKey& key() const { return key_; }
    LayerRange layers() const { return layers_; }
    bool taken() const { return taken_; }
    std::vector<std::uint32_t> members() const;

    // What is made of a part of what one SendKv asked for: it is new, came before, or does not
    // belong to the others.
    enum class Part { fresh, repeated, foreign };
    Part note_part(const KvBlocks& message);
    // True when that was the last part of its round and layers to arrive.
    bool note_arrived(std::uint32_t round, LayerRange layers);

    // Takes this many spare pages; takes nothing and returns none when there are too few.
    std::optional<std::vector<PageId>> take_spare(std::int64_t count);
    void add_spare(std::span<const PageId> pages) {
        spare_.insert(spare_.end(), pages.begin(), pages.end());
        reserved_ += static_cast<std::int64_t>(pages.size());
    }
    std::int64_t reserved_pages() const { return reserved_; }  // spare and used
    // Members of which nothing came yet share the blocks before their span with any other member
    // that has them, since those blocks are of the prompt.
    void begin_members(const std::vector<KvSpan>& spans, KvBlockPool& pool);
    // From now on these are the block's pages of these layers, each with one more reference. They
    // have no content yet. Layers with kNoPage stay as they are.
    void place(std::uint32_t member, std::int32_t block, LayerRange layers,
               std::span<const PageId> pages, KvBlockPool& pool);
    // The pages now hold the KV of the block's first tokens. Does nothing if they are no longer the
    // block's.
    void fill(std::uint32_t member, std::int32_t block, LayerRange layers,
              std::span<const PageId> pages, std::int32_t tokens);

    // Says whether no row will attend to a block in a layer, counted from the parcel's first.
    using Needless = std::function<bool(std::int64_t block, std::int32_t layer)>;
    // The pages of the member's first blocks, layers of a block together, if they hold all of its
    // first tokens; empty if not. kNoPage stands for those that are needless.
    std::vector<PageId> pages_of(std::uint32_t member, std::int32_t tokens, std::int32_t block_size,
                                 const Needless& needless) const;
    // The member has begun, or will not, and its references go. With the first member that begins
    // the spare pages go too. True when nothing is left.
    bool drop_member(std::uint32_t member, bool begun, KvBlockPool& pool);
    void drop_all(KvBlockPool& pool);
    // Every page, as often as it is listed.
    std::vector<PageId> pages() const;

    TimePoint last_heard;
    std::uint64_t serial = 0;  // no other of this worker has the number

  private:
    struct Held {
        bool is_placed = false;
        PageId page = 0;
        std::int32_t tokens = 0;  // tokens whose KV is in it
    };
    using Block = std::vector<Held>;  // by layer
    struct Round {
        std::uint32_t parts = 0;
        std::uint32_t arrived = 0;
        std::set<std::uint32_t> came;
    };
    std::size_t slot(std::int32_t layer) const {
        return static_cast<std::size_t>(layer - layers_.begin);
    }
    void release(const Block& block, KvBlockPool& pool) const;

    SequenceKey key_;
    LayerRange layers_;
    std::vector<PageId> spare_;
    std::int64_t reserved_ = 0;
    std::map<std::uint32_t, std::map<std::int32_t, Block>> members_;
    std::map<std::tuple<std::uint32_t, std::int32_t, std::int32_t>, Round> rounds_;
    bool taken_ = false;  // a member has begun, so nothing more comes
};

// A part of a SendKv. It has a reference to each page.
struct KvExport {
    std::uint64_t transfer = 0;  // 0: it waits
    std::uint32_t attempt = 0;   // the attempt whose pages they are
    WorkerId to;
    KvBlocks message;
    std::vector<PageId> pages;
    bool held = false;
};

// An ImportKv that is under way. It has a reference to each page.
struct KvImport {
    std::uint64_t transfer = 0;
    std::uint64_t parcel = 0;  // the parcel's serial
    KvBlocks message;
    std::vector<PageId> pages;  // [content][layer], without those that were given back
    // Of each content the first in pages, and their end; empty: each content has every layer.
    std::vector<std::size_t> starts = {};
};

}  // namespace helix::core
