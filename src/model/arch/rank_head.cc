#include "model/arch/rank_head.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace helix::model {
namespace {

constexpr std::int64_t kMaxLabels = 1024;

// The array of strings at key; null when there is none.
base::Result<const std::vector<std::string>*> find_strings(const GgufFile& file,
                                                           std::string_view key) {
    const MetaValue* value = file.find(key);
    if (value == nullptr) return static_cast<const std::vector<std::string>*>(nullptr);
    const auto* array = std::get_if<MetaArray>(value);
    const auto* strings = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(array);
    if (strings == nullptr) return wrong_metadata(file, key, "expected an array of strings");
    return strings;
}

std::optional<std::int32_t> index_of(const std::vector<std::string>& texts, std::string_view text) {
    const auto at = std::find(texts.begin(), texts.end(), text);
    if (at == texts.end()) return {};
    return static_cast<std::int32_t>(at - texts.begin());
}

// Without labels the first row is "yes", as in llama.cpp.
base::Result<RankHead> of_classifier(const GgufFile& file, const DecoderTraits& traits,
                                     const ModelConfig& config, const TensorInfo& head) {
    const std::int64_t rows = head.rows();
    if (head.shape.size() != 2 || head.shape[0] != config.hidden || rows > kMaxLabels) {
        return base::invalid(
            fmt::format("{}: tensor {}: expected two dimensions, the hidden size {} and at most {} "
                        "labels",
                        file.label(), kClassifierHead, config.hidden, kMaxLabels));
    }
    const std::string key = metadata_key(traits, "classifier.output_labels");
    TRY(const std::vector<std::string>* labels, find_strings(file, key));
    if (labels != nullptr && std::ssize(*labels) != rows) {
        return wrong_metadata(
            file, key,
            fmt::format("{} labels, tensor {} has {} rows", labels->size(), kClassifierHead, rows));
    }
    const auto yes = labels == nullptr ? 0 : index_of(*labels, "yes");
    if (rows < 2 || !yes) return RankHead{};
    RankHead rank{kClassifierHead, std::vector<std::int32_t>(static_cast<std::size_t>(rows))};
    std::iota(rank.rows.begin(), rank.rows.end(), 0);
    std::swap(rank.rows.front(), rank.rows[static_cast<std::size_t>(*yes)]);
    return rank;
}

// Whether the file says that its model makes embeddings: its output head then means nothing.
base::Result<bool> makes_embeddings(const GgufFile& file, const DecoderTraits& traits) {
    const std::string key = metadata_key(traits, "pooling_type");
    if (file.find(key) == nullptr) return false;
    TRY(const std::int64_t type, file.get_int(key));
    return type != static_cast<std::int64_t>(spec::Pooling::none) &&
           type != static_cast<std::int64_t>(spec::Pooling::rank);
}

}  // namespace

base::Result<RankHead> read_rank_head(const GgufFile& file, const DecoderTraits& traits,
                                      const ModelConfig& config) {
    if (const TensorInfo* head = file.find_tensor(kClassifierHead)) {
        return of_classifier(file, traits, config, *head);
    }
    TRY(const bool embeds, makes_embeddings(file, traits));
    // A document's score is that of logits as the head makes them.
    const bool plain = config.logit_scale == 1.0F && config.logit_softcap == 0.0F;
    if (embeds || !plain) return RankHead{};
    TRY(const std::vector<std::string>* tokens, find_strings(file, "tokenizer.ggml.tokens"));
    if (tokens == nullptr) return RankHead{};
    const auto yes = index_of(*tokens, "yes");
    const auto no = index_of(*tokens, "no");
    if (!yes || !no) return RankHead{};
    return RankHead{config.tied_embeddings ? "token_embd.weight" : "output.weight", {*yes, *no}};
}

base::Result<RankHead> read_pair_head(const GgufFile& file, const ModelConfig& config) {
    if (file.find_tensor(kClassifierDense) == nullptr) {
        return base::invalid(fmt::format(
            "{}: tensor {}: missing, the dense layer before a cross-encoder's head; converters "
            "that leave BERT's pooler out write files that rank otherwise than their model",
            file.label(), kClassifierDense));
    }
    TRY_VOID(expect_tensor(file, kClassifierDense, {config.hidden, config.hidden}));
    TRY_VOID(expect_tensor(file, kClassifierDenseBias, {config.hidden}));
    TRY_VOID(expect_tensor(file, kClassifierHead, {config.hidden, 1}));
    TRY_VOID(expect_tensor(file, kClassifierHeadBias, {1}));
    RankHead head{kClassifierHead, {0}};
    head.of_pairs = true;
    return head;
}

}  // namespace helix::model
