#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/invariants.h"
#include "core/worker/worker.h"
#include "engine/backend/backend.h"

namespace helix::engine::test {

// A core::Worker with all layers of a model and a real backend under it: what it asks for is run at
// once, and tokens are kept by sequence.
class ServedWorker {
  public:
    ServedWorker(Backend& backend, const core::WorkerConfig& config, std::int64_t max_pages)
        : backend_(backend), worker_({0}, config), layers_{0, config.n_layers} {
        const auto pages = backend_.load(layers_);
        if (!pages.ok()) ADD_FAILURE() << pages.error().message;
        say(core::AssignLayers{1, layers_, 1, {}});
        step(core::LayersLoaded{1, std::min(*pages, max_pages), backend_.swap_pages()});
    }

    void say(core::WorkerMessage message) { step(core::MessageArrived{std::move(message)}); }

    // The first rows of a sequence: all its tokens behind the cached ones.
    void start(core::SequenceKey key, const std::vector<core::Token>& tokens,
               const spec::SamplingParams& sampling, std::int32_t draws = 1, std::size_t cached = 0,
               bool score = false, spec::Pooling pooling = spec::Pooling::none) {
        const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(cached);
        core::StageInput input;
        input.key = key;
        input.first_position = static_cast<std::int32_t>(cached);
        input.tokens.assign(from, tokens.end());
        input.sample = true;
        input.draws = draws;
        core::SequenceStart begin{{{{0}, layers_}},
                                  static_cast<std::int32_t>(tokens.size()),
                                  sampling,
                                  {tokens.begin(), from},
                                  score ? tokens : std::vector<core::Token>()};
        begin.pooling = pooling;
        input.start = std::move(begin);
        say(core::StageInputs{{input}});
    }
    // More rows; the last `drafts` tokens are drafted.
    void rows(core::SequenceKey key, std::int32_t first, const std::vector<core::Token>& tokens,
              std::int32_t drafts = 0, std::int32_t parent = -1) {
        core::StageInput input;
        input.key = key;
        input.first_position = first;
        input.tokens = tokens;
        input.sample = true;
        input.drafts = drafts;
        input.parent = parent;
        say(core::StageInputs{{input}});
    }
    // Plain decoding: as many tokens more, each fed back when the next one is wanted.
    std::vector<core::ProducedToken> decode(core::SequenceKey key, std::size_t count) {
        std::vector<core::ProducedToken> all;
        while (all.size() < count) {
            const auto last = last_.find(key);
            if (tokens_[key].empty() && last != last_.end())
                rows(key, last->second.position, {last->second.token});
            const std::vector<core::ProducedToken> got = take(key);
            if (got.size() != 1) {
                ADD_FAILURE() << got.size() << " tokens";
                return all;
            }
            all.push_back(got[0]);
            last_[key] = got[0];
        }
        return all;
    }

    std::vector<core::ProducedToken> take(core::SequenceKey key) {
        return std::exchange(tokens_[key], {});
    }
    std::vector<core::ProducedToken> take_scored() { return std::exchange(scored_, {}); }
    std::vector<core::PromptEmbedding> take_embeddings() { return std::exchange(embeddings_, {}); }
    std::vector<core::SequenceStuck> take_stuck() { return std::exchange(stuck_, {}); }
    std::int64_t used_pages() {
        now_ = now_ + base::from_seconds(1);
        step(core::WorkerTick{});
        return report_.used_pages;
    }
    const core::WorkerReport& report() {
        used_pages();
        return report_;
    }
    const core::Worker& worker() const { return worker_; }
    std::size_t copies = 0;
    std::size_t swaps = 0;

  private:
    void step(const core::WorkerEvent& first) {
        std::deque<core::WorkerEvent> events{first};
        while (!events.empty()) {
            std::vector<core::WorkerAction> actions;
            worker_.step(now_, events.front(), actions);
            events.pop_front();
            EXPECT_EQ(core::broken_invariant(worker_), "");
            for (const core::WorkerAction& action : actions) perform(action, events);
        }
    }

    void perform(const core::WorkerAction& action, std::deque<core::WorkerEvent>& events) {
        if (const auto* batch = std::get_if<core::RunBatch>(&action)) {
            copies += batch->plan.copies.size();
            swaps += batch->plan.swap_in.size() + batch->plan.swap_out.size();
            auto result = backend_.run(batch->plan, {});
            if (!result.ok()) {
                ADD_FAILURE() << result.error().message;
                return events.push_back(core::BatchFailed{batch->plan.id, result.error().message});
            }
            events.push_back(core::BatchFinished{batch->plan.id,
                                                 std::move(result->tokens),
                                                 {},
                                                 std::move(result->failed),
                                                 std::move(result->scored),
                                                 std::move(result->pooled)});
        } else if (const auto* out = std::get_if<core::SendToCoordinator>(&action)) {
            if (const auto* said = std::get_if<core::TokensProduced>(&out->message)) {
                for (const core::ProducedToken& token : said->tokens)
                    tokens_[token.key].push_back(token);
                scored_.insert(scored_.end(), said->scored.begin(), said->scored.end());
                embeddings_.insert(embeddings_.end(), said->embeddings.begin(),
                                   said->embeddings.end());
            } else if (const auto* no = std::get_if<core::SequenceStuck>(&out->message)) {
                stuck_.push_back(*no);
            } else if (const auto* report = std::get_if<core::WorkerReport>(&out->message)) {
                report_ = *report;
            }
        }
    }

    Backend& backend_;
    core::Worker worker_;
    spec::LayerRange layers_;
    core::TimePoint now_;
    std::map<core::SequenceKey, std::vector<core::ProducedToken>> tokens_;
    std::map<core::SequenceKey, core::ProducedToken> last_;  // of decode
    std::vector<core::ProducedToken> scored_;
    std::vector<core::PromptEmbedding> embeddings_;
    std::vector<core::SequenceStuck> stuck_;
    core::WorkerReport report_;
};

}  // namespace helix::engine::test
