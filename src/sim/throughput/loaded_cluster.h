#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "sim/cluster/event_queue.h"
#include "sim/throughput/helix_run.h"
#include "sim/throughput/modelled_network.h"

// The world behind run_helix(); only its own .cc files include this.

namespace helix::sim {

using base::TimePoint;
using core::WorkerId;

inline constexpr double kHeaderBytes = 64;  // of each sequence's part of a message
inline constexpr core::Token kAnyToken = 1;
inline constexpr const char* kKvFormat = "modelled";  // of all pages alike

class LoadedCluster {
  public:
    LoadedCluster(const HelixSetup& setup, const SimProgress& progress);
    base::Result<SimReport> run();

  private:
    struct Event {
        enum class Kind : std::uint32_t {
            to_coordinator,
            to_worker,
            batch_done,
            loaded,
            kv_exported,
            started,  // a node that was asked for
            worker_wakes,
            tick,
            arrival
        };
        std::int64_t at_ns = 0;
        std::uint64_t order = 0;
        Kind kind = Kind::tick;
        std::uint32_t argument = 0;  // a message's slot; a worker
        bool operator<(const Event& other) const {
            return at_ns != other.at_ns ? at_ns < other.at_ns : order < other.order;
        }
    };

    struct Message {
        std::uint32_t worker = 0;  // the receiver, or the sender of a CoordinatorMessage
        std::variant<core::WorkerMessage, core::CoordinatorMessage> content;
        std::int32_t from = spec::kCoordinator;
        std::int32_t to = spec::kCoordinator;
        double bytes = 0;
        TimePoint posted = {};
        Passage passage = {};
    };

    struct Machine {
        std::int32_t node = 0;
        std::int64_t pages = 0;
        spec::LayerRange layers;
        std::unique_ptr<core::Worker> worker;  // null: it was dismissed
        TimePoint rented;
        std::uint64_t loading = 0;  // the epoch whose layers are being loaded,
        TimePoint loaded_at = {};   // and when they are there
        std::uint64_t next_buffer = 1;
        core::BatchFinished running;
        std::multimap<TimePoint, core::ExportKv> exporting;  // under way, by their ends
        NodeBatch observed;                                  // the batch that runs
        std::vector<RequestWork> followed;                   // its parts that the observer follows
        double busy_s = 0;                                   // in the window
        double kv_peak = 0;
        std::vector<std::int32_t> decodes;  // per layer of the batch being costed
        std::vector<std::int32_t> prefills;
    };

    struct Live {
        TimePoint arrived;
        TimePoint last_token;
        std::int32_t prompt_tokens = 0;
        bool followed = false;  // by the observer
    };

    void at(TimePoint when, Event::Kind kind, std::uint32_t argument);
    void join_all();
    void join(std::uint32_t worker);
    std::uint32_t add_machine(std::int32_t node);
    void ask_for_node();
    void dismiss(core::WorkerId worker);
    double rented_s(TimePoint from, TimePoint until) const;  // of that, in the window
    void submit(RequestLength length, std::int32_t priority);
    void step_coordinator(const core::CoordinatorEvent& event);
    void step_worker(std::uint32_t worker, const core::WorkerEvent& event);
    void perform(core::CoordinatorAction& action);
    void perform(std::uint32_t worker, core::WorkerAction& action);
    void load_layers(std::uint32_t w, std::uint64_t epoch);
    void start_batch(std::uint32_t worker, const core::BatchPlan& plan);
    double batch_s(Machine& machine, const core::BatchPlan& plan) const;
    base::Duration wake();
    void post(Event::Kind kind, Message message);
    Message take(std::uint32_t slot);
    // For the observer, which is not null.
    void tell_carried(const Message& message);
    void tell_computed(const Machine& machine);
    void note_batch(Machine& machine, const core::BatchPlan& plan, TimePoint end);
    void start_export(std::uint32_t worker, core::ExportKv action);
    void end_export(std::uint32_t worker);
    void send_to_peer(std::uint32_t worker, core::SendToPeer& action);
    void send_to_coordinator(std::uint32_t worker, core::SendToCoordinator& action);
    void on_token(const core::StreamToken& token);
    void on_routed(const core::RequestRouted& routed, bool moved);
    std::vector<PipelineStage> stages(const core::Pipeline& pipeline) const;
    void feed();
    void note_resident(std::int64_t change);
    void handle(const Event& event);
    void tick();
    core::Planned answer(const core::PlanCluster& request) const;
    bool in_window() const { return now_ >= window_begin_ && now_ <= window_end_; }
    SimReport report() const;

    const HelixSetup& setup_;
    const SimProgress& progress_;
    HelixNetwork network_;
    core::Coordinator coordinator_;
    PythonRandom random_;
    LengthSource lengths_;
    base::Random wakes_;
    std::vector<Machine> machines_;  // by worker id
    std::vector<std::int32_t> worker_of_node_;
    std::vector<std::vector<spec::LinkSpec>> links_of_node_;  // that the router knows
    std::vector<std::int32_t> spares_;                        // not asked for, last first
    core::WorkerConfig worker_config_;
    EventQueue<Event> events_;
    std::vector<Message> messages_;
    std::vector<std::uint32_t> free_messages_;
    // Memory of an earlier step's actions. A step inside a step finds none.
    std::vector<core::CoordinatorAction> spare_coordinator_actions_;
    std::vector<core::WorkerAction> spare_worker_actions_;
    std::vector<Live> requests_;  // by id
    std::vector<Arrival> arrivals_;
    std::size_t next_arrival_ = 0;
    std::int64_t n_waiting_ = 0;  // arrived and not admitted
    TimePoint now_;
    TimePoint window_begin_;
    TimePoint window_end_;
    std::uint64_t order_ = 0;
    std::int32_t ticks_ = 0;
    double rented_s_ = 0;  // of the nodes that were dismissed, in the window
    bool serving_ = false;
    std::string trouble_;  // why no placement came into force
    LatencyStats ttft_;
    LatencyStats tpot_;
    std::uint64_t decode_tokens_ = 0;
    std::uint64_t prompt_tokens_ = 0;
    std::uint64_t stages_ = 0;
    std::int64_t n_resident_ = 0;
    TimePoint resident_since_;
    double resident_s_ = 0;
    SimReport counts_;
};

// How long a node takes to load its layers.
double loading_s(const HelixSetup& setup, std::size_t node);
// What makes a setup impossible, before anything runs.
base::Status check_setup(const HelixSetup& setup);

}  // namespace helix::sim
