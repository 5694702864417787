#include "text/grammar/marked_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "text/grammar/text_reader.h"

namespace helix::text::grammar {
namespace {

// The longest end of text that is the beginning of one of marks.
std::u32string begun_mark(const std::u32string& text, const std::vector<std::u32string>& marks) {
    for (std::size_t from = 0; from < text.size(); ++from) {
        const std::u32string end = text.substr(from);
        const bool begins = std::ranges::any_of(
            marks, [&](const std::u32string& mark) { return mark.starts_with(end); });
        if (begins) return end;
    }
    return {};
}

// Reads any text and knows which marks are in it. Each state stands for the longest mark begun (Aho
// and Corasick, "Efficient string matching", 1975).
class MarkGraph {
  public:
    // close: what ends the text; null: it may end anywhere.
    MarkGraph(const std::string_view* close, std::span<const std::string> never)
        : closes_(close != nullptr) {
        if (closes_) marks_.push_back(code_points(*close));
        for (const std::string& mark : never) marks_.push_back(code_points(mark));
        CharSet special;
        for (const std::u32string& mark : marks_) {
            for (const char32_t c : mark) special.push_back({c, c});
        }
        special = make_char_set(std::move(special));
        graph_.labels.push_back(chars(complement(special)));
        for (const CodeRange& range : special) {
            for (char32_t c = range.first; c <= range.last; ++c) {
                alphabet_.push_back(c);
                graph_.labels.push_back(chars({{c, c}}));
            }
        }
    }

    Expr build() {
        state_of({});
        for (std::size_t state = 0; state < texts_.size(); ++state) {
            if (is_closed(texts_[state])) continue;
            graph_.states[state].edges.push_back({0, 0});
            for (std::size_t i = 0; i < alphabet_.size(); ++i) add_edge(state, i);
        }
        return graph(std::move(graph_));
    }

  private:
    bool is_closed(const std::u32string& text) const { return closes_ && text == marks_.front(); }
    void add_edge(std::size_t state, std::size_t at) {
        const std::u32string text = texts_[state] + alphabet_[at];
        const bool closes = closes_ && text.ends_with(marks_.front());
        const bool barred =
            std::any_of(marks_.begin() + (closes_ ? 1 : 0), marks_.end(),
                        [&](const std::u32string& mark) { return text.ends_with(mark); });
        if (barred && !closes) return;
        const std::size_t target = state_of(closes ? marks_.front() : begun_mark(text, marks_));
        graph_.states[state].edges.push_back({at + 1, target});
    }
    std::size_t state_of(const std::u32string& text) {
        const auto [at, added] = states_.try_emplace(text, texts_.size());
        if (added) {
            texts_.push_back(text);
            graph_.states.emplace_back().accepts = !closes_ || is_closed(text);
        }
        return at->second;
    }

    bool closes_;
    std::vector<std::u32string> marks_;  // what closes first
    std::u32string alphabet_;
    std::vector<std::u32string> texts_;  // by state
    std::map<std::u32string, std::size_t> states_;
    StateGraph graph_;
};

}  // namespace

Expr text_up_to(std::string_view mark, std::span<const std::string> never) {
    return MarkGraph(&mark, never).build();
}

Expr text_without(std::span<const std::string> marks) {
    return MarkGraph(nullptr, marks).build();
}

// Reads the marks' tree of characters, and anything where it is left.
Expr text_not_beginning_with(std::span<const std::string> marks) {
    constexpr std::size_t kAny = 1;  // the state behind a character that goes on no mark
    std::set<std::u32string> whole;
    for (const std::string& mark : marks) whole.insert(code_points(mark));
    std::vector<std::u32string> texts = {U"", U""};  // by state
    StateGraph graph;
    graph.labels.push_back(chars(complement({})));
    graph.states.resize(2);
    graph.states[kAny].edges.push_back({0, kAny});
    for (std::size_t state = 0; state < texts.size(); ++state) {
        if (state == kAny) continue;
        CharSet next;
        for (const std::u32string& mark : whole) {
            if (mark.size() <= texts[state].size() || !mark.starts_with(texts[state])) continue;
            const char32_t c = mark[texts[state].size()];
            next.push_back({c, c});
        }
        next = make_char_set(std::move(next));
        graph.labels.push_back(chars(complement(next)));
        graph.states[state].edges.push_back({graph.labels.size() - 1, kAny});
        for (const CodeRange& range : next) {
            for (char32_t c = range.first; c <= range.last; ++c) {
                const std::u32string text = texts[state] + c;
                if (whole.contains(text)) continue;
                texts.push_back(text);
                graph.labels.push_back(chars({{c, c}}));
                graph.states[state].edges.push_back({graph.labels.size() - 1, graph.states.size()});
                graph.states.emplace_back();
            }
        }
    }
    for (StateGraph::State& state : graph.states) state.accepts = true;
    return grammar::graph(std::move(graph));
}

}  // namespace helix::text::grammar
