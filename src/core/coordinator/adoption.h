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
#include "core/coordinator/swaps.h"
#include "core/coordinator/token_flow.h"

namespace helix::core {

// Adoption lets requests that ran under the coordinator before this one go on where they ran. It
// knows what workers have kept (Holding) and, of a request, what its client has got (Begun).
//
// A request is adopted when every stage of its newest attempt still has its sequences, in layers
// that are in force, no link between them broke, and the last stage remembers all tokens that the
// client lacks. These are passed on, and the next rows are sent; nothing is computed twice. Of
// several answers all that have not ended have to be there; until their prompt is computed that is
// the one sequence of the prompt. What was swapped out stays so, in its place among the others.
// Every other request is computed anew, and what is kept of it is freed. Beams, embeddings and
// prompts that are being scored are always computed anew.
//
// What no request claims within CoordinatorConfig::claim_wait is freed like all that should not be
// at a worker (WorkerReport).
class Adoption {
  public:
    Adoption(const CoordinatorConfig& config, Outbox& out, const Fleet& fleet,
             PromptWindow& prompts, const Placements& placements, StageSender& stages,
             Speculation& speculation, Roles& roles, Swaps& swaps, RequestLife& life,
             TokenFlow& tokens)
        : config_(config),
          out_(out),
          fleet_(fleet),
          prompts_(prompts),
          placements_(placements),
          stages_(stages),
          speculation_(speculation),
          roles_(roles),
          swaps_(swaps),
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
    using Members = std::map<std::uint32_t, SequenceHeld>;
    // What workers have of a request's newest attempt.
    struct Kept {
        std::uint32_t attempt = 0;
        std::map<WorkerId, Members> at;
    };
    // How a sequence goes on.
    struct Going {
        std::uint32_t member = 0;
        std::vector<ProducedToken> unsaid;  // drawn, and not passed on
        std::int32_t known = 0;             // tokens of prompt and output, with the unsaid ones
        std::int32_t sent = 0;              // of these, those whose rows came to the first stage
        bool rows_going() const { return sent == known; }
    };
    // How a request goes on.
    struct Way {
        std::uint32_t attempt = 0;
        Pipeline pipeline;
        bool began = false;  // a token was drawn in this attempt
        bool swapped = false;
        std::vector<Going> sequences;             // of a group: none, unless it was forked
        std::vector<ProducedToken> first_tokens;  // of all members of a group that was not
    };
    std::optional<Way> way_of(const RequestState& state, const Kept& kept) const;
    bool find_single(const RequestState& state, const Kept& kept, Way& way) const;
    // The prompt of a group is being computed, or has been and nothing was done with it.
    bool find_prompt(const RequestState& state, const Kept& kept, Way& way) const;
    bool find_members(const RequestState& state, const Kept& kept, Way& way) const;
    bool is_up(const Pipeline& pipeline) const;
    // Every stage has the member, with all rows that came to it.
    static bool is_whole(const Pipeline& pipeline, std::uint32_t member, const Kept& kept);
    // Returns what was drawn for the member and follows the tokens that are known; none: something
    // between is forgotten, or it contradicts what the client has.
    std::optional<std::vector<ProducedToken>> unsaid_of(const RequestState& state,
                                                        const std::vector<Token>& output,
                                                        std::uint32_t member,
                                                        const Members& drawn_at) const;
    void run(TimePoint now, RequestState& state, const Way& way);
    // These return false if the request has ended.
    bool run_single(TimePoint now, RequestState& state, const Way& way);
    bool run_group(TimePoint now, RequestState& state, const Way& way);
    void free_kept(const Kept& kept, const SequenceGroup* but_members_of);

    const CoordinatorConfig& config_;
    Outbox& out_;
    const Fleet& fleet_;
    PromptWindow& prompts_;
    const Placements& placements_;
    StageSender& stages_;
    Speculation& speculation_;
    Roles& roles_;
    Swaps& swaps_;
    RequestLife& life_;
    TokenFlow& tokens_;
    std::map<RequestId, Kept> kept_;
    std::optional<TimePoint> in_force_since_;  // a placement is, while something is kept
};

}  // namespace helix::core
