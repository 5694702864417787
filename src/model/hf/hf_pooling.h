#pragma once

#include <string>

#include "base/result.h"
#include "model/gguf_writer.h"
#include "model/hf/hf_config.h"

namespace helix::model {

// Reads how a folder's model makes embeddings, where it says so in the way of
// sentence-transformers: modules.json, and 1_Pooling/config.json, which becomes the key
// pooling_type. Of an architecture that has dense layers there must be two behind the pooling,
// which become config.dense_layers. Refused are modules that would change an embedding and that we
// have not (other Dense), and ways of pooling other than by the first token, the mean and the last
// one. That embeddings are normalised is so with us whatever the folder says. A cross-encoder makes
// none.
base::Status read_hf_pooling(const std::string& folder, HfConfig& config, GgufBuilder& metadata);

}  // namespace helix::model
