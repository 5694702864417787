#include "text/merge_table.h"

#include <array>
#include <string>

#include <fmt/format.h>

namespace helix::text {
namespace {

std::uint64_t pair_key(Token left, Token right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
}

}  // namespace

base::Status MergeTable::read(const Vocabulary& vocabulary, const TokenIds& ids) {
    if (vocabulary.merges.empty()) {
        return base::invalid(
            fmt::format("tokenizer.ggml.merges: missing, a \"{}\" tokenizer needs its merges",
                        vocabulary.model));
    }
    merges_.reserve(vocabulary.merges.size());
    for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank)
        TRY_VOID(add(vocabulary, rank, ids));
    return base::Ok{};
}

base::Status MergeTable::add(const Vocabulary& vocabulary, std::size_t rank, const TokenIds& ids) {
    const std::string& merge = vocabulary.merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos || space + 1 == merge.size()) {
        return base::invalid(fmt::format(
            "tokenizer.ggml.merges: entry {} is \"{}\", expected two tokens with a space between",
            rank, merge));
    }
    const std::string left = merge.substr(0, space);
    const std::string right = merge.substr(space + 1);
    std::array<Token, 3> found{};
    const std::array<std::string, 3> parts{left, right, left + right};
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto id = ids.find(parts[i]);
        if (id == ids.end()) {
            return base::invalid(
                fmt::format("tokenizer.ggml.merges: entry {} is \"{}\", but \"{}\" is not a token",
                            rank, merge, parts[i]));
        }
        found[i] = id->second;
    }
    if (encodes_text(vocabulary.kinds[static_cast<std::size_t>(found[2])])) {
        merges_.emplace(pair_key(found[0], found[1]), Merge{static_cast<double>(rank), found[2]});
    }
    return base::Ok{};
}

std::optional<Merge> MergeTable::find(Token left, Token right) const {
    const auto found = merges_.find(pair_key(left, right));
    if (found == merges_.end()) return std::nullopt;
    return found->second;
}

}  // namespace helix::text
