#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/speculation.h"
#include "core/coordinator/stage_sender.h"
#include "core/coordinator/token_flow.h"

namespace helix::core {

// Adoption lets requests that ran under the coordinator before this one go on where they ran. It
// knows what workers have kept (Holding) and, of a request, what its client has got (Begun).
//
// A request is adopted when every stage of its newest attempt still has its sequence, in layers
// that are in force, no link between them broke, and the last stage remembers all tokens that the
// client lacks. These are passed on, and the next row is sent; nothing is computed twice. Every
// other request is computed anew, and what is kept of it is freed. Groups, embeddings and prompts
// that are being scored are always computed anew.
//
// What no request claims within CoordinatorConfig::claim_wait is freed like all that should not be
// at a worker (WorkerReport).
class Adoption {
  public:
    Adoption(const CoordinatorConfig& config, Outbox& out, const Fleet& fleet,
             PromptWindow& prompts, const Placements& placements, StageSender& stages,
             Speculation& speculation, Roles& roles, RequestLife& life, TokenFlow& tokens)
        : config_(config),
          out_(out),
          fleet_(fleet),
          prompts_(prompts),
          placements_(placements),
          stages_(stages),
          speculation_(speculation),
          roles_(roles),
          life_(life),
          tokens_(tokens) {}

    // A worker that joined has kept this.
    void note(WorkerId worker, const std::vector<SequenceHeld>& sequences);
    // It said these tokens after it had told what it has kept.
    void note_drawn(WorkerId worker, const std::vector<ProducedToken>& tokens);
    void forget(WorkerId worker);
    // The sequence may be claimed yet.
    bool is_kept(WorkerId worker, const SequenceKey& key) const;
    bool empty() const { return kept_.empty(); }
    // Says whether something is kept for the request.
    bool knows(RequestId id) const { return kept_.contains(id); }
    // The waiting request, which has room, runs where it ran, or has ended there. Else it returns
    // false, and nothing is kept for it any more.
    bool adopt(TimePoint now, RequestState& state);
    // What nobody has claimed in time is given up.
    void end_late(TimePoint now);

  private:
    using ByWorker = std::map<WorkerId, SequenceHeld>;  // of a request: its newest attempt
    // How a request goes on.
    struct Way {
        SequenceKey key;
        Pipeline pipeline;
        std::vector<ProducedToken> unsaid;  // drawn, and not passed on
        bool began = false;                 // it has had a token in this attempt
        bool rows_going = false;            // the row of its last token was sent
    };
    std::optional<Way> way_of(const RequestState& state, const ByWorker& kept) const;
    bool is_whole(const Pipeline& pipeline, const SequenceKey& key, const ByWorker& kept) const;
    void run(TimePoint now, RequestState& state, const Way& way);

    const CoordinatorConfig& config_;
    Outbox& out_;
    const Fleet& fleet_;
    PromptWindow& prompts_;
    const Placements& placements_;
    StageSender& stages_;
    Speculation& speculation_;
    Roles& roles_;
    RequestLife& life_;
    TokenFlow& tokens_;
    std::map<RequestId, ByWorker> kept_;
    std::optional<TimePoint> in_force_since_;  // a placement is, while something is kept
};

}  // namespace helix::core
