#include "sim/cluster/swarm_run.h"

#include <algorithm>

#include "sim/cluster/swarm_judge.h"

namespace helix::sim {
namespace {

// A machine's speed is in its decode_s_per_layer; prompts cost a quarter per token.
class SwarmCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return node.decode_s_per_layer * (1 + 0.1 * decode_seqs + 0.25 * prefill_tokens);
    }
};

const World* under_way = nullptr;  // NOLINT: for the handler of a failed CHECK

std::int64_t micros(core::TimePoint t) {
    return t.ns / 1000;
}

JudgeConfig judge_config(const SwarmCase& c) {
    const core::CoordinatorConfig& config = c.world.coordinator;
    bool silence = false;
    bool faults = false;
    bool deaths = false;
    for (const Fault& fault : c.faults) {
        const bool death = fault.kind == FaultKind::kill_coordinator;
        const bool moves = fault.kind >= FaultKind::move && fault.kind != FaultKind::lie && !death;
        deaths = deaths || death;
        faults = faults || !moves;
        silence = silence ||
                  (!moves && !death && fault.kind != FaultKind::duplicate &&
                   fault.kind != FaultKind::declare_lost && fault.kind != FaultKind::old_hello);
    }
    for (const SwarmRequest& one : c.load) {
        if (one.poison_at >= 0) faults = silence = true;
    }
    return {config.n_layers,
            c.world.vocab,
            config.context_length,
            config.max_waiting,
            config.stall_timeout.seconds(),
            config.unserved_timeout.seconds(),
            faults,
            deaths,
            silence};
}

// One run: the world, its judge, and what is submitted when.
class Bed {
  public:
    Bed(const SwarmCase& which, const std::function<void(const std::string&)>& trace)
        : case_(which),
          judge_(judge_config(which)),
          world_(
              config(which),
              [this](const core::PlanCluster& plan) { return draw_placement(case_, plan); },
              cost_) {
        world_.set_watch(&judge_);
        if (trace) world_.set_trace(trace);
        under_way = &world_;
        for (const auto& [node, pages] : which.workers) world_.add_worker(node, pages);
    }
    ~Bed() { under_way = nullptr; }
    Bed(const Bed&) = delete;
    Bed& operator=(const Bed&) = delete;

    SwarmResult run() {
        world_.run_faults(case_.faults);
        run_load();
        run_until(case_.faults_s);
        world_.calm();
        judge_.calm();
        rest();
        return result();
    }

  private:
    WorldConfig config(const SwarmCase& which) {
        WorldConfig made = which.world;
        made.on_broken = [this](const std::string& what) { broken(what); };
        return made;
    }

    void broken(const std::string& what) {
        if (!broken_.empty()) return;
        broken_ = what;
        broken_at_ = world_.now();
    }

    bool well() {
        if (!judge_.verdict().empty()) broken(judge_.verdict());
        return broken_.empty();
    }

    void run_until(double at_s) {
        // In steps, so that what the judge found is told with its time.
        while (well()) {
            const double left = at_s - (world_.now() - core::TimePoint{}).seconds();
            if (left < 1e-6) return;
            world_.run_for(std::min(left, 0.01));
        }
    }

    void run_load() {
        struct Step {
            double at_s;
            std::size_t index;
            bool cancel;
        };
        std::vector<Step> steps;
        for (std::size_t i = 0; i < case_.load.size(); ++i) {
            const SwarmRequest& next = case_.load[i];
            steps.push_back({next.at_s, i, false});
            if (next.cancel_after_s < 0) continue;
            steps.push_back({next.at_s + next.cancel_after_s, i, true});
        }
        std::stable_sort(steps.begin(), steps.end(),
                         [](const Step& a, const Step& b) { return a.at_s < b.at_s; });
        std::vector<core::RequestId> ids(case_.load.size());
        for (const Step& step : steps) {
            run_until(step.at_s);
            if (!well()) return;
            if (step.cancel) {
                world_.cancel(ids[step.index]);
            } else {
                const SwarmRequest& next = case_.load[step.index];
                ids[step.index] = world_.submit(next.request, next.poison_at);
            }
        }
    }

    bool run_until_idle(double within_s) {
        const double end = (world_.now() - core::TimePoint{}).seconds() + within_s;
        while (well() && judge_.open() > 0) {
            const double now = (world_.now() - core::TimePoint{}).seconds();
            if (end - now < 1e-6) return false;
            run_until(std::min(end, now + 0.5));
        }
        return broken_.empty();
    }

    void run_more(double seconds) {
        run_until((world_.now() - core::TimePoint{}).seconds() + seconds);
    }

    void rest() {
        // Everyone is back in the cluster, and in a placement, after so long.
        run_more(5 + case_.world.silent_limit_s + 10 * case_.world.load_s +
                 case_.world.coordinator.settle.seconds());
        if (!run_until_idle(case_.calm_s)) return unfinished();
        // A link that was slow carries first what it took then, and a machine that was slow ends
        // the batch that it began then, for nobody any more.
        const core::TimePoint last =
            std::max(world_.network().last_arrival(), world_.last_batch_end());
        run_until((last - core::TimePoint{}).seconds());
        for (const core::Request& request : case_.after) world_.submit(request);
        if (!run_until_idle(case_.calm_s)) return unfinished();
        // KV that is being sent is sent to the end, also when nobody wants it any more; what a
        // request waited for goes at the rate of the link.
        const WorldConfig& world = case_.world;
        const std::int32_t pages = std::max(world.worker.transfer_pages, world.worker.n_layers);
        const double bytes_per_s = std::min(world.migration_bytes_per_s, world.link_bytes_per_s);
        run_more(1 + 3 * world.worker.report_interval.seconds() + 2 * world.link_latency_s +
                 pages * world.kv_page_bytes / bytes_per_s);
        if (!well()) return;
        const std::string leak = world_.leak();
        if (!leak.empty()) broken("P5: " + leak);
    }

    void unfinished() {
        if (!well()) return;
        judge_.close();
        if (well()) broken("P1: not everything ended");
    }

    SwarmResult result() {
        SwarmResult made;
        made.broken = broken_;
        made.at_us = micros(broken_.empty() ? world_.now() : broken_at_);
        made.digest = world_.digest();
        made.simulated_s = (world_.now() - core::TimePoint{}).seconds();
        made.requests = judge_.requests();
        made.completed = judge_.completed();
        made.errors = judge_.errors();
        made.tokens = judge_.tokens();
        made.counts = world_.counts();
        made.probes = world_.probes();
        return made;
    }

    const SwarmCase& case_;
    const SwarmCost cost_;
    std::string broken_;
    core::TimePoint broken_at_;
    Judge judge_;
    World world_;
};

}  // namespace

void SwarmResult::add(const SwarmResult& other) {
    simulated_s += other.simulated_s;
    requests += other.requests;
    completed += other.completed;
    errors += other.errors;
    tokens += other.tokens;
    counts.add(other.counts);
    probes.add(other.probes);
}

SwarmResult SwarmRun::run() {
    return Bed(case_, trace_).run();
}

std::int64_t SwarmRun::now_us() {
    return under_way == nullptr ? 0 : micros(under_way->now());
}

SwarmResult run_seed(std::uint64_t seed) {
    const SwarmCase which = draw_case(seed);
    return SwarmRun(which).run();
}

}  // namespace helix::sim
