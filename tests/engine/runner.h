#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "core/protocol/batch_plan.h"
#include "engine/cpu/cpu_backend.h"
#include "model/local_weights.h"

// Drives a backend as a worker would: hands out pages, in random order and dirty ones first, and
// keeps activations between backends.

namespace helix::engine::test {

inline base::Result<std::unique_ptr<Backend>> open_backend(const std::string& path,
                                                           const CpuOptions& options) {
    TRY(auto weights, model::LocalWeights::open(path));
    TRY(auto config, model::read_model_config(*weights));
    return make_cpu_backend(std::shared_ptr<model::WeightSource>(std::move(weights)), config,
                            options);
}

// Rows that one chunk runs, before it is put in a plan.
struct Piece {
    std::uint64_t request = 0;
    spec::LayerRange layers;
    std::int32_t first_position = 0;
    std::vector<spec::Token> tokens;
    std::vector<float> input;  // [rows, hidden] when layers.begin > 0
    bool sample = false;
    spec::SamplingParams sampling;
    std::vector<spec::Token> history;
    std::int32_t prompt_tokens = 0;
};

struct PieceResult {
    std::vector<float> output;  // [rows, hidden] after the last layer of the piece
    core::ProducedToken token;  // when sampled
};

class Runner {
  public:
    Runner(std::unique_ptr<Backend> backend, spec::LayerRange layers, std::int32_t block_size,
           std::uint64_t seed, std::int64_t max_pages = 4096)
        : backend_(std::move(backend)), block_size_(block_size), random_(seed) {
        auto pages = backend_->load(layers);
        if (!pages.ok()) std::fprintf(stderr, "load: %s\n", pages.error().message.c_str());
        CHECK(pages.ok());
        for (std::int64_t i = 0; i < std::min(*pages, max_pages); ++i)
            free_.push_back(static_cast<core::PageId>(i));
    }

    // One batch of these pieces.
    base::Result<std::vector<PieceResult>> run(const std::vector<Piece>& pieces) {
        core::BatchPlan plan;
        plan.id = ++batches_;
        std::vector<std::span<const float>> inputs;
        for (const Piece& piece : pieces) plan.chunks.push_back(make_chunk(piece, plan, inputs));
        TRY(auto result, backend_->run(plan, [&](const core::PayloadRef& ref) {
            return inputs[ref.buffer - 1];
        }));
        for (const core::FailedSequence& failed : result.failed) {
            return base::invalid("request " + std::to_string(failed.key.request.value) + ": " +
                                 failed.reason);
        }
        return split(pieces, plan, result);
    }

    void free_sequence(std::uint64_t request) {
        for (auto& [key, pages] : pages_) {
            if (key.first != request) continue;
            free_.insert(free_.end(), pages.begin(), pages.end());
            pages.clear();
        }
    }

    // Moves every page elsewhere by copying, and that out to swapped slots and in to a third place.
    // What is at the old places is then overwritten when they are handed out again.
    base::Status shuffle_pages() {
        core::BatchPlan copy, out, in;
        std::vector<core::PageId> old;
        for (auto& [key, pages] : pages_) {
            for (core::PageId& page : pages) {
                const core::PageId second = take_page();
                const core::PageId third = take_page();
                copy.copies.push_back({page, second});
                const auto slot = static_cast<std::uint32_t>(out.swap_out.size());
                out.swap_out.push_back({second, slot});
                in.swap_in.push_back({third, slot});
                old.insert(old.end(), {page, second});
                page = third;
            }
        }
        const auto none = [](const core::PayloadRef&) { return std::span<const float>(); };
        for (core::BatchPlan* plan : {&copy, &out, &in}) {
            plan->id = ++batches_;
            TRY_VOID(backend_->run(*plan, none));
        }
        free_.insert(free_.end(), old.begin(), old.end());
        return base::Ok{};
    }

    const std::vector<core::PageId>& pages(std::uint64_t request, std::int32_t layer) {
        return pages_[{request, layer}];
    }
    // Takes pages for the sequence's first blocks, which then come from elsewhere.
    void take_pages(std::uint64_t request, spec::LayerRange layers, std::size_t blocks) {
        for (std::int32_t layer = layers.begin; layer < layers.end; ++layer) {
            std::vector<core::PageId>& pages = pages_[{request, layer}];
            while (pages.size() < blocks) pages.push_back(take_page());
        }
    }
    Backend& backend() { return *backend_; }
    std::int32_t hidden() const { return backend_->hidden_size(); }

  private:
    core::BatchChunk make_chunk(const Piece& piece, core::BatchPlan& plan,
                                std::vector<std::span<const float>>& inputs) {
        core::BatchChunk chunk;
        chunk.key.request.value = piece.request;
        chunk.layers = piece.layers;
        chunk.first_position = piece.first_position;
        chunk.tokens = piece.tokens;
        inputs.push_back(piece.input);
        chunk.input = {inputs.size(), 0, static_cast<std::uint32_t>(piece.tokens.size())};
        chunk.output_row = plan.output_rows;
        plan.output_rows += static_cast<std::int32_t>(piece.tokens.size());
        chunk.sample = piece.sample;
        chunk.sampling = piece.sampling;
        chunk.history = piece.history;
        chunk.prompt_tokens = piece.prompt_tokens;
        const std::int32_t end =
            piece.first_position + static_cast<std::int32_t>(piece.tokens.size());
        const auto blocks = static_cast<std::size_t>((end + block_size_ - 1) / block_size_);
        for (std::int32_t layer = piece.layers.begin; layer < piece.layers.end; ++layer) {
            std::vector<core::PageId>& pages = pages_[{piece.request, layer}];
            while (pages.size() < blocks) pages.push_back(take_page());
            chunk.pages.insert(chunk.pages.end(), pages.begin(),
                               pages.begin() + static_cast<std::ptrdiff_t>(blocks));
        }
        return chunk;
    }

    std::vector<PieceResult> split(const std::vector<Piece>& pieces, const core::BatchPlan& plan,
                                   BatchResult& result) const {
        std::vector<PieceResult> results;
        std::size_t sampled = 0;
        const auto hidden = static_cast<std::size_t>(backend_->hidden_size());
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            PieceResult one;
            const auto first = static_cast<std::size_t>(plan.chunks[i].output_row) * hidden;
            const std::size_t size = pieces[i].tokens.size() * hidden;
            one.output.assign(result.output.begin() + static_cast<std::ptrdiff_t>(first),
                              result.output.begin() + static_cast<std::ptrdiff_t>(first + size));
            if (pieces[i].sample) one.token = result.tokens.at(sampled++);
            results.push_back(std::move(one));
        }
        CHECK(sampled == result.tokens.size());
        return results;
    }

    core::PageId take_page() {
        CHECK(!free_.empty());
        const std::size_t at = random_.below(free_.size());
        std::swap(free_[at], free_.back());
        const core::PageId page = free_.back();
        free_.pop_back();
        return page;
    }

    std::unique_ptr<Backend> backend_;
    std::int32_t block_size_;
    base::Random random_;
    std::uint64_t batches_ = 0;
    std::vector<core::PageId> free_;
    std::map<std::pair<std::uint64_t, std::int32_t>, std::vector<core::PageId>> pages_;
};

}  // namespace helix::engine::test
