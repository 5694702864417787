#include "engine/runner/draw_tokens.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace helix::engine {
namespace {

using Tokens = std::vector<core::ProducedToken>;

// What one thread does at a time.
struct Task {
    ChunkLogits from;
    std::int32_t draw = 0;
};

// How a task ended.
struct Outcome {
    Tokens tokens;  // the last of a failed task's means nothing
    base::Status status = base::Ok{};
    bool needs_rows = false;  // it was not done: its rows have to be whole
};

std::int64_t head_rows(const core::BatchChunk& chunk) {
    return std::int64_t{chunk.drafts} + 1;
}

std::int64_t whole_rows(const DrawLogits& logits) {
    return std::ssize(logits.whole) / logits.vocab;
}

// Without logits.
SampleInput input_of(const Task& task, std::int32_t row) {
    const core::BatchChunk& chunk = *task.from.chunk;
    // Drafts behind the row, which neither the history nor the position may know of.
    const auto behind = static_cast<std::size_t>(chunk.drafts - row);
    SampleInput input;
    input.history = chunk.history;
    if (!chunk.history.empty()) {
        input.history = input.history.first(chunk.history.size() - behind);
    }
    input.prompt_tokens = chunk.prompt_tokens;
    input.position = chunk.first_position + static_cast<std::int32_t>(chunk.tokens.size() - behind);
    input.member = chunk.draws > 1 ? static_cast<std::uint32_t>(task.draw) : chunk.key.member;
    return input;
}

// A row that is whole in the input, or what it was reduced to. Nothing: that does not do.
class RowDraw {
  public:
    RowDraw(Sampler& sampler, const core::BatchChunk& chunk, const SampleInput& input,
            const ReducedRow* reduced)
        : sampler_(sampler), chunk_(chunk), input_(input), reduced_(reduced) {}

    using Drawn = std::optional<core::ProducedToken>;

    base::Result<Drawn> draw(TokenFilter* filter) {
        core::SequenceKey key = chunk_.key;
        key.member = input_.member;
        AllowedTokens allowed;
        const spec::OutputGrammar& grammar = chunk_.sampling.grammar;
        std::span<const spec::Token> output;
        if (grammar.present()) {
            if (filter == nullptr) {
                return base::Error{base::Errc::internal, "this worker cannot follow a grammar"};
            }
            output = input_.history.subspan(static_cast<std::size_t>(input_.prompt_tokens));
            TRY(allowed, filter->allowed(key, grammar, output));
            if (allowed != nullptr) input_.allowed = *allowed;
        }
        TRY(Drawn produced, sample());
        if (produced && grammar.replaces_tokens()) {
            TRY(const auto other, filter->instead_of(produced->token, key, grammar, output));
            if (other) {
                TRY(produced, score(*other));
            }
        }
        if (produced) produced->key = key;
        return produced;
    }

  private:
    base::Result<Drawn> sample() {
        if (reduced_ != nullptr) return sampler_.sample_reduced(input_, *reduced_, chunk_.sampling);
        TRY(core::ProducedToken produced, sampler_.sample(input_, chunk_.sampling));
        return Drawn(std::move(produced));
    }
    base::Result<Drawn> score(spec::Token token) {
        const std::int32_t n_logprobs = chunk_.sampling.n_logprobs;
        if (reduced_ != nullptr)
            return Sampler::score_reduced(input_, *reduced_, token, n_logprobs);
        TRY(core::ProducedToken produced, sampler_.score(input_, token, n_logprobs));
        return Drawn(std::move(produced));
    }

