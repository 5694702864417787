#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/coordinator_impl.h"
#include "core/invariants.h"
#include "core/worker/worker.h"

namespace helix::core {

// A coordinator over four workers in virtual time, with pages that have content: what a row leaves
// in its page depends on its activation, and the activation after each layer on all that is in the
// pages up to it. So one wrong page anywhere changes the tokens that follow.
//
// It has six layers and three ways: 0 [0,3) -> 1 [3,6), 2 [0,2) -> 3 [2,6) and 0 [0,3) -> 3 [3,6).
class MovingCluster {
  public:
    static constexpr std::int32_t kBlock = 4;
    static constexpr std::int32_t kLayers = 6;
    static constexpr int kCoordinator = -1;

    enum class Fate { deliver, lose, twice, late };
    struct Answer {
        std::map<std::int32_t, std::vector<Token>> choices;
        std::optional<FinishRequest> finish;
    };

    static CoordinatorConfig settings() {
        CoordinatorConfig config;
        config.n_layers = kLayers;
        config.context_length = 256;
        config.block_size = kBlock;
        config.expected_output_tokens = 24;
        config.preemption_pause = base::from_ms(5);
        config.lost_rows_timeout = base::from_ms(800);
        config.migration.timeout = base::from_ms(400);
        config.migration.hold_timeout = base::from_ms(100);
        config.migration.last_round_blocks = 1;
        return config;
    }

    explicit MovingCluster(const CoordinatorConfig& config = settings(), std::int64_t pages = 900,
                           const std::vector<spec::NodeRole>& roles = {})
        : coordinator_(config), shared_kv_layers_(config.shared_kv_layers) {
        const std::vector<LayerRange> layers = {{0, 3}, {3, 6}, {0, 2}, {2, 6}};
        WorkerConfig how;
        how.block_size = kBlock;
        how.n_layers = kLayers;
        how.shared_kv_layers = config.shared_kv_layers;
        how.max_batch_rows = 64;
        how.mixed_prefill_rows = 16;
        how.report_interval = base::from_ms(100);
        how.transfer_pages = 8;
        how.prefix_cache = config.prefix_cache;
        how.orphan_timeout = base::from_ms(300);
        for (std::uint32_t w = 0; w < 4; ++w) {
            machines_.push_back(std::make_unique<Machine>(WorkerId{w}, how, pages));
            WorkerJoined joined;
            joined.worker = {w};
            joined.incarnation = 1;
            joined.node.name = "w" + std::to_string(w);
            if (!roles.empty()) joined.node.role = roles.at(w);
            step(joined);
        }
        now = now + base::from_seconds(1);
        placement_.placement.layers = layers;
        placement_.flows = {{spec::kCoordinator, 0, 5},
                            {0, 1, 4},
                            {1, spec::kCoordinator, 4},
                            {spec::kCoordinator, 2, 5},
                            {2, 3, 5},
                            {3, spec::kCoordinator, 6},
                            {0, 3, 1}};
        every(kCoordinator);
        for (int w = 0; w < 4; ++w) every(w);
        run_for(base::from_ms(300));
        EXPECT_TRUE(coordinator_.view().serving);
    }

    // ---- driving

    void step(const CoordinatorEvent& event) {
        std::vector<CoordinatorAction> actions;
        coordinator_.step(now, event, actions);
        note(broken_invariant(coordinator_));
        for (CoordinatorAction& action : actions) perform(action);
    }
    void submit(Request request) { step(Submitted{std::move(request)}); }
    bool advance() {  // one event
        if (events_.empty() || !broken.empty()) return false;
        const auto first = events_.begin();
        now = std::max(now, first->first.first);
        const std::function<void()> what = std::move(first->second);
        events_.erase(first);
        what();
        return true;
    }
    void run_for(Duration time) {
        const TimePoint end = now + time;
        while (!events_.empty() && events_.begin()->first.first <= end && advance()) {
        }
        now = end;
    }
    // Runs until done() is true; false if it is not after a long time.
    bool run_until(const std::function<bool()>& done, Duration most = base::from_seconds(60)) {
        const TimePoint end = now + most;
        while (!done()) {
            if (now > end || !advance()) return false;
        }
        return true;
    }
    std::size_t tokens_of(std::uint64_t id, std::int32_t choice = 0) {
        return answers[id].choices[choice].size();
    }
    // Runs until all requests are over, and checks that nothing of them is left anywhere.
    std::string settle() {
        const bool over = run_until([&] { return coordinator_.impl().requests.empty(); });
        if (!broken.empty()) return broken;
        if (!over) return "a request does not end";
        run_for(base::from_seconds(2));  // what was lost is found by the reports
        if (!broken.empty()) return broken;
        std::string held = held_when_idle(coordinator_);
        for (const auto& machine : machines_) {
            if (machine->alive && held.empty()) held = held_when_idle(machine->worker);
        }
        return held;
    }
    void kill(std::uint32_t w) {
        machines_[w]->alive = false;
        after(base::from_ms(2), [this, w] { step(WorkerLost{{w}, "was killed"}); });
    }
    void after(Duration time, std::function<void()> what) {
        events_.emplace(std::pair(now + time, next_event_++), std::move(what));
    }

