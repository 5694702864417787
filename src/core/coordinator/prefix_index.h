#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/id_map.h"
#include "core/protocol/types.h"
#include "core/routing/pipeline_graph.h"

namespace helix::core {

// The stages of this path are believed to hold the KV of so many of the first blocks.
struct PrefixHit {
    Path path;
    std::int32_t blocks = 0;
};

// PrefixIndex says where in the cluster the KV of which prompt beginnings was computed lately. That
// is only what the coordinator believes: the workers forget by themselves, and say so when they are
// asked for what they do not have. For each block the last few paths are remembered. The blocks
// least recently used are forgotten first, and of one text the last ones.
class PrefixIndex {
  public:
    explicit PrefixIndex(std::size_t max_blocks);

    // These blocks of one text, from the first on, have just been computed or used on path.
    void record(std::span<const base::Hash128> blocks, const Path& path);
    // Returns every path that has the first block, with the number of blocks that it has without a
    // gap: the most blocks first, and among equals what was recorded last.
    std::vector<PrefixHit> find(std::span<const base::Hash128> blocks) const;
    // These blocks are not on this path.
    void forget(std::span<const base::Hash128> blocks, const Path& path);
    // Paths mean something else from now on, or nothing.
    void clear();

    std::size_t size() const { return slots_.size(); }  // in blocks

  private:
    static constexpr std::uint32_t kNone = ~0U;
    static constexpr std::size_t kPathsPerBlock = 4;
    struct Entry {
        base::Hash128 hash;
        // The most recent path comes first.
        std::array<std::uint32_t, kPathsPerBlock> paths = {kNone, kNone, kNone, kNone};
        std::uint32_t newer = kNone;  // the next in the order of use
        std::uint32_t older = kNone;
        void add(std::uint32_t path);
        void remove(std::uint32_t path);
        bool has(std::uint32_t path) const;
    };

    const Entry* find(const base::Hash128& hash) const;
    void use(const base::Hash128& hash, std::uint32_t path);
    void link_newest(std::uint32_t slot);
    void unlink(std::uint32_t slot);
    void erase(std::uint32_t slot);

    std::size_t max_blocks_;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> free_;
    // The slot of each block, by the lower half of its hash.
    base::IdMap<std::uint32_t> slots_;
    std::uint32_t newest_ = kNone;
    std::uint32_t oldest_ = kNone;
    std::vector<Path> paths_;
    std::map<Path, std::uint32_t> path_ids_;
};

}  // namespace helix::core
