#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace helix::sim {

// Rare paths that a simulation should have taken: a fault bed that never reaches them proves
// nothing about them.
enum class Probe {
    preempted,
    preempted_while_cut,
    finished_after_preemption,
    stuck_then_finished,
    stuck_message_lost,
    tokens_lost,
    tokens_duplicated,
    token_of_ended_request_ignored,
    token_of_older_attempt_ignored,
    duplicate_token_ignored,
    assignment_lost,
    assignment_duplicated,
    assignment_resent,
    ready_lost,
    ready_duplicated,
    rows_lost,
    rows_duplicated,
    free_lost,
    free_duplicated,
    report_lost,
    fork_lost,
    fork_duplicated,
    swap_lost,
    swap_duplicated,
    kv_lost,
    kv_duplicated,
    migrated,
    migrated_while_cut,
    migration_given_up,
    handed_over,
    handed_over_group,
    handover_given_up,
    handed_over_after_recompute,
    roles_not_kept,
    moved_source_lost_reserving,
    moved_source_lost_copying,
    moved_source_lost_last_round,
    moved_destination_lost_reserving,
    moved_destination_lost_copying,
    moved_destination_lost_last_round,
    moved_both_lost_reserving,
    moved_both_lost_copying,
    moved_both_lost_last_round,
    given_up_reserving,
    given_up_copying,
    given_up_last_round,
    given_up_refused,
    given_up_unanswered,
    given_up_held_too_long,
    given_up_worker_lost,
    given_up_link_broke,
    given_up_pages_needed,
    given_up_destination_drained,
    given_up_choice_ended,
    given_up_preempted,
    given_up_left_pipeline,
    move_refused,
    migrated_on_a_shared_worker,
    migrated_group,
    migrated_beams,
    migrated_five_times,
    kv_after_its_commit,
    kv_of_a_move_given_up,
    parcel_orphaned,
    moved_prefix_lost,
    drained,
    drain_refused,
    drain_called_off,
    removed,
    swapped_out,
    swapped_in,
    choice_finished,
    stray_freed,
    old_incarnation_refused,
    old_hello_ignored,
    hello_refused_while_old_one_counts,
    restart_noticed_by_hello,
    lost_by_silence,
    lost_while_alive,
    lost_while_paused,
    lost_while_loading,
    rejoined_after_false_loss,
    rows_for_a_newer_incarnation,
    resumed_with_a_full_inbox,
    held_back_then_delivered,
    link_came_back,
    link_told_down,
    placement_replaced_while_serving,
    cancelled_while_waiting,
    cancelled_while_running,
    failed_over,
    error_stalled,
    error_unserved,
    rejected_queue_full,
    rejected_too_long,
    rejected_never_fits,
    rejected_unavailable,
    ended_by_stop_token,
    coordinator_killed_while_serving,
    coordinator_killed_while_migrating,
    coordinator_killed_while_loading,
    coordinator_killed_while_draining,
    drained_as_before_the_restart,
    drained_as_before_it_was_lost,
    coordinator_killed_while_cut,
    coordinator_missed,
    coordinator_back_before_it_was_missed,
    rows_of_an_older_coordinator,
    submitted_to_nobody,
    placement_taken_up_again,
    liar_cut_off,
    killed_by_poison,
    error_poison,
    adopted,
    former_back,
    former_unheard,
    former_stopped,
    adopted_of_former,
    count_  // how many there are
};
constexpr std::size_t kProbes = static_cast<std::size_t>(Probe::count_);

class Probes {
  public:
    void hit(Probe probe) { ++counts_.at(static_cast<std::size_t>(probe)); }
    std::int64_t count(Probe probe) const { return counts_.at(static_cast<std::size_t>(probe)); }
    void add(const Probes& other);
    std::vector<std::string> unreached() const;

  private:
    std::array<std::int64_t, kProbes> counts_{};
};

const char* name_of(Probe probe);

}  // namespace helix::sim