    const Coordinator::Impl& state() const { return coordinator_.impl(); }
    ClusterView view() const { return coordinator_.view(); }
    const RequestState* request(std::uint64_t id) const { return state().requests.by_id({id}); }

    TimePoint now;
    std::string broken;
    std::map<std::uint64_t, Answer> answers;
    std::vector<MigrationEnded> ended;
    std::vector<RequestRouted> routed;
    // Decides what becomes of a message, the n-th since counting began.
    std::function<Fate(std::size_t)> fate;
    std::size_t messages = 0;
    std::vector<std::string> log;  // of messages, while `logging`
    bool logging = false;

  private:
    struct Machine {
        Machine(WorkerId self, const WorkerConfig& config, std::int64_t n_pages)
            : id(self), worker(self, config), pages(n_pages) {}
        WorkerId id;
        Worker worker;
        std::int64_t pages;
        bool alive = true;
        std::vector<std::uint64_t> memory;  // [page][position in the block]
        std::vector<std::uint64_t> host;
        std::map<std::uint64_t, std::vector<std::uint64_t>> buffers;  // an activation a row
        std::uint64_t next_buffer = 1;
    };

    void note(const std::string& what) {
        if (broken.empty() && !what.empty()) broken = what;
    }
    void every(int who) {
        after(base::from_ms(20), [this, who] {
            if (who == kCoordinator) {
                step(CoordinatorTick{});
            } else {
                step_worker(who, WorkerTick{});
            }
            every(who);
        });
    }

    // ---- messages

    void send(int from, int to, const std::string& name, const std::function<void()>& arrive) {
        const Fate what = fate ? fate(messages) : Fate::deliver;
        if (logging) {
            log.push_back(std::to_string(messages) + ": " + std::to_string(from) + " to " +
                          std::to_string(to) + " " + name);
        }
        ++messages;
        if (what == Fate::lose) return;
        after(base::from_ms(what == Fate::late ? 23 : 1), arrive);
        if (what == Fate::twice) after(base::from_ms(12), arrive);
    }
    bool alive(int who) const {
        return who == kCoordinator || machines_[static_cast<std::size_t>(who)]->alive;
    }

    void perform(CoordinatorAction& action) {
        if (auto* out = std::get_if<SendToWorker>(&action)) {
            const int to = static_cast<int>(out->worker.value);
            send(kCoordinator, to, "message " + std::to_string(out->message.index()),
                 [this, to, message = out->message] { step_worker(to, MessageArrived{message}); });
        } else if (const auto* token = std::get_if<StreamToken>(&action)) {
            std::vector<Token>& tokens = answers[token->id.value].choices[token->choice];
            if (token->index != static_cast<std::int32_t>(tokens.size())) note("a gap in the text");
            tokens.push_back(token->token.token);
        } else if (const auto* finish = std::get_if<FinishRequest>(&action)) {
            Answer& answer = answers[finish->id.value];
            if (answer.finish) note("it ended twice");
            answer.finish = *finish;
        } else if (const auto* move = std::get_if<MigrationEnded>(&action)) {
            ended.push_back(*move);
        } else if (const auto* way = std::get_if<RequestRouted>(&action)) {
            routed.push_back(*way);
        } else if (const auto* no = std::get_if<RejectRequest>(&action)) {
            note("rejected: " + no->message);
        } else if (const auto* plan = std::get_if<PlanCluster>(&action)) {
            after(base::from_ms(1), [this, plan = plan->plan, n = plan->workers.size()] {
                if (n < 4) return step(NotPlanned{plan, "the others go on"});
                placement_.plan = plan;
                step(placement_);
            });
        }
    }

    void step_worker(int w, const WorkerEvent& event) {
        Machine& machine = *machines_[static_cast<std::size_t>(w)];
        if (!machine.alive) return;
        std::vector<WorkerAction> actions;
        machine.worker.step(now, event, actions);
        note(broken_invariant(machine.worker));
        for (WorkerAction& action : actions) perform(machine, action);
    }

