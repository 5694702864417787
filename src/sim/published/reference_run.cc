#include <fmt/format.h>

#include <limits>

#include "base/check.h"
#include "sim/published/reference_node.h"
#include "sim/published/reference_routing.h"

namespace helix::sim {
namespace {

constexpr double kProgressEveryS = 5;

base::Status check_numbers(const ReferenceSetup& setup) {
    if (setup.nodes.empty()) return base::invalid("the placement gives no node any layer");
    if (setup.lengths.empty()) return base::invalid("no request lengths are given");
    if (!(setup.duration_s > 0) || setup.warmup_s < 0) {
        return base::invalid("the window's duration must be above 0 and its warm-up not below 0");
    }
    if (setup.offline.initial < 1 && !setup.online) {
        return base::invalid("offline load: at least one request must be fed at the start");
    }
    return base::Ok{};
}

// Some way from the coordinator through all layers back to it.
base::Status check_paths(const ReferenceSetup& setup) {
    std::vector<std::int32_t> holders(static_cast<std::size_t>(setup.n_layers));
    for (const ReferenceNode& node : setup.nodes) {
        for (std::int32_t l = node.layers.begin; l < node.layers.end; ++l) {
            ++holders[static_cast<std::size_t>(l)];
        }
    }
    for (std::size_t l = 0; l < holders.size(); ++l) {
        if (holders[l] == 0) return base::invalid(fmt::format("no node holds layer {}", l));
    }
    const bool by_flow = setup.scheduler == ReferenceScheduler::max_flow;
    std::vector<bool> has_out(setup.nodes.size());
    bool starts = false;
    for (const ReferenceLink& link : setup.links) {
        if (by_flow && !(link.flow_tokens_per_s > 0)) continue;
        if (link.from == spec::kCoordinator) {
            starts = true;
        } else {
            has_out[static_cast<std::size_t>(link.from)] = true;
        }
    }
    const char* kind = by_flow ? "link with flow" : "link";
    if (!starts) return base::invalid(fmt::format("no {} leaves the coordinator", kind));
    for (const ReferenceLink& link : setup.links) {
        if (by_flow && !(link.flow_tokens_per_s > 0)) continue;
        if (link.to == spec::kCoordinator || has_out[static_cast<std::size_t>(link.to)]) continue;
        return base::invalid(fmt::format("node {} is a dead end: no {} leaves it",
                                         setup.nodes[static_cast<std::size_t>(link.to)].node,
                                         kind));
    }
    return base::Ok{};
}

base::Status check_lengths(const ReferenceSetup& setup) {
    const std::int32_t longest = setup.lengths.longest_prompt();
    for (const ReferenceNode& node : setup.nodes) {
        const bool too_long =
            longest > node.prompt_max_tokens && setup.scheduler != ReferenceScheduler::max_flow;
        if (too_long || setup.lengths.longest_context() > node.decode_max_context) {
            return base::invalid(fmt::format(
                "node {}: its largest batch takes {} prompt tokens and {} of context; the lengths "
                "have prompts of up to {} tokens and contexts of up to {}",
                node.node, node.prompt_max_tokens, node.decode_max_context, longest,
                setup.lengths.longest_context()));
        }
    }
    return base::Ok{};
}

}  // namespace

std::unique_ptr<ReferenceRouting> make_routing(ReferenceWorld& world) {
    switch (world.setup().scheduler) {
        case ReferenceScheduler::max_flow:
            return make_max_flow_routing(world);
        case ReferenceScheduler::swarm:
            return make_swarm_routing(world);
        case ReferenceScheduler::random:
            return make_random_routing(world, false);
        case ReferenceScheduler::shortest_queue:
            return make_random_routing(world, true);
    }
    CHECK(false);
    return nullptr;
}

base::Result<SimReport> ReferenceWorld::run(const Progress& progress) {
    window_begin_s_ = setup_.start_s + setup_.warmup_s;
    window_end_s_ = window_begin_s_ + setup_.duration_s;
    std::vector<Arrival> arrivals;
    if (setup_.online) {
        TRY(arrivals, make_arrivals(*setup_.online, lengths_, setup_.start_s,
                                    setup_.warmup_s + setup_.duration_s, random_));
    } else {
        for (std::int32_t i = 0; i < setup_.offline.initial; ++i) {
            add_query(setup_.start_s + i * setup_.offline.spacing_s, lengths_.next(random_));
        }
    }
    std::size_t next = 0;
    double shown_s = setup_.start_s;
    while (true) {
        const double due_s =
            events_.empty() ? std::numeric_limits<double>::infinity() : events_.next_s();
        if (next < arrivals.size() && due_s >= arrivals[next].at_s) {
            add_query(arrivals[next].at_s, arrivals[next].length);
            ++next;
            continue;
        }
        if (!(due_s < window_end_s_)) break;
        handle(events_.pop());
        if (progress && now_s() >= shown_s) {
            shown_s = now_s() + kProgressEveryS;
            progress(now_s() - setup_.start_s, window_end_s_ - setup_.start_s);
        }
    }
    return report();
}

base::Result<SimReport> run_reference(const ReferenceSetup& setup,
                                      const ReferenceWorld::Progress& progress) {
    TRY_VOID(check_numbers(setup));
    TRY_VOID(check_paths(setup));
    TRY_VOID(check_lengths(setup));
    ReferenceWorld world(setup);
    return world.run(progress);
}

}  // namespace helix::sim
