#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "core/invariants.h"
#include "core/worker/worker.h"

namespace helix::core {

// Several workers whose pages have content: what a position leaves in a page depends on its token,
// on all tokens before it and on the layer. Every row that a batch runs is checked to find exactly
// what it needs before it. Rows and KV travel between the workers, and the test plays the
// coordinator.
class KvMoverDrive {
  public:
    static constexpr std::int32_t kBlock = 4;
    static constexpr std::int32_t kLayers = 6;

    struct Machine {
        explicit Machine(WorkerId id, const WorkerConfig& config) : worker(id, config) {}
        Worker worker;
        std::vector<std::uint64_t> memory;  // [page][slot]
        std::map<std::uint64_t, std::vector<std::uint64_t>> buffers;
        std::uint64_t next_buffer = 1;
        std::optional<BatchPlan> batch;
        std::optional<ExportKv> sending;
        std::vector<std::uint64_t> sent_before;  // its pages' content when it began
        std::deque<ImportKv> arriving;
        std::optional<LoadLayers> loading;
        std::vector<CoordinatorMessage> said;
    };
    // A message of KV under way.
    struct Going {
        WorkerId to;
        KvBlocks message;
        std::vector<std::uint64_t> content;
    };

    explicit KvMoverDrive(std::uint64_t seed, std::size_t n_workers = 4, bool prefix_cache = true,
                          std::int32_t transfer_pages = 6)
        : random(seed) {
        config.n_layers = kLayers;
        config.block_size = kBlock;
        config.transfer_pages = transfer_pages;
        config.prefix_cache = prefix_cache;
        for (std::uint32_t i = 0; i < n_workers; ++i) machines.emplace_back(WorkerId{i}, config);
    }

    void load(std::uint32_t w, std::uint64_t epoch, LayerRange layers, std::int64_t pages) {
        say(w, AssignLayers{epoch, layers, 1, {}});
        finish_loading(w, pages);
    }
    void finish_loading(std::uint32_t w, std::int64_t pages) {
        Machine& machine = machines[w];
        ASSERT_TRUE(machine.loading.has_value());
        const std::uint64_t epoch = std::exchange(machine.loading, {})->epoch;
        machine.memory.assign(static_cast<std::size_t>(pages * kBlock), 0);
        step(w, LayersLoaded{epoch, pages, 0, "toy"});
    }

    void say(std::uint32_t w, WorkerMessage message) {
        step(w, MessageArrived{std::move(message)});
    }
    void step(std::uint32_t w, const WorkerEvent& event) {
        std::vector<WorkerAction> actions;
        machines[w].worker.step(now, event, actions);
        note(broken_invariant(machines[w].worker));
        for (WorkerAction& action : actions) perform(w, action);
    }

    // Lets one thing that is under way happen, drawn at random; false when nothing is.
    bool advance() {
        std::vector<std::pair<int, std::uint32_t>> choices;
        for (std::uint32_t w = 0; w < machines.size(); ++w) {
            if (machines[w].batch) choices.emplace_back(0, w);
            if (machines[w].sending) choices.emplace_back(1, w);
            if (!machines[w].arriving.empty()) choices.emplace_back(2, w);
        }
        if (!going.empty()) choices.emplace_back(3, 0);
        if (choices.empty()) return false;
        const auto [what, w] = choices[random.below(choices.size())];
        if (what == 0) finish_batch(w);
        if (what == 1) finish_export(w);
        if (what == 2) finish_import(w);
        if (what == 3) deliver(random.below(going.size()));
        return true;
    }
    void settle() {
        while (broken.empty() && advance()) {
        }
    }

    // Any message of KV that is under way arrives; maybe twice.
    void deliver(std::size_t which) {
        const Going one = going[which];
        const bool again = duplicates && random.chance(0.3);
        if (!again) going.erase(going.begin() + static_cast<std::ptrdiff_t>(which));
        Machine& machine = machines[one.to.value];
        KvBlocks message = one.message;
        message.payload.buffer = machine.next_buffer++;
        machine.buffers[message.payload.buffer] = one.content;
        say(one.to.value, std::move(message));
    }

    // Takes what the workers said of this kind.
    template <typename T>
    std::vector<T> heard(std::uint32_t w) {
        std::vector<T> all;
        std::vector<CoordinatorMessage> rest;
        for (CoordinatorMessage& message : machines[w].said) {
            if (auto* one = std::get_if<T>(&message)) {
                all.push_back(*one);
            } else {
                rest.push_back(std::move(message));
            }
        }
        machines[w].said = std::move(rest);
        return all;
    }
    void note(const std::string& what) {
        if (broken.empty()) broken = what;
    }

    // A digest of this position and all before it; any wrong token in a text gives another.
    static std::uint64_t digest(const std::vector<Token>& text, std::int32_t tokens) {
        std::uint64_t sum = 3;
        for (std::int32_t p = 0; p < tokens; ++p) {
            sum =
                base::hash_pair(sum, static_cast<std::uint64_t>(text[static_cast<std::size_t>(p)]));
        }
        return sum;
    }

    base::Random random;
    WorkerConfig config;
    TimePoint now;
    std::vector<Machine> machines;
    std::deque<Going> going;
    bool duplicates = false;
    std::string broken;
    // The text of each sequence, as far as its rows were sent: what batches check against.
    std::map<SequenceKey, std::vector<Token>> texts;
    std::map<SequenceKey, std::int32_t> finished;  // rows that all stages have run

