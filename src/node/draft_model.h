#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/coordinator/coordinator.h"
#include "core/kv/block_pool.h"
#include "core/kv/block_table.h"
#include "engine/backend/backend.h"
#include "model/gguf.h"
#include "spec/model_spec.h"

namespace helix::node {

struct DraftModelOptions {
    std::string path;            // a GGUF file, or a folder of safetensors
    std::int32_t threads = 0;    // 0 = one for each core
    std::int64_t kv_tokens = 0;  // tokens of all texts together; beyond, the KV of those that were
                                 // not used for longest goes; 0 = four of its contexts
    std::int32_t block_size = 16;  // tokens of a KV page
};

// A small model that drafts how texts go on, greedily, for a large one with the same vocabulary. It
// keeps the KV of the texts that it was asked about, also of drafts that turn out to be right. Used
// by one thread at a time.
class DraftModel {
  public:
    // Error invalid: a model that cannot be run here, or whose vocabulary is not that of `served`.
    static base::Result<std::unique_ptr<DraftModel>> open(const DraftModelOptions& options,
                                                          const model::GgufFile& served);
    ~DraftModel();

    // The question is answered by one of the next runs. If more is asked about the same request
    // before that, only the longer text is answered. With count 0 the text's KV is computed and
    // nothing is answered.
    void ask(const core::ProposeDrafts& question);
    void forget(core::RequestId id);
    bool idle() const { return asked_.empty(); }
    // Runs one batch of rows for what was asked and returns the answers that it completes. A text
    // for which there is no KV memory, or that the engine fails on, is answered without a draft.
    std::vector<core::Drafted> run();

    std::int64_t rows_run() const { return rows_run_; }

  private:
    struct Text;
    DraftModel(std::unique_ptr<engine::Backend> backend, const spec::ModelSpec& spec,
               std::int64_t pages, std::int32_t block_size);
    // Adds the text's next rows, at most this many; false when there is no memory for them.
    bool add_rows(core::RequestId id, Text& text, std::int64_t most, core::BatchPlan& plan);
    // Frees the KV of the text that was not used for longest; false when all texts are in plan.
    bool evict(const core::BatchPlan& plan);
    void drop_kv(Text& text);
    void end(core::RequestId id, Text& text, bool failed, std::vector<core::Drafted>& answers);

    std::unique_ptr<engine::Backend> backend_;
    spec::LayerRange layers_, kv_layers_;
    std::int32_t block_size_;
    core::KvBlockPool pool_;
    std::map<core::RequestId, Text> texts_;
    std::vector<core::RequestId> asked_;  // in order
    std::uint64_t uses_ = 0;
    std::uint64_t batches_ = 0;
    std::int64_t rows_run_ = 0;
};

}  // namespace helix::node
