#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sim/report/observer.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::sim {

// A small, plain and deterministic world that drives an observer as the real ones do: machines in
// equal stages, a random one of each stage for every request, batches, FIFO links, a limit on what
// runs at a time.
struct FakeClusterConfig {
    std::int32_t nodes = 12;
    std::int32_t stages = 4;
    std::int32_t n_layers = 32;
    double requests_per_s = 4;
    double run_s = 120;
    std::size_t most_running = 64;
    std::size_t most_waiting = 200;
    double link_bytes_per_s = 2e7;
    std::uint64_t seed = 1;
};

class FakeCluster {
  public:
    FakeCluster(const FakeClusterConfig& config, Observer* observer)
        : config_(config), observer_(observer), random_(config.seed) {
        const std::int32_t span = config.n_layers / config.stages;
        static constexpr const char* kTypes[] = {"A100", "L4", "T4"};
        for (std::int32_t i = 0; i < config.nodes; ++i) {
            const std::int32_t stage = i % config.stages;
            spec::NodeSpec node;
            node.type = kTypes[(i / config.stages) % 3];
            node.name = node.type + "-" + std::to_string(i);
            node.region = i % 2 == 0 ? "eu-west" : "us-east";
            cluster_.nodes.push_back(node);
            placement_.layers.push_back({stage * span, (stage + 1) * span});
            kv_capacity_.push_back(60000.0 * span);
        }
        cluster_.name = "fake";
        for (std::int32_t a = -1; a < config.nodes; ++a) {
            for (std::int32_t b = -1; b < config.nodes; ++b) {
                if (a != b) cluster_.links.push_back({a, b, config.link_bytes_per_s, kLatencyS});
            }
        }
        nodes_.resize(static_cast<std::size_t>(config.nodes));
        at(random_gap(), Kind::arrive, 0, 0);
    }

    const spec::ClusterSpec& cluster() const { return cluster_; }
    const spec::Placement& placement() const { return placement_; }
    const std::vector<double>& kv_capacity() const { return kv_capacity_; }
    base::TimePoint now() const { return now_; }
    void watch(Observer* observer) { observer_ = observer; }

    // Arrivals end at run_s; the last requests are served to their ends.
    void run() {
        while (!events_.empty()) {
            const auto [ns, order, kind, request, node] = events_.top();
            events_.pop();
            now_ = {ns};
            switch (kind) {
                case Kind::arrive:
                    arrive();
                    break;
                case Kind::reach:
                    reach(request, node);
                    break;
                case Kind::compute:
                    finish_batch(node);
                    break;
            }
        }
    }

  private:
    static constexpr double kLatencyS = 0.002;
    static constexpr double kBytesPerToken = 16384;
    static constexpr std::size_t kBatch = 48;

    enum class Kind { arrive, reach, compute };
    using Event = std::tuple<std::int64_t, std::uint64_t, Kind, std::uint64_t, std::int32_t>;
    struct Request {
        std::int32_t prompt = 0;
        std::int32_t output = 0;
        std::int32_t done = 0;
        bool followed = false;
        std::vector<PipelineStage> pipeline;
    };
    struct Node {
        std::deque<std::uint64_t> queue;
        std::vector<std::uint64_t> batch;
        base::TimePoint begin;
        double kv = 0;
    };

    double random_gap() { return -std::log1p(-random_.uniform()) / config_.requests_per_s; }
    void at(double in_s, Kind kind, std::uint64_t request, std::int32_t node) {
        events_.emplace((now_ + base::from_seconds(in_s)).ns, order_++, kind, request, node);
    }

