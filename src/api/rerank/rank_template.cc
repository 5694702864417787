#include "api/rerank/rank_template.h"

#include <algorithm>
#include <array>
#include <utility>

namespace helix::api {
namespace {

constexpr std::string_view kQwen3Reranker =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

}  // namespace

base::Result<RankTemplate> RankTemplate::parse(std::string_view source) {
    constexpr std::array<std::pair<std::string_view, Place>, 4> kPlaces = {
        {{"{query}", Place::query},
         {"{document}", Place::document},
         {"{instruction}", Place::instruction},
         {kDefaultInstruction, Place::instruction}}};
    if (source.empty()) source = kQwen3Reranker;
    RankTemplate made;
    while (!source.empty()) {
        std::size_t first = source.size();
        std::size_t length = 0;
        Place place = Place::words;
        for (const auto& [mark, of] : kPlaces) {
            const std::size_t at = source.find(mark);
            if (at >= first) continue;
            first = at;
            length = mark.size();
            place = of;
        }
        if (first > 0) made.parts_.push_back({Place::words, std::string(source.substr(0, first))});
        if (length > 0) made.parts_.push_back({place, ""});
        source.remove_prefix(first + length);
    }
    if (!made.has(Place::query) || !made.has(Place::document)) {
        return base::invalid(
            "The rerank template of the model's file has no place for {query} and "
            "{document}.");
    }
    return made;
}

bool RankTemplate::has(Place place) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [place](const Part& part) { return part.place == place; });
}

bool RankTemplate::takes_instruction() const {
    return has(Place::instruction);
}

std::vector<PromptPiece> RankTemplate::fill(const RankTexts& texts) const {
    std::vector<PromptPiece> pieces;
    for (const Part& part : parts_) {
        switch (part.place) {
            case Place::words:
                pieces.push_back({part.words, false});
                break;
            case Place::instruction:
                pieces.push_back({texts.instruction, true});
                break;
            case Place::query:
                pieces.push_back({texts.query, true});
                break;
            case Place::document:
                pieces.push_back({texts.document, true});
                break;
        }
    }
    return pieces;
}

}  // namespace helix::api
