#include "text/symbol_merge.h"

#include <queue>

#include "base/check.h"

namespace helix::text {
namespace {

struct Candidate {
    double order;
    std::int32_t left;
    std::uint32_t length;  // of both pieces: tells whether either has changed since
    spec::Token token;
};

struct GoesLater {
    bool operator()(const Candidate& a, const Candidate& b) const {
        return a.order != b.order ? a.order > b.order : a.left > b.left;
    }
};

class Merger {
  public:
    Merger(std::string_view text, const MergeRules& rules, std::span<Symbol> symbols)
        : text_(text), rules_(rules), symbols_(symbols) {}

    void run() {
        for (std::size_t i = 0; i < symbols_.size(); ++i) consider(static_cast<std::int32_t>(i));
        while (!queue_.empty()) {
            const Candidate best = queue_.top();
            queue_.pop();
            if (is_current(best)) apply(best);
        }
    }

  private:
    Symbol& at(std::int32_t index) { return symbols_[static_cast<std::size_t>(index)]; }

    void consider(std::int32_t left) {
        if (left < 0 || at(left).next < 0) return;
        const Symbol& right = at(at(left).next);
        const auto merge = rules_.find(text_, at(left), right);
        if (merge) queue_.push({merge->order, left, at(left).length + right.length, merge->token});
    }

    bool is_current(const Candidate& candidate) {
        const Symbol& left = at(candidate.left);
        return left.length > 0 && left.next >= 0 &&
               left.length + at(left.next).length == candidate.length;
    }

    void apply(const Candidate& candidate) {
        Symbol& left = at(candidate.left);
        Symbol& right = at(left.next);
        left.length = candidate.length;
        left.token = candidate.token;
        right.length = 0;
        left.next = right.next;
        if (left.next >= 0) at(left.next).prev = candidate.left;
        consider(left.prev);
        consider(candidate.left);
    }

    std::string_view text_;
    const MergeRules& rules_;
    std::span<Symbol> symbols_;
    std::priority_queue<Candidate, std::vector<Candidate>, GoesLater> queue_;
};

}  // namespace

void append_symbol(std::vector<Symbol>& symbols, std::uint32_t length, spec::Token token) {
    CHECK(length > 0);
    Symbol symbol{.length = length, .token = token};
    if (!symbols.empty()) {
        symbols.back().next = static_cast<std::int32_t>(symbols.size());
        symbol.prev = static_cast<std::int32_t>(symbols.size()) - 1;
        symbol.begin = symbols.back().begin + symbols.back().length;
    }
    symbols.push_back(symbol);
}

void merge_symbols(std::string_view text, const MergeRules& rules, std::span<Symbol> symbols) {
    Merger(text, rules, symbols).run();
}

}  // namespace helix::text
