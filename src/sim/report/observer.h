#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "spec/layer_range.h"

// What a simulated world tells those who watch it. A world holds an Observer* that is null when
// nobody watches, so that watching costs nothing then:
//
//     if (observer_ != nullptr) observer_->node_computed({...});

namespace helix::sim {

// Nodes are indices into ClusterSpec::nodes, or spec::kCoordinator. Times are the world's clock
// (base::from_seconds converts); events come in the order in which they end.

// One batch on one machine. A world that computes layer by layer reports each layer.
struct NodeBatch {
    std::int32_t node = 0;
    base::TimePoint begin;
    base::TimePoint end;
    spec::LayerRange layers;
    std::int32_t decodes = 0;        // sequences with one token each
    std::int32_t prompt_tokens = 0;  // of all prompts together
};

// One message, or several that travel together, on one directed link.
struct LinkTransfer {
    std::int32_t from = 0;
    std::int32_t to = 0;
    base::TimePoint begin;  // the first byte leaves
    base::TimePoint end;    // the last byte has left and the link is free; latency comes after
    double bytes = 0;
    base::Duration waited;  // before begin, behind other messages
};

struct PipelineStage {
    std::int32_t node = 0;
    spec::LayerRange layers;
};

// A followed request's part in a batch, or its journey over a link.
struct RequestWork {
    std::uint64_t request = 0;
    std::int32_t node = 0;
    base::TimePoint begin;
    base::TimePoint end;
    spec::LayerRange layers;
    std::int32_t tokens = 0;  // 1 for a decode, else of the prompt
};
struct RequestMove {
    std::uint64_t request = 0;
    std::int32_t from = 0;
    std::int32_t to = 0;
    base::TimePoint ready;  // handed to the link
    base::TimePoint begin;  // the first byte leaves
    base::TimePoint end;    // arrives, latency included
};

// All functions do nothing unless overridden.
class Observer {
  public:
    Observer() = default;
    Observer(const Observer&) = delete;
    Observer& operator=(const Observer&) = delete;
    virtual ~Observer() = default;

    // True when the request is to be followed: the world then also calls request_computed and
    // request_moved for it. request: any number, unique in the run.
    virtual bool request_created(std::uint64_t /*request*/, base::TimePoint /*at*/,
                                 std::int32_t /*prompt_tokens*/, std::int32_t /*output_tokens*/) {
        return false;
    }
    // A pipeline is chosen and the request may run. Again after a preemption.
    virtual void request_admitted(std::uint64_t /*request*/, base::TimePoint /*at*/,
                                  std::span<const PipelineStage> /*pipeline*/) {}
    // Every output token as it becomes known to the coordinator; the first one ends the prompt.
    virtual void token(std::uint64_t /*request*/, base::TimePoint /*at*/) {}
    // It lost its KV memory; told when it runs again, before request_admitted.
    virtual void request_preempted(std::uint64_t /*request*/, base::TimePoint /*at*/) {}
    // It goes on elsewhere with its KV.
    virtual void request_migrated(std::uint64_t /*request*/, base::TimePoint /*at*/,
                                  std::span<const PipelineStage> /*pipeline*/) {}
    // Exactly one of these ends a request. Rejected also means: ended with an error.
    virtual void request_finished(std::uint64_t /*request*/, base::TimePoint /*at*/) {}
    virtual void request_rejected(std::uint64_t /*request*/, base::TimePoint /*at*/) {}

    virtual void node_computed(const NodeBatch& /*batch*/) {}
    virtual void link_carried(const LinkTransfer& /*transfer*/) {}
    // In force from at until the next call for that node, in the unit of the node's KV capacity.
    virtual void kv_used(std::int32_t /*node*/, base::TimePoint /*at*/, double /*used*/) {}

    virtual void request_computed(const RequestWork& /*work*/) {}
    virtual void request_moved(const RequestMove& /*move*/) {}

    // It is paid for from now on, or no longer. Of nodes that come and go.
    virtual void node_rented(std::int32_t /*node*/, base::TimePoint /*at*/, bool /*rented*/) {}

    // Something to be seen on the time axis: "l4-3 killed".
    virtual void mark(base::TimePoint /*at*/, std::string_view /*text*/) {}
};

// Several observers as one. They must outlive it.
class ObserverList final : public Observer {
  public:
    explicit ObserverList(std::vector<Observer*> observers) : observers_(std::move(observers)) {}

    bool request_created(std::uint64_t request, base::TimePoint at, std::int32_t prompt_tokens,
                         std::int32_t output_tokens) override {
        bool follow = false;
        for (Observer* o : observers_) {
            follow |= o->request_created(request, at, prompt_tokens, output_tokens);
        }
        return follow;
    }
    void request_admitted(std::uint64_t request, base::TimePoint at,
                          std::span<const PipelineStage> pipeline) override {
        for (Observer* o : observers_) o->request_admitted(request, at, pipeline);
    }
    void token(std::uint64_t request, base::TimePoint at) override {
        for (Observer* o : observers_) o->token(request, at);
    }
    void request_preempted(std::uint64_t request, base::TimePoint at) override {
        for (Observer* o : observers_) o->request_preempted(request, at);
    }
    void request_migrated(std::uint64_t request, base::TimePoint at,
                          std::span<const PipelineStage> pipeline) override {
        for (Observer* o : observers_) o->request_migrated(request, at, pipeline);
    }
    void request_finished(std::uint64_t request, base::TimePoint at) override {
        for (Observer* o : observers_) o->request_finished(request, at);
    }
    void request_rejected(std::uint64_t request, base::TimePoint at) override {
        for (Observer* o : observers_) o->request_rejected(request, at);
    }
    void node_computed(const NodeBatch& batch) override {
        for (Observer* o : observers_) o->node_computed(batch);
    }
    void link_carried(const LinkTransfer& transfer) override {
        for (Observer* o : observers_) o->link_carried(transfer);
    }
    void kv_used(std::int32_t node, base::TimePoint at, double used) override {
        for (Observer* o : observers_) o->kv_used(node, at, used);
    }
    void request_computed(const RequestWork& work) override {
        for (Observer* o : observers_) o->request_computed(work);
    }
    void request_moved(const RequestMove& move) override {
        for (Observer* o : observers_) o->request_moved(move);
    }
    void node_rented(std::int32_t node, base::TimePoint at, bool rented) override {
        for (Observer* o : observers_) o->node_rented(node, at, rented);
    }
    void mark(base::TimePoint at, std::string_view text) override {
        for (Observer* o : observers_) o->mark(at, text);
    }

  private:
    std::vector<Observer*> observers_;
};

}  // namespace helix::sim
