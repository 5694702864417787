#include "engine/runner/draw_tokens.h"

#include <utility>

namespace helix::engine {
namespace {

using Tokens = std::vector<core::ProducedToken>;

// What one thread does at a time.
struct Task {
    ChunkLogits from;
    std::int32_t draw = 0;
};

SampleInput input_of(const Task& task, std::int32_t row, std::span<const float> logits,
                     std::size_t vocab) {
    const core::BatchChunk& chunk = *task.from.chunk;
    // Drafts behind the row, which neither the history nor the position may know of.
    const auto behind = static_cast<std::size_t>(chunk.drafts - row);
    SampleInput input;
    input.logits =
        logits.subspan(static_cast<std::size_t>(task.from.first_row + row) * vocab, vocab);
    input.history = chunk.history;
    if (!chunk.history.empty()) {
        input.history = input.history.first(chunk.history.size() - behind);
    }
    input.prompt_tokens = chunk.prompt_tokens;
    input.position = chunk.first_position + static_cast<std::int32_t>(chunk.tokens.size() - behind);
    input.member = chunk.draws > 1 ? static_cast<std::uint32_t>(task.draw) : chunk.key.member;
    return input;
}

base::Result<core::ProducedToken> draw(const core::BatchChunk& chunk, SampleInput input,
                                       Sampler& sampler, TokenFilter* filter) {
    core::SequenceKey key = chunk.key;
    key.member = input.member;
    AllowedTokens allowed;
    const spec::OutputGrammar& grammar = chunk.sampling.grammar;
    std::span<const spec::Token> output;
    if (grammar.present()) {
        if (filter == nullptr) {
            return base::Error{base::Errc::internal, "this worker cannot follow a grammar"};
        }
        output = input.history.subspan(static_cast<std::size_t>(input.prompt_tokens));
        TRY(allowed, filter->allowed(key, grammar, output));
        if (allowed != nullptr) input.allowed = *allowed;
    }
    TRY(core::ProducedToken produced, sampler.sample(input, chunk.sampling));
    if (grammar.replaces_tokens()) {
        TRY(const auto other, filter->instead_of(produced.token, key, grammar, output));
        if (other) {
            TRY(produced, sampler.score(input, *other, chunk.sampling.n_logprobs));
        }
    }
    produced.key = key;
    return produced;
}

// The last of a failed task's tokens means nothing.
base::Status run(const Task& task, Sampler& sampler, std::span<const float> logits,
                 std::size_t vocab, TokenFilter* filter, Tokens& tokens) {
    const core::BatchChunk& chunk = *task.from.chunk;
    for (std::int32_t row = 0; row <= chunk.drafts; ++row) {
        const SampleInput input = input_of(task, row, logits, vocab);
        auto produced = draw(chunk, input, sampler, filter);
        if (!produced.ok()) {
            // Behind a right drafted token it fails when it is the next to be drawn.
            if (row > 0) break;
            tokens.emplace_back().key = chunk.key;
            tokens.back().key.member = input.member;
            return produced.error();
        }
        tokens.push_back(std::move(produced).value());
        if (row == chunk.drafts) break;
        const std::size_t draft =
            chunk.tokens.size() - static_cast<std::size_t>(chunk.drafts - row);
        if (tokens.back().token != chunk.tokens[draft]) break;
    }
    return base::Ok{};
}

// What a request asks for is invalid wherever it runs; all else is this worker's trouble.
core::FailedSequence failure(const core::SequenceKey& key, const base::Error& error) {
    const bool invalid = error.code == base::Errc::invalid;
    return {key, error.message,
            invalid ? core::StuckCause::invalid_request : core::StuckCause::failed};
}

}  // namespace

DrawnTokens draw_tokens(ThreadPool& pool, std::span<Sampler> samplers,
                        std::span<const ChunkLogits> chunks, std::span<const float> logits,
                        std::int64_t vocab, TokenFilter* filter) {
    std::vector<Task> tasks;
    tasks.reserve(chunks.size());
    for (const ChunkLogits& chunk : chunks) {
        for (std::int32_t draw = 0; draw < chunk.chunk->draws; ++draw) {
            tasks.push_back({chunk, draw});
        }
    }
    std::vector<Tokens> drawn(tasks.size());
    std::vector<base::Status> statuses(tasks.size(), base::Ok{});
    pool.run(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t, int thread) {
        const auto at = static_cast<std::size_t>(t);
        statuses[at] = run(tasks[at], samplers[static_cast<std::size_t>(thread)], logits,
                           static_cast<std::size_t>(vocab), filter, drawn[at]);
    });
    DrawnTokens out;
    out.tokens.reserve(tasks.size());
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        const core::SequenceKey& key = tasks[t].from.chunk->key;
        const bool known = !out.failed.empty() && out.failed.back().key == key;
        if (!statuses[t].ok() && !known) out.failed.push_back(failure(key, statuses[t].error()));
        for (core::ProducedToken& token : drawn[t]) out.tokens.push_back(std::move(token));
    }
    return out;
}

base::Status score_tokens(ThreadPool& pool, std::span<Sampler> samplers,
                          const core::BatchChunk& chunk, std::int64_t first_row,
                          std::span<const float> logits, std::span<core::ProducedToken> scored) {
    if (scored.empty()) return base::Ok{};
    const std::size_t vocab = logits.size() / scored.size();
    std::vector<base::Status> statuses(scored.size(), base::Ok{});
    pool.run(std::ssize(scored), [&](std::int64_t t, int thread) {
        const auto at = static_cast<std::size_t>(t);
        SampleInput input;
        input.logits = logits.subspan(at * vocab, vocab);
        input.position = chunk.first_position + static_cast<std::int32_t>(first_row + t) + 1;
        const spec::Token token = chunk.scored[static_cast<std::size_t>(first_row + t)];
        auto one = samplers[static_cast<std::size_t>(thread)].score(input, token,
                                                                    chunk.sampling.n_logprobs);
        if (one.ok()) {
            scored[at] = std::move(one).value();
            scored[at].key = chunk.key;
        } else {
            statuses[at] = one.error();
        }
    });
    for (const base::Status& status : statuses) TRY_VOID(status);
    return base::Ok{};
}

}  // namespace helix::engine
