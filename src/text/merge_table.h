#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/result.h"
#include "text/symbol_merge.h"
#include "text/vocabulary.h"

namespace helix::text {

// Which pairs of tokens merge, and into what: tokenizer.ggml.merges, whose first goes first.
class MergeTable {
  public:
    // ids: of the vocabulary (token_ids). invalid: an entry that is not two tokens which make a
    // third; names it.
    base::Status read(const Vocabulary& vocabulary, const TokenIds& ids);
    std::optional<Merge> find(Token left, Token right) const;

  private:
    base::Status add(const Vocabulary& vocabulary, std::size_t rank, const TokenIds& ids);

    std::unordered_map<std::uint64_t, Merge> merges_;  // by both tokens
};

}  // namespace helix::text
