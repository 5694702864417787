#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/coordinator/coordinator_impl.h"
#include "core/protocol/cluster_view.h"

namespace helix::core {

// The parts of a coordinator without its step: nothing happens but what a test tells one of them
// to do. Workers, placements and requests are put there by hand.
struct Parts : Coordinator::Impl {
    explicit Parts(const CoordinatorConfig& given = small()) : Impl(given) {
        out.begin(now, actions);
    }

    // A model of four layers, blocks of four tokens, and answers that are known to be short.
    static CoordinatorConfig small() {
        CoordinatorConfig config;
        config.n_layers = 4;
        config.context_length = 256;
        config.block_size = 4;
        config.expected_output_tokens = 4;
        return config;
    }

    void pass(Duration time) {
        now = now + time;
        out.begin(now, actions);
    }

    WorkerId join(std::uint32_t id, spec::NodeRole role = spec::NodeRole::both,
                  std::int64_t memory_bytes = 0) {
        WorkerState state;
        state.joined.worker = {id};
        state.joined.incarnation = 1;
        state.joined.node.name = "w" + std::to_string(id);
        state.joined.node.role = role;
        state.joined.node.memory_bytes = memory_bytes;
        state.joined.endpoint = "at " + std::to_string(id);
        fleet.add(std::move(state));
        roles.note_workers();
        return {id};
    }

    // The placement of all that have joined, by rising id: each is a pipeline of its own, and the
    // coordinator sends every one as much.
    PendingPlacement side_by_side() {
        PendingPlacement next;
        for (const auto& [id, worker] : fleet) {
            const auto node = static_cast<std::int32_t>(next.workers.size());
            next.workers.push_back(id);
            next.placement.layers.push_back({0, config.n_layers});
            next.flows.push_back({spec::kCoordinator, node, 5});
            next.flows.push_back({node, spec::kCoordinator, 5});
            next.changed.insert(id);
        }
        return next;
    }
    // The same for one pipeline through all of them, with one layer for each.
    PendingPlacement in_a_row() {
        PendingPlacement next;
        std::int32_t node = 0;
        for (const auto& [id, worker] : fleet) {
            next.workers.push_back(id);
            next.placement.layers.push_back({node, node + 1});
            next.flows.push_back({node - 1, node, 5});
            next.changed.insert(id);
            ++node;
        }
        next.flows.push_back({node - 1, spec::kCoordinator, 5});
        return next;
    }

    void load(WorkerId id, LayerRange layers, std::int64_t pages, std::int64_t swap_pages = 0) {
        fleet.assign(id, layers);
        fleet.at(id).assigned_epoch = 1;
        fleet.loaded(id, LayersReady{1, layers, pages, swap_pages, "plain"});
    }
    void put_in_force(PendingPlacement next, std::int64_t pages = 100,
                      std::int64_t swap_pages = 0) {
        next.epoch = placements.take_epoch();
        for (std::size_t i = 0; i < next.workers.size(); ++i) {
            load(next.workers[i], next.placement.layers[i], pages, swap_pages);
        }
        next.changed.clear();
        placements.set_pending(std::move(next));
        placements.use_router(placements.final_parts());
        placements.put_in_force();
        restore.remember_in_force();
        placements.drop_pending();
    }
    // So many workers, each a pipeline of its own.
    void serve(std::uint32_t workers, std::int64_t pages = 100, std::int64_t swap_pages = 0) {
        for (std::uint32_t id = 0; id < workers; ++id) join(id);
        put_in_force(side_by_side(), pages, swap_pages);
    }

    static Request request_of(std::uint64_t id, std::int32_t prompt = 8, std::int32_t output = 8) {
        Request request;
        request.id = {id};
        for (Token t = 0; t < prompt; ++t) request.prompt.push_back(t % 7 + 1);
        request.max_tokens = output;
        return request;
    }
    // An accepted request that waits.
    RequestState& wait(const Request& request) {
        RequestState state;
        state.request = request;
        state.max_output = request.max_tokens;
        state.accepted = true;
        state.last_progress = now;
        if (request.is_group()) state.group = std::make_unique<SequenceGroup>(request);
        queue.enter(state, demand.tokens_asked(state));
        queue.forget_unaccepted();
        requests.emplace(request.id, std::move(state));
        return requests.at(request.id);
    }
    // It has just been sent to this worker, which is its whole pipeline.
    RequestState& run(const Request& request, std::uint32_t worker) {
        RequestState& state = wait(request);
        life.start(now, state, way({{{worker}, {0, config.n_layers}}}));
        return state;
    }
    // The same, and its first token has come.
    RequestState& decode(const Request& request, std::uint32_t worker) {
        RequestState& state = run(request, worker);
        say_tokens(state, {5});
        return state;
    }
    Path way(const Pipeline& pipeline) const { return placements.router()->graph().path(pipeline); }

    // The last stage sends these tokens. Returns what is wrong with them.
    std::string say_tokens(const RequestState& state, const std::vector<Token>& values) {
        TokensProduced message;
        std::int32_t position = length(state);
        for (const Token value : values) {
            message.tokens.push_back({{state.request.id, state.attempt}, position++, value, 0, {}});
        }
        return tokens.on_tokens(now, state.pipeline.back().worker, message);
    }

    std::int64_t charged(std::uint32_t worker) const { return fleet.at({worker}).kv.charged(); }

    // All actions of kind T since they were forgotten.
    template <typename T>
    std::vector<T> said() const {
        std::vector<T> found;
        for (const CoordinatorAction& action : actions) {
            if (const auto* one = std::get_if<T>(&action)) found.push_back(*one);
        }
        return found;
    }
    // All messages of kind T to this worker.
    template <typename T>
    std::vector<T> sent(std::uint32_t worker) const {
        std::vector<T> found;
        for (const SendToWorker& send : said<SendToWorker>()) {
            const auto* one = std::get_if<T>(&send.message);
            if (send.worker == WorkerId{worker} && one != nullptr) found.push_back(*one);
        }
        return found;
    }
    bool reported(ReportCause cause) const {
        for (const Report& report : said<Report>()) {
            if (report.cause == cause) return true;
        }
        return false;
    }

    TimePoint now;
    std::vector<CoordinatorAction> actions;
};

}  // namespace helix::core
