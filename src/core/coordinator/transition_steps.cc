#include "core/coordinator/transition_steps.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "spec/placement.h"

namespace helix::core {
namespace {

constexpr std::size_t kMostStates = 300;  // the most that one search looks at

using Flags = std::vector<char>;  // by node

class StepSearch {
  public:
    StepSearch(std::int32_t n_layers, const std::vector<TransitionNode>& nodes,
               const std::vector<std::pair<std::int32_t, std::int32_t>>& links)
        : n_layers_(n_layers), nodes_(nodes), linked_((nodes.size() + 1) * (nodes.size() + 1), 0) {
        for (const auto& [from, to] : links) linked_[cell(from, to)] = 1;
    }

    // Returns the nodes on a complete pipeline, or none if there is none. Those in changed hold
    // their next layers; those in away hold nothing.
    Flags useful(const Flags& changed, const Flags& away) const {
        const std::size_t n = nodes_.size();
        std::vector<LayerRange> held(n);
        // The nodes by rising end, which is the order of pipelines.
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < n; ++i) {
            if (away[i] == 0) held[i] = changed[i] != 0 ? nodes_[i].next : nodes_[i].now;
            if (!held[i].empty()) order.push_back(i);
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return held[a].end < held[b].end; });
        Flags reached(n, 0);
        Flags ends(n, 0);
        for (auto v = order.begin(); v != order.end(); ++v) {
            const bool first = held[*v].begin == 0 && linked(spec::kCoordinator, index(*v));
            reached[*v] = first || std::any_of(order.begin(), v, [&](std::size_t u) {
                              return reached[u] != 0 && follows(held[u], held[*v]) &&
                                     linked(index(u), index(*v));
                          });
        }
        for (auto v = order.rbegin(); v != order.rend(); ++v) {
            const bool last = held[*v].end == n_layers_ && linked(index(*v), spec::kCoordinator);
            ends[*v] = last || std::any_of(order.rbegin(), v, [&](std::size_t w) {
                           return ends[w] != 0 && follows(held[*v], held[w]) &&
                                  linked(index(*v), index(w));
                       });
        }
        for (std::size_t i = 0; i < n; ++i) reached[i] = reached[i] != 0 && ends[i] != 0;
        return reached;
    }

    // Returns sets of the nodes that are left to change, in order of preference.
    std::vector<Flags> candidates(const Flags& changed) const {
        std::vector<Flags> groups;
        std::vector<Flags> singles;
        // By group, the layers that are still served.
        std::vector<std::int64_t> left;
        const Flags none(nodes_.size(), 0);
        const Flags before = useful(changed, none);
        const Flags idle = useless(changed, before, none);
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (!remains(changed, i)) continue;
            Flags one(nodes_.size(), 0);
            one[i] = 1;
            const Flags rest = useful(changed, one);
            if (!any(rest)) continue;
            left.push_back(served(changed, rest));
            groups.push_back(useless(changed, rest, one));
            singles.push_back(std::move(one));
        }
        std::vector<std::size_t> order(groups.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return left[a] > left[b]; });
        std::vector<Flags> all;
        if (any(idle) && any(before)) all.push_back(idle);
        for (const std::size_t i : order) all.push_back(groups[i]);
        for (const std::size_t i : order) all.push_back(singles[i]);
        return all;
    }

    // Says whether the rest can change, step by step, without a gap. first is then the next step.
    bool possible(const Flags& changed, Flags& first) {
        if (!left(changed)) return true;
        if (seen_.size() >= kMostStates || !seen_.insert(changed).second) return false;
        for (const Flags& group : candidates(changed)) {
            Flags after = changed;
            for (std::size_t i = 0; i < after.size(); ++i) after[i] |= group[i];
            Flags ignored;
            if (!possible(after, ignored)) continue;
            first = group;
            return true;
        }
        return false;
    }

    // Returns the nodes that change and are on none of these pipelines, together with those of
    // `with`.
    Flags useless(const Flags& changed, const Flags& used, const Flags& with) const {
        Flags found = with;
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (remains(changed, i) && used[i] == 0) found[i] = 1;
        }
        return found;
    }

    static bool any(const Flags& flags) {
        return std::any_of(flags.begin(), flags.end(), [](char f) { return f != 0; });
    }

  private:
    static std::int32_t index(std::size_t i) { return static_cast<std::int32_t>(i); }
    static bool follows(LayerRange before, LayerRange next) {
        return next.begin <= before.end && next.end > before.end;
    }
    std::size_t cell(std::int32_t from, std::int32_t to) const {
        return static_cast<std::size_t>(from + 1) * (nodes_.size() + 1) +
               static_cast<std::size_t>(to + 1);
    }
    bool linked(std::int32_t from, std::int32_t to) const { return linked_[cell(from, to)] != 0; }
    bool remains(const Flags& changed, std::size_t i) const {
        return nodes_[i].changes && changed[i] == 0;
    }
    bool left(const Flags& changed) const {
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (remains(changed, i)) return true;
        }
        return false;
    }
    std::int64_t served(const Flags& changed, const Flags& used) const {
        std::int64_t layers = 0;
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (used[i] == 0) continue;
            layers += (changed[i] != 0 ? nodes_[i].next : nodes_[i].now).size();
        }
        return layers;
    }

    std::int32_t n_layers_;
    const std::vector<TransitionNode>& nodes_;
    Flags linked_;
    std::set<Flags> seen_;
};

}  // namespace

TransitionStep next_transition_step(
    std::int32_t n_layers, const std::vector<TransitionNode>& nodes,
    const std::vector<std::pair<std::int32_t, std::int32_t>>& links) {
    StepSearch search(n_layers, nodes, links);
    const Flags none(nodes.size(), 0);
    const Flags before = search.useful(none, none);
    const bool serves = StepSearch::any(before);
    Flags chosen;
    TransitionStep step;
    step.serves = serves && search.possible(none, chosen);
    if (!step.serves) {
        chosen = search.useless(none, before, none);
        step.serves = serves && StepSearch::any(chosen);
        if (!step.serves) chosen = search.useless(none, none, none);
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] != 0) step.nodes.push_back(static_cast<std::int32_t>(i));
    }
    return step;
}

}  // namespace helix::core
