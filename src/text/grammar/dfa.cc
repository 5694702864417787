#include "text/grammar/dfa.h"

#include <algorithm>
#include <deque>
#include <set>

namespace helix::text::grammar {

Alphabet::Alphabet(std::vector<CharSet> sets, StepBudget& budget) {
    sets.push_back(complement({}));
    std::sort(sets.begin(), sets.end(), [](const CharSet& a, const CharSet& b) {
        return std::lexicographical_compare(
            a.begin(), a.end(), b.begin(), b.end(), [](const CodeRange& x, const CodeRange& y) {
                return x.first != y.first ? x.first < y.first : x.last < y.last;
            });
    });
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    std::set<char32_t> cuts{0};
    for (const CharSet& set : sets) {
        for (const CodeRange& range : set) {
            cuts.insert(range.first);
            cuts.insert(range.last + 1);
        }
    }
    begins_.assign(cuts.begin(), cuts.end());
    std::map<std::vector<bool>, std::uint32_t> known;
    known.emplace(std::vector<bool>(sets.size()), 0);  // in no set: the surrogates
    std::vector<std::size_t> at(sets.size());          // the range of each set that may come next
    for (const char32_t begin : begins_) {
        if (!budget.spend(1 + sets.size() / 8)) return;
        std::vector<bool> in(sets.size());
        for (std::size_t i = 0; i < sets.size(); ++i) {
            while (at[i] < sets[i].size() && sets[i][at[i]].last < begin) ++at[i];
            in[i] = at[i] < sets[i].size() && sets[i][at[i]].first <= begin;
        }
        const auto found = known.emplace(std::move(in), static_cast<std::uint32_t>(known.size()));
        class_of_.push_back(found.first->second);
    }
    classes_ = known.size();
}

std::uint32_t Alphabet::class_of(char32_t code) const {
    const auto it = std::upper_bound(begins_.begin(), begins_.end(), code);
    return class_of_[static_cast<std::size_t>(it - begins_.begin()) - 1];
}

std::vector<std::uint32_t> Alphabet::classes_in(const CharSet& set) const {
    std::vector<std::uint32_t> out;
    for (const CodeRange& range : set) {
        auto it = std::upper_bound(begins_.begin(), begins_.end(), range.first) - 1;
        for (; it != begins_.end() && *it <= range.last; ++it) {
            out.push_back(class_of_[static_cast<std::size_t>(it - begins_.begin())]);
        }
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

CharSet Alphabet::characters(const std::vector<std::uint32_t>& classes) const {
    std::vector<bool> wanted(classes_);
    for (const std::uint32_t c : classes) wanted[c] = true;
    std::vector<CodeRange> out;
    for (std::size_t i = 0; i < begins_.size(); ++i) {
        if (!wanted[class_of_[i]]) continue;
        const char32_t last = i + 1 < begins_.size() ? begins_[i + 1] - 1 : kLastCodePoint;
        out.push_back({begins_[i], std::min(last, kLastCodePoint)});
    }
    return make_char_set(std::move(out));
}

void append_char_sets(const Expr& e, std::vector<CharSet>& out) {
    if (e.kind == Expr::Kind::chars) out.push_back(e.chars);
    if (e.kind == Expr::Kind::literal) {
        for (const char c : e.text) {
            const auto code = static_cast<char32_t>(static_cast<unsigned char>(c));
            out.push_back({{code, code}});
        }
    }
    const bool word = e.kind == Expr::Kind::assertion && (e.assertion == Assertion::word_edge ||
                                                          e.assertion == Assertion::no_word_edge);
    if (word) out.push_back({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    for (const Expr& item : e.items) append_char_sets(item, out);
}

Dfa::State Dfa::add_state(bool accepts) {
    accepts_.push_back(accepts);
    next_.resize(next_.size() + classes_, kDead);
    return static_cast<State>(accepts_.size() - 1);
}

bool Dfa::matches(std::u32string_view text, const Alphabet& alphabet) const {
    State at = start_;
    for (const char32_t code : text) at = next(at, alphabet.class_of(code));
    return accepts(at);
}

bool Dfa::accepts_all(State state) const {
    if (!accepts(state)) return false;
    for (std::uint32_t c = 1; c < classes_; ++c) {
        if (next(state, c) != state) return false;
    }
    return true;
}

std::vector<std::uint32_t> Dfa::shortest_ends() const {
    std::vector<std::vector<State>> before(size());
    for (State s = 1; s < size(); ++s) {
        for (std::uint32_t c = 1; c < classes_; ++c) before[next(s, c)].push_back(s);
    }
    std::vector<std::uint32_t> out(size(), kNever);
    std::deque<State> open;
    for (State s = 1; s < size(); ++s) {
        if (!accepts(s)) continue;
        out[s] = 0;
        open.push_back(s);
    }
    while (!open.empty()) {
        const State at = open.front();
        open.pop_front();
        for (const State from : before[at]) {
            if (out[from] != kNever) continue;
            out[from] = out[at] + 1;
            open.push_back(from);
        }
    }
    return out;
}

std::optional<Dfa> Dfa::both(const Dfa& a, const Dfa& b, StepBudget& budget) {
    Dfa out(a.classes_);
    std::map<std::pair<State, State>, State> known;
    std::vector<std::pair<State, State>> open;
    const auto state_of = [&](State x, State y) {
        if (x == kDead || y == kDead) return kDead;
        const auto found = known.find({x, y});
        if (found != known.end()) return found->second;
        const State made = out.add_state(a.accepts(x) && b.accepts(y));
        known.emplace(std::pair(x, y), made);
        open.emplace_back(x, y);
        return made;
    };
    out.start_ = state_of(a.start_, b.start_);
    while (!open.empty()) {
        const auto [x, y] = open.back();
        open.pop_back();
        if (!budget.spend(1 + a.classes_) || out.size() > kMaxStates) return {};
        const State at = known.at({x, y});
        for (std::uint32_t c = 1; c < a.classes_; ++c) {
            const State to = state_of(a.next(x, c), b.next(y, c));
            out.set(at, c, to);
        }
    }
    return out.smallest(budget);
}

Dfa Dfa::complement() const {
    Dfa out(classes_);
    for (State s = 0; s < size(); ++s) out.add_state(!accepts(s));
    for (State s = 0; s < size(); ++s) {
        for (std::uint32_t c = 1; c < classes_; ++c) out.set(s + 1, c, next(s, c) + 1);
    }
    out.start_ = start_ + 1;
    return out;
}

// By refining: states are equal until what they accept or where they lead tells them apart.
std::optional<Dfa> Dfa::smallest(StepBudget& budget) const {
    const std::vector<std::uint32_t> ends = shortest_ends();
    std::vector<std::uint32_t> group(size());
    for (State s = 1; s < size(); ++s) {
        if (ends[s] != kNever) group[s] = accepts(s) ? 2 : 1;
    }
    std::size_t groups = 0;
    while (true) {
        std::map<std::vector<std::uint32_t>, std::uint32_t> known;
        known.emplace(std::vector<std::uint32_t>(classes_), 0);  // the dead ones
        std::vector<std::uint32_t> refined(size());
        for (State s = 1; s < size(); ++s) {
            if (group[s] == 0) continue;
            if (!budget.spend(1 + classes_ / 4)) return {};
            std::vector<std::uint32_t> key{group[s]};
            for (std::uint32_t c = 1; c < classes_; ++c) key.push_back(group[next(s, c)]);
            refined[s] = known.emplace(std::move(key), static_cast<std::uint32_t>(known.size()))
                             .first->second;
        }
        group = std::move(refined);
        if (known.size() == groups) break;
        groups = known.size();
    }
    Dfa out(classes_);
    for (std::size_t g = 1; g < groups; ++g) out.add_state(false);
    for (State s = 1; s < size(); ++s) {
        if (group[s] == 0) continue;
        out.accepts_[group[s]] = accepts(s);
        for (std::uint32_t c = 1; c < classes_; ++c) out.set(group[s], c, group[next(s, c)]);
    }
    out.start_ = group[start_];
    return out;
}

namespace {

using Layer = std::vector<std::size_t>;

// Builds the graph of a dfa's states, once for each number of characters read as far as it counts.
class GraphOfDfa {
  public:
    GraphOfDfa(const Dfa& dfa, const Alphabet& alphabet) : dfa_(dfa), ends_(dfa.shortest_ends()) {
        // The edges of each state: one for each target, with all classes that lead there.
        edges_.resize(dfa.size());
        std::map<std::vector<std::uint32_t>, std::size_t> labels;
        for (Dfa::State s = 1; s < dfa.size(); ++s) {
            std::map<Dfa::State, std::vector<std::uint32_t>> by_target;
            for (std::uint32_t c = 1; c < dfa.classes(); ++c) {
                const Dfa::State to = dfa.next(s, c);
                if (ends_[to] != Dfa::kNever) by_target[to].push_back(c);
            }
            for (auto& [to, classes] : by_target) {
                const auto [it, is_new] = labels.emplace(classes, graph_.labels.size());
                if (is_new) graph_.labels.push_back(chars(alphabet.characters(classes)));
                edges_[s].push_back({it->second, to});
            }
        }
    }

    std::optional<StateGraph> build(std::int32_t min, std::int32_t max, std::size_t max_states) {
        const std::int32_t layers = max == kNoLimit ? min : max;
        max_states_ = max_states;
        Layer at(dfa_.size(), kNone);
        if (!node(at, dfa_.start(), 0 >= min)) return {};
        std::vector<Layer> all;
        for (std::int32_t read = 0; read < layers; ++read) {
            Layer after(dfa_.size(), kNone);
            if (!connect(at, after, max == kNoLimit ? kNoLimit : max - read - 1, read + 1 >= min)) {
                return {};
            }
            all.push_back(at);
            at = std::move(after);
        }
        if (max == kNoLimit) {
            if (!close(at)) return {};
        } else {
            all.push_back(std::move(at));
            if (!note_stand_ins(all, min, max)) return {};
        }
        return std::move(graph_);
    }

  private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    // Shorter counts have no stand-ins.
    static constexpr std::int32_t kMany = 4;

    bool node(Layer& layer, Dfa::State s, bool may_end) {
        if (layer[s] != kNone) return true;
        if (graph_.states.size() >= max_states_) return false;
        layer[s] = graph_.states.size();
        graph_.states.emplace_back();
        graph_.states.back().accepts = may_end && dfa_.accepts(s);
        return true;
    }

    // From each state of a layer to the next, of which `left` characters may follow.
    bool connect(const Layer& from, Layer& to, std::int32_t left, bool may_end) {
        for (Dfa::State s = 1; s < dfa_.size(); ++s) {
            if (from[s] == kNone) continue;
            for (const StateGraph::Edge& edge : edges_[s]) {
                const auto target = static_cast<Dfa::State>(edge.target);
                if (left != kNoLimit && ends_[target] > static_cast<std::uint32_t>(left)) continue;
                if (!node(to, target, may_end)) return false;
                graph_.states[from[s]].edges.push_back({edge.label, to[target]});
            }
        }
        return true;
    }

    // The last layer goes on without counting.
    bool close(Layer& layer) {
        bool grows = true;
        while (grows) {
            const std::size_t before = graph_.states.size();
            for (Dfa::State s = 1; s < dfa_.size(); ++s) {
                if (layer[s] == kNone) continue;
                for (const StateGraph::Edge& edge : edges_[s]) {
                    if (!node(layer, static_cast<Dfa::State>(edge.target), true)) return false;
                }
            }
            grows = graph_.states.size() > before;
        }
        for (Dfa::State s = 1; s < dfa_.size(); ++s) {
            if (layer[s] == kNone) continue;
            for (const StateGraph::Edge& edge : edges_[s]) {
                graph_.states[layer[s]].edges.push_back({edge.label, layer[edge.target]});
            }
        }
        return true;
    }

    // Where every state can still end within the characters that are left, counting does not
    // matter.
    bool note_stand_ins(const std::vector<Layer>& layers, std::int32_t min, std::int32_t max) {
        std::uint32_t farthest = 0;
        for (const std::uint32_t end : ends_) {
            if (end != Dfa::kNever) farthest = std::max(farthest, end);
        }
        const std::int32_t room = max - static_cast<std::int32_t>(std::min(farthest, 100'000U));
        if (room - min < kMany) return true;
        Layer free(dfa_.size(), kNone);
        for (std::int32_t read = min; read < room; ++read) {
            const Layer& layer = layers[static_cast<std::size_t>(read)];
            for (Dfa::State s = 1; s < dfa_.size(); ++s) {
                if (layer[s] == kNone) continue;
                if (!node(free, s, true)) return false;
                graph_.states[layer[s]].stand_in = free[s];
                graph_.states[layer[s]].within = room - read;
            }
        }
        return close(free);
    }

    const Dfa& dfa_;
    std::vector<std::uint32_t> ends_;
    std::vector<std::vector<StateGraph::Edge>> edges_;  // by state; targets are states
    StateGraph graph_;
    std::size_t max_states_ = 0;
};

}  // namespace

std::optional<StateGraph> to_state_graph(const Dfa& dfa, const Alphabet& alphabet, std::int32_t min,
                                         std::int32_t max, std::size_t max_states) {
    return GraphOfDfa(dfa, alphabet).build(min, max, max_states);
}

}  // namespace helix::text::grammar
