#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::text {

class SplitPattern;

// Cuts text into the words inside which byte-level BPE merges (tokenizer.ggml.pre). For any thread.
class PreTokenizer {
  public:
    // name is as in the file; empty means "default". An unknown name is an error that lists the
    // known ones.
    static base::Result<PreTokenizer> create(std::string_view name);
    PreTokenizer(PreTokenizer&&) noexcept;
    PreTokenizer& operator=(PreTokenizer&&) noexcept;
    ~PreTokenizer();

    // The words in order, which together are the text. Each byte that is not UTF-8 is a word of its
    // own.
    std::vector<std::string_view> split(std::string_view text) const;
    // A word that is a token is that token, whatever the merges would make of it.
    bool whole_words_first() const { return whole_words_first_; }
    // Whether models with it begin a text with BOS when their file does not say.
    bool adds_bos() const { return adds_bos_; }

  private:
    PreTokenizer();
    std::vector<SplitPattern> patterns_;
    bool whole_words_first_ = false;
    bool adds_bos_ = false;
};

}  // namespace helix::text
