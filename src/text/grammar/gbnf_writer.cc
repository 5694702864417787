#include "text/grammar/gbnf_writer.h"

#include <fmt/format.h>

#include "base/check.h"
#include "text/grammar/dfa.h"
#include "text/grammar/pattern_parser.h"
#include "text/grammar/text_reader.h"

namespace helix::text::grammar {
namespace {

constexpr std::uint64_t kMaxPatternSteps = 2'000'000;
constexpr std::size_t kMaxPatternStates = 2'000;

// A letter or digit stands for itself.
std::string escaped(char32_t code) {
    const bool plain = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
                       (code >= 'a' && code <= 'z');
    if (plain) return std::string(1, static_cast<char>(code));
    return fmt::format("\\U{:08X}", static_cast<std::uint32_t>(code));
}

std::string written(const CharSet& set) {
    std::string out = "[";
    for (const CodeRange& range : set) {
        out += escaped(range.first);
        if (range.last != range.first) out += "-" + escaped(range.last);
    }
    return out + "]";
}

void write(const Expr& e, std::string& out);

void write_all(const std::vector<Expr>& items, const char* between, std::string& out) {
    out += "(";
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out += between;
        write(items[i], out);
    }
    out += items.empty() ? "\"\")" : ")";
}

// Of an expression without assertions and rules, that has no empty set of characters.
void write(const Expr& e, std::string& out) {
    switch (e.kind) {
        case Expr::Kind::chars:
            out += written(e.chars);
            return;
        case Expr::Kind::sequence:
            return write_all(e.items, " ", out);
        case Expr::Kind::choice:
            return write_all(e.items, " | ", out);
        case Expr::Kind::repeat:
            out += "(";
            write(e.items.front(), out);
            out += fmt::format("){{{},{}}}", e.min, e.max == kNoLimit ? "" : std::to_string(e.max));
            return;
        case Expr::Kind::literal:
        case Expr::Kind::rule:
        case Expr::Kind::graph:
        case Expr::Kind::assertion:
            break;
    }
    CHECK(false);  // patterns have none of these here
}

bool has_empty_set(const Expr& e) {
    if (is_nothing(e)) return true;
    for (const Expr& item : e.items) {
        if (has_empty_set(item)) return true;
    }
    return false;
}

std::string written(const StateGraph& graph) {
    std::string out = "root ::= s0\n";
    for (std::size_t i = 0; i < graph.states.size(); ++i) {
        out += fmt::format("s{} ::= ", i);
        const char* between = "";
        for (const StateGraph::Edge& edge : graph.states[i].edges) {
            out += between + written(graph.labels[edge.label].chars) +
                   fmt::format(" s{}", edge.target);
            between = " | ";
        }
        if (graph.states[i].accepts) out += fmt::format("{}\"\"", between);
        out += "\n";
    }
    return out;
}

}  // namespace

base::Result<std::string> gbnf_of_pattern(std::string_view pattern) {
    TRY(Expr parsed, parse_pattern(pattern));
    std::vector<Expr> whole{assertion(Assertion::start), parsed, assertion(Assertion::end)};
    if (parsed.kind == Expr::Kind::sequence) {  // its own anchors say nothing new
        std::vector<Expr> items = parsed.items;
        const auto is = [](const Expr& e, Assertion kind) {
            return e.kind == Expr::Kind::assertion && e.assertion == kind;
        };
        if (!items.empty() && is(items.front(), Assertion::start)) items.erase(items.begin());
        if (!items.empty() && is(items.back(), Assertion::end)) items.pop_back();
        whole[1] = sequence(std::move(items));
    }
    const auto simple = with_whole_text(sequence(whole), Expr());
    if (simple && !has_empty_set(*simple)) {
        std::string out = "root ::= ";
        write(*simple, out);
        return out;
    }
    StepBudget budget(kMaxPatternSteps);
    std::vector<CharSet> used;
    append_char_sets(parsed, used);
    const Alphabet alphabet(std::move(used), budget);
    const auto dfa = Dfa::of(sequence(std::move(whole)), true, alphabet, budget);
    const auto graph = dfa ? to_state_graph(*dfa, alphabet, 0, kNoLimit, kMaxPatternStates)
                           : std::optional<StateGraph>();
    if (!graph) return base::invalid("the pattern is too costly");
    if (dfa->empty()) return base::invalid("the pattern matches no text");
    return written(*graph);
}

std::string gbnf_of_choices(const std::vector<std::string>& choices) {
    std::string out = "root ::= ";
    for (std::size_t i = 0; i < choices.size(); ++i) {
        out += i > 0 ? " | \"" : "\"";
        for (const char32_t code : code_points(choices[i])) out += escaped(code);
        out += "\"";
    }
    return out;
}

}  // namespace helix::text::grammar
