#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/invariants.h"
#include "core/worker/worker.h"

namespace helix::core {

// Coordinator and workers in virtual time: lanes of one worker each, batches that take what their
// rows cost, KV that takes time to move. The token that is drawn is always 7.
class TimedCluster {
  public:
    struct Setup {
        CoordinatorConfig coordinator;
        WorkerConfig worker;
        std::uint32_t lanes = 1;
        std::int64_t pages = 1000;                // of each worker
        std::vector<std::int64_t> pages_of = {};  // by lane, where they differ
        std::vector<spec::NodeRole> roles = {};   // by lane; both where it ends
        Duration batch = base::from_ms(10);
        Duration row = base::from_ms(0.5);
        Duration page_moves = base::from_ms(0.05);
        Duration hop = base::from_ms(0.2);  // of a message
    };
    struct Seen {
        TimePoint arrived;
        std::vector<TimePoint> tokens;
        bool finished = false;
    };

    explicit TimedCluster(Setup setup)
        : setup_(std::move(setup)), coordinator_(setup_.coordinator) {
        for (std::uint32_t i = 0; i < setup_.lanes; ++i) {
            machines_.push_back({Worker({i}, setup_.worker)});
            WorkerJoined joined;
            joined.worker = {i};
            joined.incarnation = 1;
            joined.node.name = "w" + std::to_string(i);
            if (i < setup_.roles.size()) joined.node.role = setup_.roles[i];
            step(joined);
        }
        tick();
        run(base::from_seconds(2));
        EXPECT_TRUE(coordinator_.view().serving);
    }

    void submit_at(TimePoint when, Request request) {
        at(when, [this, request = std::move(request)] {
            seen[request.id.value].arrived = now;
            step(Submitted{request});
        });
    }
    void run(Duration time) {
        const TimePoint end = now + time;
        while (!events_.empty() && events_.begin()->first <= end) {
            const auto event = events_.extract(events_.begin());
            now = event.key();
            event.mapped()();
        }
        now = end;
    }
    const Coordinator& coordinator() const { return coordinator_; }

    TimePoint now;
    std::map<std::uint64_t, Seen> seen;
    std::vector<MigrationEnded> moves;
    std::int64_t preemptions() const { return coordinator_.view().preemptions; }
    std::int64_t committed() const { return coordinator_.view().migrations.committed(); }

  private:
    struct Machine {
        Worker worker;
        std::uint64_t next_buffer = 1;
    };

    void at(TimePoint when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
    void after(Duration time, std::function<void()> what) { at(now + time, std::move(what)); }

    void tick() {
        step(CoordinatorTick{});
        for (std::uint32_t i = 0; i < setup_.lanes; ++i) step(i, WorkerTick{});
        after(base::from_ms(100), [this] { tick(); });
    }

    void step(const CoordinatorEvent& event) {
        std::vector<CoordinatorAction> actions;
        coordinator_.step(now, event, actions);
        EXPECT_EQ(broken_invariant(coordinator_), "");
        for (CoordinatorAction& action : actions) perform(action);
    }
    void step(std::uint32_t w, const WorkerEvent& event) {
        std::vector<WorkerAction> actions;
        machines_[w].worker.step(now, event, actions);
        EXPECT_EQ(broken_invariant(machines_[w].worker), "");
        for (WorkerAction& action : actions) perform(w, action);
    }
    void say(std::uint32_t w, WorkerMessage message) {
        after(setup_.hop,
              [this, w, message = std::move(message)] { step(w, MessageArrived{message}); });
    }

    void perform(CoordinatorAction& action) {
        if (auto* out = std::get_if<SendToWorker>(&action)) {
            say(out->worker.value, std::move(out->message));
        } else if (const auto* plan = std::get_if<PlanCluster>(&action)) {
            Planned planned;
            planned.plan = plan->plan;
            for (std::uint32_t i = 0; i < setup_.lanes; ++i) {
                const auto id = static_cast<std::int32_t>(i);
                planned.placement.layers.push_back({0, setup_.coordinator.n_layers});
                planned.flows.push_back({spec::kCoordinator, id, 10});
                planned.flows.push_back({id, spec::kCoordinator, 10});
            }
            after({}, [this, planned] { step(planned); });
        } else if (const auto* token = std::get_if<StreamToken>(&action)) {
            seen[token->id.value].tokens.push_back(now);
        } else if (const auto* end = std::get_if<FinishRequest>(&action)) {
            EXPECT_EQ(end->error, "");
            seen[end->id.value].finished = true;
        } else if (const auto* moved = std::get_if<MigrationEnded>(&action)) {
            moves.push_back(*moved);
        }
    }

    void perform(std::uint32_t w, WorkerAction& action) {
        if (const auto* load = std::get_if<LoadLayers>(&action)) {
            const std::int64_t pages = setup_.pages_of.empty() ? setup_.pages : setup_.pages_of[w];
            after(setup_.hop, [this, w, pages, epoch = load->epoch] {
                step(w, LayersLoaded{epoch, pages, 0, "plain"});
            });
        } else if (const auto* run = std::get_if<RunBatch>(&action)) {
            start_batch(w, run->plan);
        } else if (auto* said = std::get_if<SendToCoordinator>(&action)) {
            after(setup_.hop, [this, w, message = std::move(said->message)] {
                step(FromWorker{{w}, message});
            });
        } else if (auto* out = std::get_if<ExportKv>(&action)) {
            const auto pages = static_cast<std::int64_t>(out->pages.size());
            after(setup_.page_moves * pages, [this, w, sent = std::move(*out)]() mutable {
                step(w, KvExported{sent.transfer});
                sent.message.payload.buffer = machines_[sent.to.value].next_buffer++;
                say(sent.to.value, std::move(sent.message));
            });
        } else if (const auto* in = std::get_if<ImportKv>(&action)) {
            after(setup_.hop,
                  [this, w, transfer = in->transfer] { step(w, KvImported{transfer}); });
        } else if (const auto* wake = std::get_if<WakeAt>(&action)) {
            at(wake->at, [this, w] { step(w, WorkerTick{}); });
        }
    }

    void start_batch(std::uint32_t w, const BatchPlan& plan) {
        BatchFinished done;
        done.id = plan.id;
        std::int64_t rows = 0;
        for (const BatchChunk& chunk : plan.chunks) {
            const auto count = static_cast<std::int32_t>(chunk.tokens.size());
            rows += count;
            if (chunk.sample) {
                done.tokens.push_back({chunk.key, chunk.first_position + count, 7, 0, {}});
            }
        }
        done.took = setup_.batch + setup_.row * rows;
        after(done.took, [this, w, done] { step(w, done); });
    }

    Setup setup_;
    Coordinator coordinator_;
    std::vector<Machine> machines_;
    std::multimap<TimePoint, std::function<void()>> events_;
};

}  // namespace helix::core
