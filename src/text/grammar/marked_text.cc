#include "text/grammar/marked_text.h"

#include <algorithm>
#include <map>
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

// Stands before the first character, and in no text.
constexpr char32_t kStart = 0x110000;

// Reads any text and knows which marks are in it. Each state stands for the longest mark begun (Aho
// and Corasick, "Efficient string matching", 1975).
class MarkGraph {
  public:
    // closes: what ends the text; none: it may end anywhere. first: what may not come first.
    MarkGraph(std::span<const std::string> closes, std::span<const std::string> never,
              std::span<const std::string> first)
        : closes_(closes.size()) {
        for (const std::string& mark : closes) marks_.push_back(code_points(mark));
        for (const std::string& mark : never) marks_.push_back(code_points(mark));
        for (const std::string& mark : first) marks_.push_back(kStart + code_points(mark));
        CharSet special;
        for (const std::u32string& mark : marks_) {
            for (const char32_t c : mark) {
                if (c != kStart) special.push_back({c, c});
            }
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
        state_of(begun_mark(std::u32string(1, kStart), marks_));
        for (std::size_t state = 0; state < texts_.size(); ++state) {
            if (is_closed(texts_[state])) continue;
            add_edge(state, state_of({}), 0);
            for (std::size_t i = 0; i < alphabet_.size(); ++i) add_edge(state, i);
        }
        return graph(std::move(graph_));
    }

  private:
    std::span<const std::u32string> closes() const { return std::span(marks_).first(closes_); }
    std::span<const std::u32string> barred() const { return std::span(marks_).subspan(closes_); }
    bool is_closed(const std::u32string& text) const {
        return std::ranges::find(closes(), text) != closes().end();
    }
    void add_edge(std::size_t state, std::size_t target, std::size_t label) {
        graph_.states[state].edges.push_back({label, target});
    }
    void add_edge(std::size_t state, std::size_t at) {
        const std::u32string text = texts_[state] + alphabet_[at];
        const auto ends = [&](const std::u32string& mark) { return text.ends_with(mark); };
        const auto close = std::ranges::find_if(closes(), ends);
        if (close != closes().end()) return add_edge(state, state_of(*close), at + 1);
        if (std::ranges::any_of(barred(), ends)) return;
        add_edge(state, state_of(begun_mark(text, marks_)), at + 1);
    }
    std::size_t state_of(const std::u32string& text) {
        const auto [at, added] = states_.try_emplace(text, texts_.size());
        if (added) {
            texts_.push_back(text);
            graph_.states.emplace_back().accepts = closes_ == 0 || is_closed(text);
        }
        return at->second;
    }

    std::size_t closes_;                 // so many marks close
    std::vector<std::u32string> marks_;  // what closes first
    std::u32string alphabet_;
    std::vector<std::u32string> texts_;  // by state
    std::map<std::u32string, std::size_t> states_;
    StateGraph graph_;
};

}  // namespace

Expr text_up_to(std::span<const std::string> marks, std::span<const std::string> never) {
    return MarkGraph(marks, never, {}).build();
}

Expr text_without(std::span<const std::string> marks, std::span<const std::string> first) {
    return MarkGraph({}, marks, first).build();
}

}  // namespace helix::text::grammar
