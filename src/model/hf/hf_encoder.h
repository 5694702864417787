#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf_writer.h"
#include "model/hf/hf_config.h"
#include "model/hf/hf_tensors.h"
#include "spec/json_place.h"

// Encoders as they are published: BertModel, RobertaModel, XLMRobertaModel and NomicBertModel,
// JinaBertModel, ModernBertModel and the ...ForMaskedLM of these two, and of the first three the
// cross-encoders (...ForSequenceClassification with one label). An XLMRobertaModel whose
// position_embedding_type is "rotary" is jina-bert-v3 (also as XLMRobertaLoRA): read are the base
// weights, as where no task is chosen; the adapters for tasks are left out.

namespace helix::model {

// Their model_types.
std::span<const std::string_view> hf_encoders();
bool is_hf_encoder(std::string_view model_type);

// As read_hf_config() of other models. A model of another class, and a classifier of several
// labels, is refused by its name.
base::Result<HfConfig> read_hf_encoder(const spec::JsonPlace& root, std::string_view model_type,
                                       GgufBuilder& metadata);

// Reads what config.json leaves open, from the names of the folder's tensors: of jina-bert-v2
// whether it is one of code, of jina-bert-v3 whether there are adapters, and of these and
// ModernBERT what all names begin with.
void see_encoder_tensors(const std::function<bool(const std::string&)>& has, HfConfig& config);

// See hf_tensors.h.
std::vector<HfTensor> hf_encoder_tensors(const HfConfig& config);
bool is_spare_encoder_tensor(const HfConfig& config, std::string_view name);

}  // namespace helix::model
