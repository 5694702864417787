#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

// Bugs that are put into core and sim on purpose, to see whether the tests find them. In every
// build but that of helix_cluster_fuzz_planted, planted() is a constant false and the compiler
// leaves no trace.

namespace helix::base {

enum class PlantedBug {
    none,
    stale_attempt_accepted,   // tokens of a superseded attempt are taken
    token_streamed_twice,     // a token that came before is taken again
    page_freed_twice,         // a page goes back to the pool a second time
    pages_leaked_on_cancel,   // a sequence freed while in a batch keeps its pages
    recompute_off_by_one,     // after preemption the output is recomputed one position late
    sampling_seed_lost,       // a recomputed request draws with another seed
    old_incarnation_joins,    // a late hello of an older incarnation is believed
    stage_skipped,            // after a new placement rows skip a stage
    admission_counts_twice,   // pages of a request are charged twice and given back once
    timer_not_stopped,        // the stall timer of a request that left its pipeline goes on
    duplicate_rows_accepted,  // rows that came before are computed again
    free_ignored,             // a FreeSequences message does nothing
    parcel_leaked_on_abort,   // KV that came for a migration keeps its pages when that is given up
    sampling_not_migrated,    // a request that moved draws with another seed
    committed_by_both,        // the old pipeline goes on after a move was committed
    shared_page_written,      // a page that others share is written instead of a copy
    arrived_before_written,   // KV is called arrived while it is still being written
    handover_forgotten,       // a hand-over that failed is not tried again
    request_numbers_begin_anew,   // a coordinator that starts again counts requests from 1
    lies_believed,                // what no sound worker says is taken for true
    poison_not_noticed,           // deaths are not counted against the requests that ran
    tail_not_passed_on,           // tokens that an earlier coordinator kept to itself are left out
    unclaimed_kept,               // what no request claims after a takeover keeps its pages
    epochs_begin_anew,            // a coordinator that takes over counts assignments from 1
    old_assignment_answered,      // what an earlier coordinator asked for is answered to the next
    scores_repeated,              // a prompt's log-probabilities come again after a takeover
    term_not_checked_by_worker,   // a worker hears a coordinator that was replaced
    term_not_checked_by_gateway,  // so does a gateway
    begun_forgotten,              // a request that is handed over begins with its first token again
    attempts_not_raised,          // a request that is handed over counts its attempts from 0
    gateway_requests_kept,        // what runs for a gateway that is gone runs on
    gateway_number_kept,          // a request that was not accepted keeps its number
    window_given_back_early,      // one block more than lies before the window is given back
    gateway_queue_reordered,      // requests that waited for a coordinator go to it last first
    count_                        // how many there are
};
constexpr std::array<const char*, static_cast<std::size_t>(PlantedBug::count_)> kPlantedBugs{
    "none",
    "stale_attempt_accepted",
    "token_streamed_twice",
    "page_freed_twice",
    "pages_leaked_on_cancel",
    "recompute_off_by_one",
    "sampling_seed_lost",
    "old_incarnation_joins",
    "stage_skipped",
    "admission_counts_twice",
    "timer_not_stopped",
    "duplicate_rows_accepted",
    "free_ignored",
    "parcel_leaked_on_abort",
    "sampling_not_migrated",
    "committed_by_both",
    "shared_page_written",
    "arrived_before_written",
    "handover_forgotten",
    "request_numbers_begin_anew",
    "lies_believed",
    "poison_not_noticed",
    "tail_not_passed_on",
    "unclaimed_kept",
    "epochs_begin_anew",
    "old_assignment_answered",
    "scores_repeated",
    "term_not_checked_by_worker",
    "term_not_checked_by_gateway",
    "begun_forgotten",
    "attempts_not_raised",
    "gateway_requests_kept",
    "gateway_number_kept",
    "window_given_back_early",
    "gateway_queue_reordered"};

#ifdef HELIX_PLANTED_BUGS
inline PlantedBug planted_bug = PlantedBug::none;
inline bool planted(PlantedBug bug) {
    return planted_bug == bug;
}
inline bool plant(std::string_view name) {
    for (std::size_t i = 1; i < kPlantedBugs.size(); ++i) {
        if (kPlantedBugs[i] != name) continue;
        planted_bug = static_cast<PlantedBug>(i);
        return true;
    }
    return false;
}
inline std::string planted_bug_names() {
    std::string names;
    for (std::size_t i = 1; i < kPlantedBugs.size(); ++i) {
        names += (i == 1 ? "" : " ") + std::string(kPlantedBugs[i]);
    }
    return names;
}
#else
constexpr bool planted(PlantedBug) {
    return false;
}
inline bool plant(std::string_view) {
    return false;
}
inline std::string planted_bug_names() {
    return "none (use helix_cluster_fuzz_planted)";
}
#endif

}  // namespace helix::base
