// Golden traces: a script above "----", everything coordinator and workers do below it. To accept a
// new trace: HELIX_UPDATE_GOLDEN=1 build/dev/bin/helix_sim_test --gtest_filter='Golden*', then read
// the diff.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/faults/faulty_cluster.h"

namespace helix::sim::golden_test {
namespace {

constexpr const char* kFolder = HELIX_SOURCE_DIR "/tests/golden/sim";

class UnitCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return node.decode_s_per_layer * (1 + 0.1 * decode_seqs + 0.25 * prefill_tokens);
    }
};

// Runs one script: "layers", "worker LAYERS PAGES SPEED" and "copying BYTES_PER_S LAST_BLOCKS"
// lines first, then submit, cancel, kill, rejoin, move, fault, run.
class Script {
  public:
    std::string run(const std::string& text) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            if (line.empty() || line[0] == '#') continue;
            std::istringstream words(line);
            std::string verb;
            words >> verb;
            if (verb == "layers") {
                words >> n_layers_;
            } else if (verb == "copying") {
                words >> bytes_per_s_ >> last_round_blocks_;
            } else if (verb == "worker") {
                add(words);
            } else {
                start();
                command(verb, words);
            }
        }
        return trace_;
    }

  private:
    void add(std::istringstream& words) {
        spec::LayerRange range;
        std::int64_t pages = 0;
        spec::NodeSpec node;
        words >> range.begin >> range.end >> pages >> node.decode_s_per_layer;
        node.name = "w" + std::to_string(ranges_.size());
        ranges_.push_back(range);
        nodes_.emplace_back(node, pages);
    }

    core::CoordinatorEvent plan(const core::PlanCluster& request) const {
        core::Planned planned;
        planned.plan = request.plan;
        std::int32_t covered = 0;
        for (const core::WorkerId id : request.workers) {
            planned.placement.layers.push_back(ranges_[id.value]);
        }
        const auto& held = planned.placement.layers;
        const auto n = static_cast<std::int32_t>(held.size());
        for (std::int32_t layer = 0; layer < n_layers_; ++layer) {
            covered += std::any_of(held.begin(), held.end(),
                                   [&](const auto& r) { return r.contains(layer); });
        }
        if (covered < n_layers_)
            return core::NotPlanned{request.plan, "some layers have no holder"};
        for (std::int32_t i = 0; i < n; ++i) {
            const auto& a = held[static_cast<std::size_t>(i)];
            if (a.begin == 0) planned.flows.push_back({spec::kCoordinator, i, 1});
            if (a.end == n_layers_) planned.flows.push_back({i, spec::kCoordinator, 1});
            for (std::int32_t j = 0; j < n; ++j) {
                const auto& b = held[static_cast<std::size_t>(j)];
                if (b.begin <= a.end && a.end < b.end) planned.flows.push_back({i, j, 1});
            }
        }
        return planned;
    }

    void start() {
        if (world_) return;
        FaultyClusterConfig config;
        config.coordinator.n_layers = config.worker.n_layers = n_layers_;
        config.coordinator.context_length = 256;
        config.coordinator.block_size = config.worker.block_size = 4;
        config.coordinator.expected_output_tokens = 4;
        config.worker.max_batch_rows = 16;
        config.worker.mixed_prefill_rows = 4;
        config.worker.report_interval = base::from_seconds(100);  // keeps the traces short
        config.migration_bytes_per_s = bytes_per_s_;
        config.coordinator.migration.last_round_blocks = last_round_blocks_;
        world_ = std::make_unique<FaultyCluster>(
            config, [this](const core::PlanCluster& request) { return plan(request); }, cost_);
        world_->set_trace([this](const std::string& line) { trace_ += line + "\n"; });
        for (const auto& [node, pages] : nodes_) world_->add_worker(node, pages);
    }

    void command(const std::string& verb, std::istringstream& words) {
        if (verb ==
            "fault") {  // the rest as sim/faults/fault_plan.h has it; its time counts from now
            std::string rest;
            std::getline(words, rest);
            const auto plan = parse_fault_plan(rest);
            ASSERT_TRUE(plan.ok()) << plan.error().message;
            return world_->run_faults(*plan);
        }
        double number = 0;
        words >> number;
        if (verb == "run") {
            world_->run_for(number);
        } else if (verb == "kill") {
            world_->kill({static_cast<std::uint32_t>(number)});
        } else if (verb == "rejoin") {
            world_->rejoin({static_cast<std::uint32_t>(number)});
        } else if (verb == "cancel") {
            world_->cancel({static_cast<std::uint64_t>(number)});
        } else if (verb == "move") {  // over these workers
            core::MoveRequest move{{static_cast<std::uint64_t>(number)}, {}};
            std::int32_t layer = 0;
            for (std::uint32_t worker = 0; words >> worker; layer = ranges_.at(worker).end) {
                move.to.push_back({{worker}, {layer, ranges_.at(worker).end}});
            }
            world_->tell(move);
        } else if (verb == "submit") {
            core::Request request;
            request.prompt.assign(static_cast<std::size_t>(number), 7);
            words >> request.max_tokens >> request.priority;
            world_->submit(request);
        } else {
            ADD_FAILURE() << "unknown command " << verb;
        }
    }

    UnitCost cost_;
    std::int32_t n_layers_ = 8;
    double bytes_per_s_ = 5e8;
    std::int32_t last_round_blocks_ = 2;
    std::vector<spec::LayerRange> ranges_;
    std::vector<std::pair<spec::NodeSpec, std::int64_t>> nodes_;
    std::unique_ptr<FaultyCluster> world_;
    std::string trace_;
};

TEST(GoldenTrace, EveryScriptGivesItsTrace) {
    const bool update = std::getenv("HELIX_UPDATE_GOLDEN") != nullptr;
    int scripts = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
        std::ifstream in(entry.path());
        std::stringstream buffer;
        buffer << in.rdbuf();
        const std::string text = buffer.str();
        const std::string script = text.substr(0, text.find("----\n"));
        const std::string expected = script + "----\n" + Script().run(script);
        if (update) {
            std::ofstream(entry.path()) << expected;
        } else {
            EXPECT_EQ(text, expected) << entry.path();
        }
        ++scripts;
    }
    EXPECT_GE(scripts, 4);
}

}  // namespace
}  // namespace helix::sim::golden_test
