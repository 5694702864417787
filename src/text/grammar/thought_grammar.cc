#include "text/grammar/thought_grammar.h"

#include <algorithm>
#include <utility>

#include "text/grammar/marked_text.h"

namespace helix::text::grammar {
namespace {

constexpr std::int32_t kMostBlanks = 2;

std::string written(const Tokenizer& tokenizer, std::span<const Token> output) {
    std::string text;
    for (const Token token : output) text += tokenizer.token_bytes(token);
    return text;
}

bool inside(const spec::Thought& thought, std::string_view text) {
    if (thought.close.empty()) return false;
    if (!thought.open.empty()) {
        const std::size_t begin = text.find_first_not_of(" \n\r\t");
        if (begin == std::string_view::npos) return false;
        text.remove_prefix(begin);
        if (!text.starts_with(thought.open)) return false;
        text.remove_prefix(thought.open.size());
    }
    const auto comes = [&](std::string_view mark) {
        return text.find(mark) != std::string_view::npos;
    };
    return !comes(thought.close) && std::ranges::none_of(thought.never, comes);
}

}  // namespace

Grammar behind_thought(Grammar answer, const spec::Thought& thought) {
    const RuleIndex whole = answer.root;
    const Expr blanks = repeat(one_of(" \n"), 0, kMostBlanks);
    Expr behind = sequence({text_up_to({&thought.close, 1}, thought.never), blanks, rule(whole)});
    if (!thought.open.empty()) {
        behind = choice({sequence({literal(thought.open), std::move(behind)}), rule(whole)});
    }
    answer.root = answer.add("behind-thought", std::move(behind));
    return answer;
}

std::vector<std::string> marks_of(const spec::Thought& thought) {
    std::vector<std::string> marks;
    for (const std::string& all : {thought.open, thought.close}) {
        for (std::size_t begin = 0; begin < all.size();) {
            const std::size_t end = std::min(all.find_first_of(">]", begin), all.size() - 1) + 1;
            const std::size_t open = all.find_first_of("<[", begin);
            if (open < end) marks.push_back(all.substr(open, end - open));
            begin = end;
        }
    }
    return marks;
}

bool in_thought(const Tokenizer& tokenizer, const spec::Thought& thought,
                std::span<const Token> output) {
    return inside(thought, written(tokenizer, output));
}

bool thinks_too_long(const Tokenizer& tokenizer, const spec::Thought& thought,
                     std::span<const Token> output) {
    return thought.max_tokens >= 0 && std::ssize(output) >= thought.max_tokens &&
           in_thought(tokenizer, thought, output);
}

std::optional<Token> next_to_close(const Tokenizer& tokenizer, const TokenTrie& trie,
                                   const spec::Thought& thought, std::span<const Token> output) {
    const std::string text = written(tokenizer, output);
    std::string_view rest = thought.close;
    for (std::size_t begun = rest.size() - 1; begun > 0; --begun) {
        if (!text.ends_with(rest.substr(0, begun))) continue;
        rest.remove_prefix(begun);
        break;
    }
    const auto writing = trie.shortest_writing(rest);
    if (!writing) return std::nullopt;
    return writing->first;
}

}  // namespace helix::text::grammar
