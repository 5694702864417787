#pragma once

#include <cstdint>
#include <string>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/adoption.h"
#include "core/coordinator/balancer.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/dispatcher.h"
#include "core/coordinator/drains.h"
#include "core/coordinator/entrance.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/handover.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/link_breaks.h"
#include "core/coordinator/link_health.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/node_loads.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/path_choice.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/planning.h"
#include "core/coordinator/preempter.h"
#include "core/coordinator/prefix_routing.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/restore.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/rollout.h"
#include "core/coordinator/room.h"
#include "core/coordinator/scaling.h"
#include "core/coordinator/speculation.h"
#include "core/coordinator/stage_sender.h"
#include "core/coordinator/stalls.h"
#include "core/coordinator/suspects.h"
#include "core/coordinator/swaps.h"
#include "core/coordinator/token_flow.h"
#include "core/coordinator/worker_emptier.h"

namespace helix::core {

// These are the parts of the coordinator, each with state of its own, from what all others know to
// what decides last. A part knows those above it in this list and never one below: what it wants of
// those it returns, and Coordinator carries it out.
struct Coordinator::Impl {
    explicit Impl(const CoordinatorConfig& given) : config(given) {}
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    CoordinatorConfig config;
    Outbox out;
    Fleet fleet;
    RequestTable requests;
    LinkHealth links;
    // Counts prompts that have no token yet.
    PromptWindow prompts{base::from_seconds(config.policy.prefill_target_s)};
    KvDemand demand{config};
    AdmissionQueue queue{config};
    Placements placements{config, fleet, requests, links};
    NodeLoads loads{config, fleet, requests, placements, demand};
    Restore restore{config, out, fleet, placements};
    Room room{config, out, fleet, requests, placements, demand};
    PrefixRouting prefixes{config, fleet, placements};
    StageSender stages{out, fleet, placements};
    Speculation speculation{config, out, fleet, requests, stages};
    Roles roles{config, out, fleet, placements, room};
    Suspects suspects{fleet, requests, placements, room};
    Swaps swaps{config, fleet, demand, stages, requests};
    PathChoice paths{config, fleet,  queue, placements, room,
                     roles,  demand, loads, prefixes,   suspects};
    Migrations migrations{config, out,      fleet,  requests,    placements, room,    demand,
                          loads,  prefixes, stages, speculation, roles,      suspects};
    RequestLife life{out,      fleet,  requests,    queue, prompts,  placements, room,      demand,
                     prefixes, stages, speculation, roles, suspects, swaps,      migrations};
    TokenFlow tokens{out,    requests,    queue, prompts,  placements, demand, prefixes,
                     stages, speculation, roles, suspects, migrations, life};
    Preempter preempter{config, fleet,      requests, room,  speculation,
                        swaps,  migrations, life,     tokens};
    Handover handover{fleet, requests, placements, room, roles, migrations};
    WorkerEmptier emptier{config, fleet, requests, migrations, life};
    Planning planning{config, out, fleet, placements, restore, room, roles};
    Drains drains{config, out, fleet, requests, placements, restore, room, emptier, planning};
    Rollout rollout{config, out, fleet, prompts, placements, restore, room, emptier};
    Balancer balancer{config, fleet, requests, queue, prompts,    placements, room,
                      demand, loads, paths,    swaps, migrations, preempter};
    Scaling scaling{config, out, fleet, requests, queue, placements, demand, planning, balancer};
    Stalls stalls{config, fleet, requests, links, queue, placements, room, demand, life, suspects};
    Adoption adoption{config,      out,   fleet, prompts, placements, stages,
                      speculation, roles, swaps, life,    tokens};
    Dispatcher dispatcher{config,   out,   requests, queue, prompts, placements, room,   demand,
                          suspects, swaps, paths,    life,  tokens,  preempter,  stalls, adoption};
    Entrance entrance{config, fleet, requests};
    LinkBreaks breaks{config, out, fleet, requests, links, placements, migrations, life, planning};

    void step(TimePoint now, const CoordinatorEvent& event);

  private:
    enum class Loss { death, left, cut_off };

    void tick(TimePoint now);
    void take_planned_role(spec::NodeSpec& node);
    void worker_joined(TimePoint now, const WorkerJoined& event);
    void worker_lost(TimePoint now, const WorkerLost& event);
    void worker_said(TimePoint now, const FromWorker& event);
    void layers_loaded(WorkerId worker, const LayersReady& message);
    void layers_failed(TimePoint now, WorkerId worker, const LayersFailed& message);
    void worker_reported(TimePoint now, WorkerId worker, const WorkerReport& message);
    void speed_changed(TimePoint now, WorkerId worker);
    void lose_worker(TimePoint now, WorkerId worker, const std::string& reason, Loss how);
    // The worker contradicted itself, so it is lost at once and hears nothing more.
    void cut_off(TimePoint now, WorkerId worker, const std::string& why);
};

}  // namespace helix::core