  private:
    std::uint64_t& slot(Machine& machine, PageId page, std::int32_t position) {
        return machine.memory.at(page * kBlock + static_cast<std::size_t>(position % kBlock));
    }

    void perform(std::uint32_t w, WorkerAction& action) {
        Machine& machine = machines[w];
        if (auto* run = std::get_if<RunBatch>(&action)) {
            if (machine.batch) note("two batches at once");
            machine.batch = std::move(run->plan);
        } else if (auto* rows = std::get_if<SendToPeer>(&action)) {
            send_rows(*rows);
        } else if (auto* out = std::get_if<SendToCoordinator>(&action)) {
            machine.said.push_back(std::move(out->message));
        } else if (auto* load = std::get_if<LoadLayers>(&action)) {
            if (machine.batch || machine.sending || !machine.arriving.empty()) {
                note("other layers while pages are in use");
            }
            machine.loading = *load;
        } else if (auto* send = std::get_if<ExportKv>(&action)) {
            if (machine.sending) note("two exports at once");
            machine.sending = std::move(*send);
            machine.sent_before = content(machine, machine.sending->pages);
        } else if (auto* import = std::get_if<ImportKv>(&action)) {
            machine.arriving.push_back(std::move(*import));
        } else if (auto* release = std::get_if<ReleaseBuffer>(&action)) {
            if (release->buffer < kFirstBatch && machine.buffers.erase(release->buffer) != 1) {
                note("released a buffer that is not there");
            }
        }
    }

    std::vector<std::uint64_t> content(const Machine& machine, const std::vector<PageId>& pages) {
        std::vector<std::uint64_t> all;
        for (const PageId page : pages) {
            for (std::size_t i = 0; i < kBlock; ++i)
                all.push_back(machine.memory.at(page * kBlock + i));
        }
        return all;
    }

    void finish_export(std::uint32_t w) {
        Machine& machine = machines[w];
        const ExportKv done = std::move(*machine.sending);
        machine.sending.reset();
        if (content(machine, done.pages) != machine.sent_before) note("written while it was sent");
        going.push_back({done.to, done.message, machine.sent_before});
        step(w, KvExported{done.transfer});
    }

    void finish_import(std::uint32_t w) {
        Machine& machine = machines[w];
        const std::size_t which = random.below(machine.arriving.size());
        const ImportKv done = machine.arriving[which];
        machine.arriving.erase(machine.arriving.begin() + static_cast<std::ptrdiff_t>(which));
        const std::vector<std::uint64_t>& frame = machine.buffers.at(done.buffer);
        if (frame.size() != done.frame_pages * std::size_t{kBlock}) note("a frame of another size");
        for (std::size_t i = 0; i < done.pages.size(); ++i) {
            for (std::int32_t p = 0; p < kBlock; ++p) {
                slot(machine, done.pages[i], p) =
                    frame.at(done.content[i] * std::size_t{kBlock} + static_cast<std::size_t>(p));
            }
        }
        step(w, KvImported{done.transfer});
    }

    void finish_batch(std::uint32_t w) {
        Machine& machine = machines[w];
        const BatchPlan plan = std::move(*machine.batch);
        machine.batch.reset();
        for (const PageCopy& copy : plan.copies) {
            for (std::int32_t p = 0; p < kBlock; ++p) {
                slot(machine, copy.to, p) = slot(machine, copy.from, p);
            }
        }
        std::vector<ProducedToken> tokens;
        for (const BatchChunk& chunk : plan.chunks) {
            run_chunk(machine, chunk);
            if (!chunk.sample) continue;
            const auto end = chunk.first_position + static_cast<std::int32_t>(chunk.tokens.size());
            tokens.push_back({chunk.key, end, 7, 0, {}});
            finished[chunk.key] = end;
        }
        step(w, BatchFinished{plan.id, std::move(tokens), {}});
    }

    void run_chunk(Machine& machine, const BatchChunk& chunk) {
        const auto layers = static_cast<std::size_t>(chunk.layers.size());
        const std::size_t n_blocks = chunk.pages.size() / layers;
        const std::vector<Token>& text = texts.at(chunk.key);
        const auto page = [&](std::int32_t layer, std::int32_t position) {
            const auto l = static_cast<std::size_t>(layer - chunk.layers.begin);
            return chunk.pages.at(l * n_blocks + static_cast<std::size_t>(position / kBlock));
        };
        const auto value = [&](std::int32_t layer, std::int32_t position) {
            return base::hash_pair(digest(text, position + 1), static_cast<std::uint64_t>(layer));
        };
        for (std::int32_t layer = chunk.layers.begin; layer < chunk.layers.end; ++layer) {
            for (std::int32_t p = 0; p < chunk.first_position; ++p) {
                if (slot(machine, page(layer, p), p) == value(layer, p)) continue;
                note("request " + std::to_string(chunk.key.request.value) + "." +
                     std::to_string(chunk.key.attempt) + "/" + std::to_string(chunk.key.member) +
                     ": wrong KV of layer " + std::to_string(layer) + " at " + std::to_string(p));
            }
            for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
                const auto p = chunk.first_position + static_cast<std::int32_t>(i);
                slot(machine, page(layer, p), p) = value(layer, p);
            }
        }
    }

    void send_rows(SendToPeer& action) {
        Machine& to = machines[action.peer.value];
        const std::uint64_t buffer = to.next_buffer++;
        to.buffers[buffer] = {};
        for (StageInput& input : action.inputs.inputs) input.payload.buffer = buffer;
        say(action.peer.value, std::move(action.inputs));
    }
};

}  // namespace helix::core
