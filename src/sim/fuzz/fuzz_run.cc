#include "sim/fuzz/fuzz_run.h"

#include <algorithm>

#include "sim/fuzz/judge.h"

namespace helix::sim {
namespace {

// A machine's speed is in its decode_s_per_layer; prompts cost a quarter per token.
class FuzzCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return node.decode_s_per_layer * (1 + 0.1 * decode_seqs + 0.25 * prefill_tokens);
    }
};

const FaultyCluster* under_way = nullptr;  // NOLINT: for the handler of a failed CHECK

std::int64_t micros(core::TimePoint t) {
    return t.ns / 1000;
}

JudgeConfig judge_config(const FuzzCase& c) {
    const core::CoordinatorConfig& config = c.cluster.coordinator;
    bool silence = false;
    bool faults = false;
    bool deaths = false;
    const bool drains = std::any_of(c.faults.begin(), c.faults.end(), [](const Fault& fault) {
        return fault.kind == FaultKind::drain;
    });
    for (const Fault& fault : c.faults) {
        // Clients may be refused when they ask again. What runs goes on, unless a worker was
        // drained meanwhile: nobody looks whether what a gateway hands over anew has room without
        // it.
        if (is_of_gateway(fault.kind)) {
            deaths = deaths || fault.kind == FaultKind::kill_gateway;
            faults = faults || drains;
            continue;
        }
        const bool death = fault.kind == FaultKind::kill_coordinator ||
                           fault.kind == FaultKind::replace_coordinator;
        const bool moves = fault.kind >= FaultKind::move && fault.kind != FaultKind::lie && !death;
        deaths = deaths || death;
        faults = faults || !moves;
        silence = silence ||
                  (!moves && !death && fault.kind != FaultKind::duplicate &&
                   fault.kind != FaultKind::declare_lost && fault.kind != FaultKind::old_hello);
    }
    for (const FuzzRequest& one : c.load) {
        if (one.poison_at >= 0) faults = silence = true;
    }
    return {config.n_layers,
            c.cluster.vocab,
            config.context_length,
            config.max_waiting,
            config.stall_timeout.seconds(),
            config.unserved_timeout.seconds(),
            faults,
            deaths,
            silence,
            c.cluster.gateways > 0,
            config.window};
}

// One run: the cluster, its judge, and what is submitted when.
class Bed {
  public:
    Bed(const FuzzCase& which, const std::function<void(const std::string&)>& trace)
        : case_(which),
          judge_(judge_config(which)),
          cluster_(
              config(which),
              [this](const core::PlanCluster& plan) { return draw_placement(case_, plan); },
              cost_) {
        cluster_.set_watch(&judge_);
        if (trace) cluster_.set_trace(trace);
        under_way = &cluster_;
        for (const auto& [node, pages] : which.workers) cluster_.add_worker(node, pages);
    }
    ~Bed() { under_way = nullptr; }
    Bed(const Bed&) = delete;
    Bed& operator=(const Bed&) = delete;

    FuzzResult run() {
        cluster_.run_faults(case_.faults);
        run_load();
        run_until(case_.faults_s);
        cluster_.calm();
        judge_.calm();
        rest();
        return result();
    }

  private:
    FaultyClusterConfig config(const FuzzCase& which) {
        FaultyClusterConfig made = which.cluster;
        made.on_broken = [this](const std::string& what) { broken(what); };
        return made;
    }

    void broken(const std::string& what) {
        if (!broken_.empty()) return;
        broken_ = what;
        broken_at_ = cluster_.now();
    }

    bool well() {
        if (!judge_.verdict().empty()) broken(judge_.verdict());
        return broken_.empty();
    }

    void run_until(double at_s) {
        // In steps, so that what the judge found is told with its time.
        while (well()) {
            const double left = at_s - (cluster_.now() - core::TimePoint{}).seconds();
            if (left < 1e-6) return;
            cluster_.run_for(std::min(left, 0.01));
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
            const FuzzRequest& next = case_.load[i];
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
                cluster_.cancel(ids[step.index]);
            } else {
                const FuzzRequest& next = case_.load[step.index];
                ids[step.index] = cluster_.submit(next.request, next.poison_at);
            }
        }
    }

    bool run_until_idle(double within_s) {
        const double end = (cluster_.now() - core::TimePoint{}).seconds() + within_s;
        while (well() && judge_.open() > 0) {
            const double now = (cluster_.now() - core::TimePoint{}).seconds();
            if (end - now < 1e-6) return false;
            run_until(std::min(end, now + 0.5));
        }
        return broken_.empty();
    }

    void run_more(double seconds) {
        run_until((cluster_.now() - core::TimePoint{}).seconds() + seconds);
    }

    void rest() {
        // Everyone is back in the cluster, and in a placement, after so long.
        run_more(5 + case_.cluster.silent_limit_s + 10 * case_.cluster.load_s +
                 case_.cluster.coordinator.settle.seconds());
        if (!run_until_idle(case_.calm_s)) return unfinished();
        // A link that was slow carries first what it took then, and a machine that was slow ends
        // the batch that it began then, for nobody any more.
        const core::TimePoint last =
            std::max(cluster_.network().last_arrival(), cluster_.last_batch_end());
        run_until((last - core::TimePoint{}).seconds());
        for (const core::Request& request : case_.after) cluster_.submit(request);
        if (!run_until_idle(case_.calm_s)) return unfinished();
        // KV that is being sent is sent to the end, also when nobody wants it any more; what a
        // request waited for goes at the rate of the link.
        const FaultyClusterConfig& cluster = case_.cluster;
        const std::int32_t pages = std::max(cluster.worker.transfer_pages, cluster.worker.n_layers);
        const double bytes_per_s =
            std::min(cluster.migration_bytes_per_s, cluster.link_bytes_per_s);
        run_more(1 + 3 * cluster.worker.report_interval.seconds() + 2 * cluster.link_latency_s +
                 pages * cluster.kv_page_bytes / bytes_per_s);
        if (!well()) return;
        const std::string leak = cluster_.leak();
        if (!leak.empty()) broken("P5: " + leak);
    }

    void unfinished() {
        if (!well()) return;
        judge_.close();
        if (well()) broken("P1: not everything ended");
    }

    FuzzResult result() {
        FuzzResult made;
        made.broken = broken_;
        made.at_us = micros(broken_.empty() ? cluster_.now() : broken_at_);
        made.digest = cluster_.digest();
        made.simulated_s = (cluster_.now() - core::TimePoint{}).seconds();
        made.requests = judge_.requests();
        made.completed = judge_.completed();
        made.errors = judge_.errors();
        made.tokens = judge_.tokens();
        made.counts = cluster_.counts();
        made.probes = cluster_.probes();
        return made;
    }

    const FuzzCase& case_;
    const FuzzCost cost_;
    std::string broken_;
    core::TimePoint broken_at_;
    Judge judge_;
    FaultyCluster cluster_;
};

}  // namespace

void FuzzResult::add(const FuzzResult& other) {
    simulated_s += other.simulated_s;
    requests += other.requests;
    completed += other.completed;
    errors += other.errors;
    tokens += other.tokens;
    counts.add(other.counts);
    probes.add(other.probes);
}

FuzzResult FuzzRun::run() {
    return Bed(case_, trace_).run();
}

std::int64_t FuzzRun::now_us() {
    return under_way == nullptr ? 0 : micros(under_way->now());
}

FuzzResult run_seed(std::uint64_t seed) {
    const FuzzCase which = draw_case(seed);
    return FuzzRun(which).run();
}

}  // namespace helix::sim