    void perform(Machine& machine, WorkerAction& action) {
        const int self = static_cast<int>(machine.id.value);
        if (auto* run = std::get_if<RunBatch>(&action)) {
            after(base::from_ms(2), [this, self, plan = std::move(run->plan)] {
                if (alive(self)) finish_batch(self, plan);
            });
        } else if (auto* rows = std::get_if<SendToPeer>(&action)) {
            send_rows(machine, *rows);
        } else if (auto* out = std::get_if<SendToCoordinator>(&action)) {
            send(self, kCoordinator, "answer " + std::to_string(out->message.index()),
                 [this, self, message = out->message] {
                     step(FromWorker{{static_cast<std::uint32_t>(self)}, message});
                 });
        } else if (const auto* load = std::get_if<LoadLayers>(&action)) {
            machine.memory.assign(static_cast<std::size_t>(machine.pages * kBlock), 0);
            machine.host.assign(machine.memory.size(), 0);
            after(base::from_ms(1), [this, self, epoch = load->epoch, pages = machine.pages] {
                step_worker(self, LayersLoaded{epoch, pages, pages, "toy"});
            });
        } else if (const auto* send_kv = std::get_if<ExportKv>(&action)) {
            after(base::from_ms(1), [this, self, one = *send_kv] { finish_export(self, one); });
        } else if (const auto* import = std::get_if<ImportKv>(&action)) {
            after(base::from_ms(1), [this, self, one = *import] { finish_import(self, one); });
        } else if (const auto* release = std::get_if<ReleaseBuffer>(&action)) {
            if (machine.buffers.erase(release->buffer) != 1) note("no such buffer");
        }
    }

    // ---- the engine

    static std::uint64_t* block(std::vector<std::uint64_t>& memory, PageId page) {
        return &memory.at(page * std::size_t{kBlock});
    }

    void finish_export(int w, const ExportKv& one) {
        if (!alive(w)) return;
        Machine& machine = *machines_[static_cast<std::size_t>(w)];
        std::vector<std::uint64_t> content;
        for (const PageId page : one.pages) {
            const std::uint64_t* from = block(machine.memory, page);
            content.insert(content.end(), from, from + kBlock);
        }
        const int to = static_cast<int>(one.to.value);
        send(w, to, "KV", [this, to, message = one.message, content = std::move(content)] {
            if (!alive(to)) return;
            Machine& receiver = *machines_[static_cast<std::size_t>(to)];
            KvBlocks blocks = message;
            blocks.payload.buffer = receiver.next_buffer++;
            receiver.buffers[blocks.payload.buffer] = content;
            step_worker(to, MessageArrived{std::move(blocks)});
        });
        step_worker(w, KvExported{one.transfer});
    }

    void finish_import(int w, const ImportKv& one) {
        if (!alive(w)) return;
        Machine& machine = *machines_[static_cast<std::size_t>(w)];
        const std::vector<std::uint64_t>& frame = machine.buffers.at(one.buffer);
        if (frame.size() != one.frame_pages * std::size_t{kBlock}) note("a frame of another size");
        for (std::size_t i = 0; i < one.pages.size(); ++i) {
            const auto from = frame.begin() + static_cast<std::ptrdiff_t>(one.content[i]) * kBlock;
            std::copy(from, from + kBlock, block(machine.memory, one.pages[i]));
        }
        step_worker(w, KvImported{one.transfer});
    }

    void send_rows(Machine& machine, SendToPeer& action) {
        std::vector<std::uint64_t> rows;
        for (StageInput& input : action.inputs.inputs) {
            const auto from = machine.buffers.at(input.payload.buffer).begin() +
                              static_cast<std::ptrdiff_t>(input.payload.first_row);
            input.payload.first_row = static_cast<std::uint32_t>(rows.size());
            rows.insert(rows.end(), from, from + input.payload.rows);
        }
        const int to = static_cast<int>(action.peer.value);
        send(static_cast<int>(machine.id.value), to, "rows",
             [this, to, inputs = std::move(action.inputs), rows = std::move(rows)] {
                 if (!alive(to)) return;
                 Machine& receiver = *machines_[static_cast<std::size_t>(to)];
                 const std::uint64_t buffer = receiver.next_buffer++;
                 receiver.buffers[buffer] = rows;
                 StageInputs arrived = inputs;
                 for (StageInput& input : arrived.inputs) input.payload.buffer = buffer;
                 step_worker(to, MessageArrived{std::move(arrived)});
             });
    }

