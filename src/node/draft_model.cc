#include "node/draft_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/cpu/cpu_backend.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "text/vocabulary.h"

namespace helix::node {

using base::Result;

namespace {

constexpr std::int64_t kMostRows = 256;  // of a batch
constexpr std::int64_t kShortRows = 16;  // a text with no more left to run goes first
constexpr std::int64_t kContexts = 4;    // KV memory, unless told otherwise

base::Status check_vocabulary(const std::string& path, const model::GgufFile& draft,
                              const model::GgufFile& served) {
    TRY(const text::Vocabulary mine, text::read_vocabulary(draft));
    TRY(const text::Vocabulary theirs, text::read_vocabulary(served));
    if (mine.tokens.size() != theirs.tokens.size()) {
        return base::invalid(fmt::format(
            "{}: has a vocabulary of {} tokens, but the served model's has {}; a draft model needs "
            "the same tokenizer",
            path, mine.tokens.size(), theirs.tokens.size()));
    }
    const auto differ =
        std::mismatch(mine.tokens.begin(), mine.tokens.end(), theirs.tokens.begin());
    if (differ.first != mine.tokens.end()) {
        return base::invalid(fmt::format(
            "{}: its token {} is '{}', but the served model's is '{}'; a draft model needs the "
            "same tokenizer",
            path, differ.first - mine.tokens.begin(), *differ.first, *differ.second));
    }
    return base::Ok{};
}

}  // namespace

struct DraftModel::Text {
    Text(spec::LayerRange layers, spec::LayerRange kv_layers, std::int32_t block_size)
        : table(layers, kv_layers, block_size) {}

    std::vector<core::Token> tokens;  // the text, as it was told
    std::vector<core::Token>
        computed;  // tokens whose KV is in table: of the text, then of the draft
    core::BlockTable table;
    std::uint64_t last_use = 0;
    std::size_t wanted = 0;  // tokens to draft; 0: only compute the KV of all tokens but the last
    std::vector<core::Token> drafted;

