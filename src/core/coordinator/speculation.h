#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/stage_sender.h"

namespace helix::core {

// Speculation, the coordinator's side: which tokens are drafted ahead, sent along with the last one
// and kept as far as they were right. What is drawn does not depend on it: the last stage draws
// every position as if it had come alone, up to the first wrong draft.
//
// Drafts come from the text itself (core/coordinator/draft_ngram.h), else from the draft model if
// there is one: the request waits for its answer, but not long. How many depends on how often the
// request's drafts were right (core/coordinator/draft_length.h) and on how full the batches are: a
// row more is nearly free while a batch reads its weights for a few rows and costs as much as a row
// of another request where there are many. So all requests of a last stage together get draft_rows
// drafted tokens at most.
class Speculation {
  public:
    Speculation(const CoordinatorConfig& config, Outbox& out, const Fleet& fleet,
                RequestTable& requests, StageSender& stages)
        : config_(config), out_(out), fleet_(fleet), requests_(requests), stages_(stages) {}

    // Sends the last token around again, with a draft where it is worth its rows.
    void continue_decoding(TimePoint now, RequestState& state);
    // Its text may go to the draft model while the pipeline computes the prompt.
    void prepare_drafts(RequestState& state);
    void on(const Drafted& event);
    void end_late_drafts(TimePoint now);
    StageInput& send_decode(RequestState& state, std::span<const Token> drafted);
    // A token came; the last that was drawn after the rows that were sent? True if it was drafted.
    bool note_drawn(RequestState& state, Token drawn, bool last);
    // Of its last rows more tokens may come.
    static bool runs_ahead(const RequestState& state);
    void forget_drafts(RequestState& state);  // the attempt is over

    // Since start: rows that were sent with drafts, the drafts, and those that came true.
    std::int64_t drafts() const { return drafts_; }
    std::int64_t draft_tokens() const { return draft_tokens_; }
    std::int64_t accepted_draft_tokens() const { return accepted_draft_tokens_; }

  private:
    std::int32_t max_draft_tokens(const RequestState& state) const;
    Drafting& drafting_of(RequestState& state);
    void tell_draft_model(RequestState& state, std::int32_t count);
    void ask_draft_model(TimePoint now, RequestState& state, std::int32_t count);

    const CoordinatorConfig& config_;
    Outbox& out_;
    const Fleet& fleet_;
    RequestTable& requests_;
    StageSender& stages_;
    std::deque<std::pair<TimePoint, RequestId>> asked_drafts_;  // some answered since
    std::int64_t drafts_ = 0;
    std::int64_t draft_tokens_ = 0;
    std::int64_t accepted_draft_tokens_ = 0;
};

}  // namespace helix::core