    void finish_batch(int w, const BatchPlan& plan) {
        Machine& machine = *machines_[static_cast<std::size_t>(w)];
        const auto copy = [](std::vector<std::uint64_t>& from, PageId a,
                             std::vector<std::uint64_t>& to,
                             PageId b) { std::copy_n(block(from, a), kBlock, block(to, b)); };
        for (const PageSwap& swap : plan.swap_out) {
            copy(machine.memory, swap.page, machine.host, swap.slot);
        }
        for (const PageSwap& swap : plan.swap_in) {
            copy(machine.host, swap.slot, machine.memory, swap.page);
        }
        for (const PageCopy& one : plan.copies) {
            copy(machine.memory, one.from, machine.memory, one.to);
        }
        std::vector<std::uint64_t>& out = machine.buffers[plan.id];
        out.assign(static_cast<std::size_t>(plan.output_rows), 0);
        BatchFinished done;
        done.id = plan.id;
        done.took = base::from_ms(2);
        for (const BatchChunk& chunk : plan.chunks) {
            const std::vector<std::uint64_t> rows = run_chunk(machine, chunk);
            if (chunk.output_row >= 0) {
                std::copy(rows.begin(), rows.end(), out.begin() + chunk.output_row);
            }
            if (chunk.sample) draw(chunk, rows, done.tokens);
        }
        step_worker(w, std::move(done));
    }

    std::vector<std::uint64_t> run_chunk(Machine& machine, const BatchChunk& chunk) {
        const std::size_t n_blocks =
            chunk.pages.size() / static_cast<std::size_t>(chunk.layers.size());
        std::vector<std::uint64_t> rows;
        for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
            const auto token = static_cast<std::uint64_t>(
                *(chunk.tokens.begin() + static_cast<std::ptrdiff_t>(i)));
            rows.push_back(
                chunk.layers.begin == 0
                    ? base::hash_pair(token, 11)
                    : machine.buffers.at(chunk.input.buffer).at(chunk.input.first_row + i));
        }
        const LayerRange own = spec::kv_layers(chunk.layers, kLayers, shared_kv_layers_);
        for (std::int32_t layer = 0; layer < chunk.layers.size(); ++layer) {
            // Layers without pages read those of the last layer before them.
            const std::int32_t source = std::min(layer, own.size() - 1);
            const auto slot = [&](std::int32_t position) -> std::uint64_t& {
                const std::size_t at = static_cast<std::size_t>(source) * n_blocks +
                                       static_cast<std::size_t>(position / kBlock);
                return block(machine.memory, chunk.pages.at(at))[position % kBlock];
            };
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const auto at = chunk.first_position + static_cast<std::int32_t>(i);
                const auto salt = static_cast<std::uint64_t>(chunk.layers.begin + layer);
                if (layer == source) slot(at) = base::hash_pair(rows[i], salt);
                std::uint64_t seen = 1;
                for (std::int32_t p = 0; p <= at; ++p) seen = base::hash_pair(seen, slot(p));
                rows[i] = base::hash_pair(rows[i], seen);
            }
        }
        return rows;
    }

    static void draw(const BatchChunk& chunk, const std::vector<std::uint64_t>& rows,
                     std::vector<ProducedToken>& tokens) {
        const auto one = [&](std::size_t row, std::uint32_t member) {
            ProducedToken made;
            made.key = chunk.key;
            made.key.member = member;
            made.position = chunk.first_position + static_cast<std::int32_t>(row) + 1;
            // What is likely does not depend on who asks, what is drawn does.
            const bool likely = chunk.sampling.n_logprobs > 0;
            std::uint64_t seed = likely ? 3 : spec::member_seed(chunk.sampling.seed, member);
            for (const Token token : chunk.history) {
                seed = base::hash_pair(seed, static_cast<std::uint64_t>(token));
            }
            made.token = static_cast<Token>(base::hash_pair(rows[row], seed) % 40);
            base::Random random(rows[row]);
            for (std::int32_t k = 0; k < chunk.sampling.n_logprobs; ++k) {
                made.top.push_back({(made.token + k) % 40,
                                    static_cast<float>(-0.1 - k * 0.3 - random.uniform() * 0.2)});
            }
            tokens.push_back(made);
            return made.token;
        };
        const std::size_t last = rows.size() - 1;
        if (chunk.drafts > 0) {
            for (std::size_t row = last - static_cast<std::size_t>(chunk.drafts);; ++row) {
                const Token drawn = one(row, chunk.key.member);
                if (row == last) return;
                const Token draft = *(chunk.tokens.begin() + static_cast<std::ptrdiff_t>(row) + 1);
                if (drawn != draft) return;
            }
        }
        if (chunk.draws == 1) {
            one(last, chunk.key.member);
            return;
        }
        for (std::int32_t m = 0; m < chunk.draws; ++m) one(last, static_cast<std::uint32_t>(m));
    }

    Coordinator coordinator_;
    std::int32_t shared_kv_layers_;
    Planned placement_;
    std::vector<std::unique_ptr<Machine>> machines_;
    std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> events_;
    std::uint64_t next_event_ = 0;
};

}  // namespace helix::core
