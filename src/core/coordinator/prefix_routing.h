#pragma once

#include <cstdint>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/prefix_index.h"

namespace helix::core {

// PrefixRouting is the coordinator's side of the prefix cache: who knows which beginning, and when
// that decides the way.
//
// A request goes where the KV of its beginning is unless it would get its answer sooner elsewhere.
// What lies ahead of a worker is taken from its KV charge: the tokens that its requests are
// expected to hold at their end, over its planned tokens per second. On a path the worst stage
// counts, and a hit takes off what it need not compute there. If some other way that has room has
// less ahead at every stage, the router decides as if there were no cache (and what the path it
// picks has is used). So a hot prefix moves on to the next pipeline as soon as computing it again
// takes less than the wait, and is known there from then on.
class PrefixRouting {
  public:
    PrefixRouting(const CoordinatorConfig& config, const Fleet& fleet, const Placements& placements)
        : config_(config),
          fleet_(fleet),
          placements_(placements),
          index_(static_cast<std::size_t>(config.prefix_cache_blocks)) {}

    // Returns the paths that have the KV of a beginning of the request's text.
    std::vector<PrefixHit> prefix_hits(RequestState& state);
    // Returns the path of the hit to be used, if any is worth it, and sets state.prefix.cached.
    Path prefer_prefix(RequestState& state, const std::vector<PrefixHit>& hits,
                       const StageFits& fits);
    // The path has just computed this many of the request's first tokens.
    void remember_prefix(RequestState& state, std::int64_t tokens);
    void note_first_token(RequestState& state);

    // The tokens are not on this path, as one of its workers said.
    void forget(const RequestState& state, const Path& path) {
        index().forget(state.prefix.blocks, path);
    }
    void clear() { index_.clear(); }
    std::size_t size() const { return is_stale() ? 0 : index_.size(); }  // in blocks
    // Counted since the start are the tokens of prompts, and those of them that were found.
    std::int64_t queried_tokens() const { return prefix_queried_tokens_; }
    std::int64_t hit_tokens() const { return prefix_hit_tokens_; }

  private:
    void hash_blocks(RequestState& state) const;

    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    const Placements& placements_;
    // Says whether the router was made anew since: the index has paths as edges of one router's
    // graph.
    bool is_stale() const { return router_ != placements_.routers_made(); }
    PrefixIndex& index();

    PrefixIndex index_;
    std::uint64_t router_ = 0;
    std::int64_t prefix_queried_tokens_ = 0;
    std::int64_t prefix_hit_tokens_ = 0;
};

}  // namespace helix::core