    std::size_t size() const { return tokens.size() + drafted.size(); }
    core::Token at(std::size_t i) const {
        return i < tokens.size() ? tokens[i] : drafted[i - tokens.size()];
    }
    std::int64_t rows_left() const {
        const std::size_t rows = wanted > 0 ? size() : tokens.size() - 1;
        return static_cast<std::int64_t>(rows - std::min(rows, computed.size()));
    }
};

DraftModel::DraftModel(std::unique_ptr<engine::Backend> backend, const spec::ModelSpec& spec,
                       std::int64_t pages, std::int32_t block_size)
    : backend_(std::move(backend)),
      layers_{0, spec.n_layers},
      kv_layers_(spec::kv_layers(spec, layers_)),
      block_size_(block_size),
      pool_(pages) {}
DraftModel::~DraftModel() = default;

Result<std::unique_ptr<DraftModel>> DraftModel::open(const DraftModelOptions& options,
                                                     const model::GgufFile& served) {
    TRY(const auto weights, model::open_weights(options.path));
    TRY_VOID(check_vocabulary(options.path, weights->file(), served));
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    TRY(const spec::ModelSpec spec, model::read_model_spec(weights->file()));
    if (spec.encoder) {
        return base::invalid(options.path + ": an encoder, which predicts no tokens, drafts none");
    }
    const std::int64_t tokens =
        options.kv_tokens > 0 ? options.kv_tokens : kContexts * config.context_length;
    const std::int64_t blocks = (tokens + options.block_size - 1) / options.block_size;
    const std::int64_t pages = blocks * spec::kv_layers(spec, {0, spec.n_layers}).size();
    engine::CpuOptions cpu;
    cpu.threads = options.threads;
    cpu.block_size = options.block_size;
    // Twice the weights' size, since some formats grow when they are packed. Pages that are never
    // used take no memory.
    cpu.memory_bytes = 2 * (spec.n_layers * spec.layer_bytes + spec.common_bytes +
                            spec.embedding_bytes + spec.head_bytes) +
                       pages * spec.kv_bytes_per_token_layer * options.block_size +
                       (std::int64_t{16} << 20);
    TRY(auto backend, engine::make_cpu_backend(weights, config, cpu));
    TRY(const std::int64_t loaded, backend->load({0, spec.n_layers}));
    return std::unique_ptr<DraftModel>(
        new DraftModel(std::move(backend), spec, std::min(pages, loaded), options.block_size));
}

void DraftModel::ask(const core::ProposeDrafts& question) {
    Text& text = texts_.try_emplace(question.id, layers_, kv_layers_, block_size_).first->second;
    CHECK(question.first == static_cast<std::int32_t>(text.tokens.size()));
    const std::size_t before = text.tokens.size();
    text.tokens.insert(text.tokens.end(), question.tokens.begin(), question.tokens.end());
    CHECK(!text.tokens.empty());
    // What was computed of a draft stays as far as the draft was right. The last token is always
    // run, since the next one is drawn after it.
    std::size_t right = std::min(before, text.computed.size());
    const std::size_t most = std::min(text.computed.size(), text.tokens.size() - 1);
    while (right < most && text.computed[right] == text.tokens[right]) ++right;
    text.computed.resize(std::min(right, text.tokens.size() - 1));
    text.drafted.clear();
    text.wanted = static_cast<std::size_t>(question.count);
    text.last_use = ++uses_;
    std::erase(asked_, question.id);
    if (text.rows_left() > 0) asked_.push_back(question.id);
}

void DraftModel::forget(core::RequestId id) {
    const auto it = texts_.find(id);
    if (it == texts_.end()) return;
    drop_kv(it->second);
    texts_.erase(it);
    std::erase(asked_, id);
}

void DraftModel::drop_kv(Text& text) {
    text.table.release_all(pool_);
    text.computed.clear();
}

bool DraftModel::evict(const core::BatchPlan& plan) {
    Text* oldest = nullptr;
    for (auto& [id, text] : texts_) {
        if (text.table.page_count() == 0) continue;
        if (oldest != nullptr && text.last_use > oldest->last_use) continue;
        const bool runs =
            std::any_of(plan.chunks.begin(), plan.chunks.end(),
                        [&, which = id](const auto& c) { return c.key.request == which; });
        if (!runs) oldest = &text;
    }
    if (oldest == nullptr) return false;
    drop_kv(*oldest);
    return true;
}

bool DraftModel::add_rows(core::RequestId id, Text& text, std::int64_t most,
                          core::BatchPlan& plan) {
    const auto from = static_cast<std::int64_t>(text.computed.size());
    const std::int64_t count = std::min(text.rows_left(), most);
    core::BatchChunk chunk;
    chunk.key.request = id;
    plan.chunks.push_back(chunk);  // so that evict() does not take its own pages from it
    while (text.table.pages_to_write(from, from + count, pool_) > pool_.free_pages()) {
        if (evict(plan)) continue;
        plan.chunks.pop_back();
        return false;
    }
    text.table.make_writable(from, from + count, pool_, plan.copies);
    core::BatchChunk& made = plan.chunks.back();
    made.layers = layers_;
    made.first_position = static_cast<std::int32_t>(from);
    for (std::int64_t i = from; i < from + count; ++i) {
        made.tokens.push_back(text.at(static_cast<std::size_t>(i)));
    }
    made.sample = text.wanted > 0 && count == text.rows_left();
    made.sampling.temperature = 0;
    made.pages = text.table.flatten(from + count);
    return true;
}

void DraftModel::end(core::RequestId id, Text& text, bool failed,
                     std::vector<core::Drafted>& answers) {
    core::Drafted drafted{id, static_cast<std::int32_t>(text.tokens.size()), {}};
    if (failed) {
        drop_kv(text);
    } else {
        drafted.tokens = text.drafted;
    }
    if (text.wanted > 0) answers.push_back(std::move(drafted));
    text.drafted.clear();
    text.wanted = 0;
    std::erase(asked_, id);
}

std::vector<core::Drafted> DraftModel::run() {
    std::vector<core::Drafted> answers;
    core::BatchPlan plan;
    plan.id = core::kFirstBatch + batches_++;
    std::int64_t rows = 0;
    const auto add = [&](bool first_ones) {
        for (const core::RequestId id : std::vector(asked_)) {
            Text& text = texts_.at(id);
            if ((text.rows_left() <= kShortRows) != first_ones || rows >= kMostRows) continue;
            const std::size_t chunks = plan.chunks.size();
            if (add_rows(id, text, kMostRows - rows, plan)) {
                rows += static_cast<std::int64_t>(plan.chunks.back().tokens.size());
            } else if (chunks == 0) {  // it does not fit, even alone
                end(id, text, true, answers);
            }
        }
    };
    add(true);
    add(false);
    if (plan.chunks.empty()) return answers;
    const auto result = backend_->run(plan, [](const core::PayloadRef&) {
        return std::span<const float>();  // no rows come from other workers
    });
    rows_run_ += rows;
    if (!result.ok()) LOG_ERROR("the draft model: {}", result.error().message);
    std::size_t drawn = 0;
    for (const core::BatchChunk& chunk : plan.chunks) {
        Text& text = texts_.at(chunk.key.request);
        if (!result.ok()) {
            end(chunk.key.request, text, true, answers);
            continue;
        }
        text.computed.insert(text.computed.end(), chunk.tokens.begin(), chunk.tokens.end());
        if (chunk.sample) text.drafted.push_back(result->tokens.at(drawn++).token);
        const bool whole =
            text.wanted > 0 ? text.drafted.size() == text.wanted : text.rows_left() == 0;
        if (whole) end(chunk.key.request, text, false, answers);
    }
    return answers;
}

}  // namespace helix::node
