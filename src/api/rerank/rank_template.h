#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/text_codec.h"
#include "base/result.h"

namespace helix::api {

// What a document is judged by where a request says nothing else: that of Qwen3-Reranker.
inline constexpr std::string_view kDefaultInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";

// What is put into a template, as it is. The texts must outlive the call.
struct RankTexts {
    std::string_view instruction;
    std::string_view query;
    std::string_view document;
};

// The prompt behind which a model says "yes" or "no": a text with places for {query}, {document}
// and perhaps {instruction}.
class RankTemplate {
  public:
    // source: the template of the model's file (tokenizer.chat_template.rerank); "" means that of
    // Qwen3-Reranker. Where it spells the default instruction out, there is the place of another.
    // Error invalid: it has no place for the query or the document.
    static base::Result<RankTemplate> parse(std::string_view source);

    bool takes_instruction() const;
    // The template's own words are the operator's and may have control tokens, the texts may not.
    std::vector<PromptPiece> fill(const RankTexts& texts) const;

  private:
    enum class Place { words, instruction, query, document };
    struct Part {
        Place place = Place::words;
        std::string words;
    };
    bool has(Place place) const;

    std::vector<Part> parts_;
};

}  // namespace helix::api