    void arrive() {
        const std::uint64_t id = next_request_++;
        Request request;
        request.prompt = static_cast<std::int32_t>(random_.between(20, 900));
        request.output = static_cast<std::int32_t>(random_.between(2, 120));
        for (std::int32_t stage = 0; stage < config_.stages; ++stage) {
            const std::int32_t per_stage = config_.nodes / config_.stages;
            const auto pick =
                static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(per_stage)));
            const std::int32_t node = stage + pick * config_.stages;
            request.pipeline.push_back({node, placement_.layers[static_cast<std::size_t>(node)]});
        }
        if (observer_ != nullptr) {
            request.followed = observer_->request_created(id, now_, request.prompt, request.output);
        }
        requests_[id] = request;
        if (waiting_.size() >= config_.most_waiting) {
            if (observer_ != nullptr) observer_->request_rejected(id, now_);
            requests_.erase(id);
        } else {
            waiting_.push_back(id);
            admit();
        }
        const double gap = random_gap();
        if (base::Duration{now_.ns}.seconds() + gap < config_.run_s) at(gap, Kind::arrive, 0, 0);
    }

    void admit() {
        while (!waiting_.empty() && running_ < config_.most_running) {
            const std::uint64_t id = waiting_.front();
            waiting_.pop_front();
            ++running_;
            if (observer_ != nullptr) {
                observer_->request_admitted(id, now_, requests_[id].pipeline);
            }
            send(id, spec::kCoordinator, requests_[id].pipeline.front().node);
        }
    }

    std::int32_t rows(const Request& request) const {
        return request.done == 0 ? request.prompt : 1;
    }

    void send(std::uint64_t id, std::int32_t from, std::int32_t to) {
        const Request& request = requests_[id];
        const bool thin = from == spec::kCoordinator || to == spec::kCoordinator;
        const double bytes = rows(request) * (thin ? 4 : kBytesPerToken);
        base::TimePoint& free = link_free_[{from, to}];
        const base::TimePoint begin = std::max(free, now_);
        const base::TimePoint end = begin + base::from_seconds(bytes / config_.link_bytes_per_s);
        const base::TimePoint there = end + base::from_seconds(kLatencyS);
        free = end;
        events_.emplace(there.ns, order_++, Kind::reach, id, to);
        if (observer_ == nullptr) return;
        observer_->link_carried({from, to, begin, end, bytes, begin - now_});
        if (request.followed) observer_->request_moved({id, from, to, now_, begin, there});
    }

    void reach(std::uint64_t id, std::int32_t node) {
        if (node == spec::kCoordinator) return token(id);
        nodes_[static_cast<std::size_t>(node)].queue.push_back(id);
        start(node);
    }

    void start(std::int32_t n) {
        Node& node = nodes_[static_cast<std::size_t>(n)];
        if (!node.batch.empty() || node.queue.empty()) return;
        double seconds = 0.0004;
        std::int32_t prompts = 0;
        while (!node.queue.empty() && node.batch.size() < kBatch) {
            const Request& next = requests_[node.queue.front()];
            if (next.done == 0 && prompts + next.prompt > 1200 && !node.batch.empty()) break;
            if (next.done == 0) prompts += next.prompt;
            seconds += next.done == 0 ? 1e-5 * next.prompt : 1e-5;
            node.batch.push_back(node.queue.front());
            node.queue.pop_front();
        }
        static constexpr double kSlowness[] = {1, 2, 3};
        const double layers = placement_.layers[static_cast<std::size_t>(n)].size();
        node.begin = now_;
        at(seconds * layers * kSlowness[(n / config_.stages) % 3], Kind::compute, 0, n);
    }

    void finish_batch(std::int32_t n) {
        Node& node = nodes_[static_cast<std::size_t>(n)];
        const spec::LayerRange layers = placement_.layers[static_cast<std::size_t>(n)];
        NodeBatch batch{n, node.begin, now_, layers, 0, 0};
        std::vector<std::uint64_t> done;
        done.swap(node.batch);
        for (const std::uint64_t id : done) {
            const Request& request = requests_[id];
            if (request.done == 0) {
                batch.prompt_tokens += request.prompt;
            } else {
                ++batch.decodes;
            }
            node.kv += static_cast<double>(rows(request)) * layers.size();
        }
        if (observer_ != nullptr) {
            observer_->node_computed(batch);
            observer_->kv_used(n, now_, node.kv);
        }
        for (const std::uint64_t id : done) {
            const Request& request = requests_[id];
            if (observer_ != nullptr && request.followed) {
                observer_->request_computed({id, n, node.begin, now_, layers, rows(request)});
            }
            std::size_t stage = 0;
            while (request.pipeline[stage].node != n) ++stage;
            const bool last = stage + 1 == request.pipeline.size();
            send(id, n, last ? spec::kCoordinator : request.pipeline[stage + 1].node);
        }
        start(n);
    }

    void token(std::uint64_t id) {
        Request& request = requests_[id];
        ++request.done;
        if (observer_ != nullptr) observer_->token(id, now_);
        if (request.done < request.output) {
            return send(id, spec::kCoordinator, request.pipeline.front().node);
        }
        for (const PipelineStage& stage : request.pipeline) {
            double& kv = nodes_[static_cast<std::size_t>(stage.node)].kv;
            kv -= static_cast<double>(request.prompt + request.done - 1) * stage.layers.size();
            if (observer_ != nullptr) observer_->kv_used(stage.node, now_, kv);
        }
        if (observer_ != nullptr) observer_->request_finished(id, now_);
        requests_.erase(id);
        --running_;
        admit();
    }

    FakeClusterConfig config_;
    Observer* observer_;
    base::Random random_;
    spec::ClusterSpec cluster_;
    spec::Placement placement_;
    std::vector<double> kv_capacity_;
    std::vector<Node> nodes_;
    std::map<std::uint64_t, Request> requests_;
    std::map<std::pair<std::int32_t, std::int32_t>, base::TimePoint> link_free_;
    std::deque<std::uint64_t> waiting_;
    std::size_t running_ = 0;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    base::TimePoint now_;
    std::uint64_t order_ = 0;
    std::uint64_t next_request_ = 1;
};

}  // namespace helix::sim
