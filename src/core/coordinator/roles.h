#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/room.h"

namespace helix::core {

// Roles knows the workers with roles (prefill/decode disaggregation): prompts are computed on some,
// and what comes after the first token on others.
//
// A request starts on workers that may prefill, by preference on those that do nothing else. When
// its first token has come it is handed over (core/coordinator/handover.h): a migration like any
// other, to a path of workers that may decode, of the router's choice. It decodes where it is until
// that is committed.
//
// Roles are kept while there is both a path of workers that may prefill and one of workers that may
// decode. While there is not, every worker computes whatever the router gives it. A request that no
// path of workers that may prefill could ever hold starts anywhere, too.
class Roles {
  public:
    Roles(const CoordinatorConfig& config, Outbox& out, const Fleet& fleet,
          const Placements& placements, const Room& room)
        : config_(config), out_(out), fleet_(fleet), placements_(placements), room_(room) {}

    // Says whether the planned placement would keep roles that are not kept now.
    bool gains_roles(const std::vector<WorkerId>& planned, const Planned& event) const;
    void tell_roles();
    StageFits prefill_only(const StageFits& fits) const;
    bool is_where_prompts_are(const RequestState& state) const;
    void note_prefilled(TimePoint now, const RequestState& state);  // it has its first token
    void note_place(const RequestState& state);  // it runs elsewhere, or not any more
    void note_handover_failed(RequestState& state);

    // Workers came or went.
    void note_workers() {
        if (!fleet_.any_roles()) said_.reset();
    }
    // Says whether roles were kept when that was last told; none: it was never told.
    std::optional<bool> said() const { return said_; }
    // Returns the requests that run where prompts are computed, have their first token and are to
    // go on elsewhere.
    const std::map<QueueKey, RequestId>& due() const { return due_; }
    bool may_look(TimePoint now) const { return !due_.empty() && now >= next_look_; }
    void look_again_at(TimePoint at) { next_look_ = at; }
    void stays(const QueueKey& key) { due_.erase(key); }
    // Returns which request nobody hands over although it is due, in words, or nothing.
    std::string check(const RequestTable& requests) const;

  private:
    const CoordinatorConfig& config_;
    Outbox& out_;
    const Fleet& fleet_;
    const Placements& placements_;
    const Room& room_;
    std::map<QueueKey, RequestId> due_;
    TimePoint next_look_;
    std::optional<bool> said_;
};

}  // namespace helix::core
