#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/model_file.h"
#include "api/service.h"
#include "api/text_codec.h"
#include "spec/pooling.h"

// The models that one server offers: what each is called, how its text is coded, and who answers
// for it.

namespace helix::api {

// What /v1/models says of a model. A number that is not known is 0.
struct ModelInfo {
    std::string name;
    std::vector<std::string> aliases;  // other names that requests may use
    std::int64_t created = 0;          // Unix seconds
    std::int32_t context_length = 0;   // tokens; also the limit for requests; must not be 0
    std::int64_t n_params = 0;
    std::int64_t size_bytes = 0;
    std::int32_t hidden = 0;
    std::int32_t n_layers = 0;
    std::string architecture = {};                // "llama"; "" = not known, as for the next
    std::string quantization = {};                // the type of most of its weights: "Q4_K"
    std::string content_hash = {};                // in hexadecimal digits; "" = not known
    std::string kv_type = {};                     // of its KV pages, as --kv says it
    spec::Pooling pooling = spec::Pooling::mean;  // of embeddings; none: it has none to give
    bool ranks = false;                           // it says how well documents fit a query
    bool encoder = false;                         // it makes embeddings or ranks, and no text
};

struct ModelEntry {
    ModelInfo info;
    std::shared_ptr<const TextCodec> codec;
    Service* service = nullptr;                  // must outlive the server
    std::shared_ptr<const ModelFile> file = {};  // null: nobody can pull it from here

    bool serves(std::string_view name) const;  // by its name or one of its aliases
};

// Filled before the server starts and constant from then on, so that its entries keep their places
// and any thread may read them.
class ModelRegistry {
  public:
    // A name or alias that another entry has already is a bug.
    void add(ModelEntry entry);

    // The entry that serves this name; the first one for "", which is what a request has that names
    // no model. Null if there is none.
    const ModelEntry* find(std::string_view name) const;
    const ModelEntry& first() const { return entries_.front(); }
    std::span<const ModelEntry> all() const { return entries_; }

  private:
    std::vector<ModelEntry> entries_;
};

}  // namespace helix::api