    Sampler& sampler_;
    const core::BatchChunk& chunk_;
    SampleInput input_;
    const ReducedRow* reduced_;
};

base::Result<RowDraw::Drawn> draw_row(const Task& task, std::int32_t row, Sampler& sampler,
                                      const DrawLogits& logits, TokenFilter* filter) {
    SampleInput input = input_of(task, row);
    const std::int64_t at = task.from.first_row + row;
    const std::int64_t n_whole = whole_rows(logits);
    if (at < n_whole) {
        const auto vocab = static_cast<std::size_t>(logits.vocab);
        input.logits = logits.whole.subspan(static_cast<std::size_t>(at) * vocab, vocab);
        return RowDraw(sampler, *task.from.chunk, input, nullptr).draw(filter);
    }
    const ReducedRow reduced = logits.reduced->row(at - n_whole);
    return RowDraw(sampler, *task.from.chunk, input, &reduced).draw(filter);
}

Outcome run(const Task& task, Sampler& sampler, const DrawLogits& logits, TokenFilter* filter) {
    const core::BatchChunk& chunk = *task.from.chunk;
    Outcome out;
    for (std::int32_t row = 0; row <= chunk.drafts; ++row) {
        auto produced = draw_row(task, row, sampler, logits, filter);
        if (!produced.ok()) {
            // Behind a right drafted token it fails when it is the next to be drawn.
            if (row > 0) break;
            out.tokens.emplace_back().key = chunk.key;
            out.tokens.back().key.member = input_of(task, row).member;
            out.status = produced.error();
            break;
        }
        if (!*produced) {
            out.needs_rows = true;
            break;
        }
        out.tokens.push_back(std::move(**produced));
        if (row == chunk.drafts) break;
        const std::size_t draft =
            chunk.tokens.size() - static_cast<std::size_t>(chunk.drafts - row);
        if (out.tokens.back().token != chunk.tokens[draft]) break;
    }
    return out;
}

// The tasks that need their rows whole, anew: from [rows, vocab] that are read for them.
base::Status run_again(ThreadPool& pool, std::span<Sampler> samplers, std::span<const Task> tasks,
                       const DrawLogits& logits, TokenFilter* filter, std::span<Outcome> outcomes) {
    std::vector<Task> again;
    std::vector<std::size_t> places;
    std::vector<float> rows;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        if (!outcomes[t].needs_rows) continue;
        const ChunkLogits& from = tasks[t].from;
        // Draws of one chunk follow each other and share its rows.
        if (again.empty() || again.back().from.chunk != from.chunk) {
            const std::int64_t first = std::ssize(rows) / logits.vocab;
            TRY(const auto read, logits.read(from.first_row, head_rows(*from.chunk)));
            rows.insert(rows.end(), read.begin(), read.end());
            again.push_back({{from.chunk, first}, tasks[t].draw});
        } else {
            again.push_back({again.back().from, tasks[t].draw});
        }
        places.push_back(t);
    }
    const DrawLogits whole{logits.vocab, rows};
    pool.run(std::ssize(again), [&](std::int64_t t, int thread) {
        const auto at = static_cast<std::size_t>(t);
        outcomes[places[at]] =
            run(again[at], samplers[static_cast<std::size_t>(thread)], whole, filter);
    });
    return base::Ok{};
}

std::int32_t position_after(const core::BatchChunk& chunk, std::int64_t row) {
    return chunk.first_position + static_cast<std::int32_t>(row) + 1;
}

// What a request asks for is invalid wherever it runs; all else is this worker's trouble.
core::FailedSequence failure(const core::SequenceKey& key, const base::Error& error) {
    const bool invalid = error.code == base::Errc::invalid;
    return {key, error.message,
            invalid ? core::StuckCause::invalid_request : core::StuckCause::failed};
}

}  // namespace

base::Result<DrawnTokens> draw_tokens(ThreadPool& pool, std::span<Sampler> samplers,
                                      std::span<const ChunkLogits> chunks, const DrawLogits& logits,
                                      TokenFilter* filter) {
    std::vector<Task> tasks;
    tasks.reserve(chunks.size());
    for (const ChunkLogits& chunk : chunks) {
        for (std::int32_t draw = 0; draw < chunk.chunk->draws; ++draw) {
            tasks.push_back({chunk, draw});
        }
    }
    std::vector<Outcome> outcomes(tasks.size());
    pool.run(std::ssize(tasks), [&](std::int64_t t, int thread) {
        const auto at = static_cast<std::size_t>(t);
        outcomes[at] = run(tasks[at], samplers[static_cast<std::size_t>(thread)], logits, filter);
    });
    const bool again = std::any_of(outcomes.begin(), outcomes.end(),
                                   [](const Outcome& outcome) { return outcome.needs_rows; });
    if (again) TRY_VOID(run_again(pool, samplers, tasks, logits, filter, outcomes));
    DrawnTokens out;
    out.tokens.reserve(tasks.size());
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        const core::SequenceKey& key = tasks[t].from.chunk->key;
        const base::Status& status = outcomes[t].status;
        const bool known = !out.failed.empty() && out.failed.back().key == key;
        if (!status.ok() && !known) out.failed.push_back(failure(key, status.error()));
        for (core::ProducedToken& token : outcomes[t].tokens)
            out.tokens.push_back(std::move(token));
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
        input.position = position_after(chunk, first_row + t);
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

bool score_tokens(const core::BatchChunk& chunk, std::int64_t first_row,
                  const ReducedLogits& reduced, std::span<core::ProducedToken> scored) {
    for (std::int64_t t = 0; t < std::ssize(scored); ++t) {
        SampleInput input;
        input.position = position_after(chunk, first_row + t);
        const spec::Token token = chunk.scored[static_cast<std::size_t>(first_row + t)];
        auto one = Sampler::score_reduced(input, reduced.row(t), token, chunk.sampling.n_logprobs);
        if (!one) return false;
        one->key = chunk.key;
        scored[static_cast<std::size_t>(t)] = std::move(*one);
    }
    return true;
}

}  // namespace helix::engine
