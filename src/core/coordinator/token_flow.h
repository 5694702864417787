#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/prefix_routing.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/speculation.h"
#include "core/coordinator/stage_sender.h"
#include "core/coordinator/suspects.h"

namespace helix::core {

// TokenFlow deals with what comes back: tokens of single sequences, of choices and of beams, and
// what is sent next.
class TokenFlow {
  public:
    TokenFlow(Outbox& out, RequestTable& requests, AdmissionQueue& queue, PromptWindow& prompts,
              const Placements& placements, KvDemand& demand, PrefixRouting& prefixes,
              StageSender& stages, Speculation& speculation, Roles& roles, Suspects& suspects,
              Migrations& migrations, RequestLife& life)
        : out_(out),
          requests_(requests),
          queue_(queue),
          prompts_(prompts),
          placements_(placements),
          demand_(demand),
          prefixes_(prefixes),
          stages_(stages),
          speculation_(speculation),
          roles_(roles),
          suspects_(suspects),
          migrations_(migrations),
          life_(life) {}

    // Returns what is wrong with the message, as something that the worker did. If nothing is, it
    // returns nothing and all of the message was taken.
    std::string on_tokens(TimePoint now, WorkerId worker, const TokensProduced& message);
    // The token is the next of a running request of one sequence and is passed on. Returns false if
    // the request has ended with it.
    bool take(TimePoint now, RequestState& state, const ProducedToken& token);
    // The same for a group of several answers: the tokens that were drawn with its prompt, one for
    // each, and the next of one of them. The latter sends nothing.
    bool take_first_tokens(TimePoint now, RequestState& state,
                           const std::vector<ProducedToken>& tokens);
    bool take_unsaid(RequestState& state, std::uint32_t member,
                     const std::vector<ProducedToken>& tokens);
    // Ends the request, which waits, or those of its choices of which all was said under an earlier
    // coordinator.
    void end_what_is_over(RequestState& state);
    void on(const Ended& event);
    void resume_group(TimePoint now, RequestState& state);

  private:
    void on_scored(WorkerId worker, const std::vector<ProducedToken>& tokens);
    void on_embedding(TimePoint now, WorkerId worker, const PromptEmbedding& embedding);
    // A token came before all log-probabilities of the prompt, so some were lost. Another attempt
    // gets the others or, after a few attempts, the request ends with an error.
    bool came_unscored(TimePoint now, RequestState& state);
    // This is asked of each token when it is about to be taken, since those before it change the
    // answer.
    static std::string unasked(const RequestState& state, const std::vector<ProducedToken>& tokens,
                               std::size_t i);
    static std::string unasked_of_group(const RequestState& state,
                                        const std::vector<ProducedToken>& tokens, std::size_t i);
    // All stages have the prompt, so there are members now.
    void fork_group(TimePoint now, RequestState& state);
    // These functions may end the request.
    void on_group_token(TimePoint now, RequestState& state, const ProducedToken& token);
    void on_choice_token(TimePoint now, RequestState& state, GroupMember& member,
                         const ProducedToken& token);
    // Passes the token on. Returns false if its choice has ended with it, or the whole request.
    bool take_of_choice(RequestState& state, GroupMember& member, const ProducedToken& token);
    void end_choice(RequestState& state, const GroupMember& member, FinishReason reason);
    // The beams go on once every running beam has its answer.
    void advance_beams(TimePoint now, RequestState& state);
    void finish_beams(RequestState& state);

    Outbox& out_;
    RequestTable& requests_;
    AdmissionQueue& queue_;
    PromptWindow& prompts_;
    const Placements& placements_;
    KvDemand& demand_;
    PrefixRouting& prefixes_;
    StageSender& stages_;
    Speculation& speculation_;
    Roles& roles_;
    Suspects& suspects_;
    Migrations& migrations_;
    RequestLife& life_;
};

}  // namespace helix::core
