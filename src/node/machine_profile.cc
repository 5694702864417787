#include "node/machine_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "engine/backend/self_profile.h"
#include "node/clock.h"

namespace helix::node {
namespace {

using base::Result;
using base::Status;

constexpr std::int32_t kFillChunk = 512;
constexpr std::int32_t kContextSequences = 8;
constexpr std::size_t kLeastRounds = 5;
constexpr std::size_t kMostRounds = 200;
// Short batches run several times in a round, for this long in all.
constexpr double kShort_s = 0.003;
constexpr int kMostRepeats = 10;

enum class Kind { prompt, decode, context };

// One batch that is timed.
struct Probe {
    Kind kind = Kind::prompt;
    std::int32_t tokens = 0;
    core::BatchPlan plan;
    double first_s = 0;  // of the warm-up
    std::vector<double> seconds;
};

class Profiler {
  public:
    Profiler(engine::Backend& backend, const ProfileRequest& request)
        : backend_(backend), request_(request), began_(now()) {}

    Result<MachineProfile> run() {
        sequences_ = static_cast<std::int32_t>(std::min<std::int64_t>(
            request_.most_sequences, request_.pages / (blocks() * request_.layers.size())));
        if (sequences_ < 1) {
            return base::Error{
                base::Errc::unavailable,
                fmt::format("{} KV pages cannot hold one context of {} tokens in {} "
                            "layers",
                            request_.pages, request_.context, request_.layers.size())};
        }
        const auto most_rows = static_cast<std::size_t>(
            std::max({request_.most_prompt, request_.context, sequences_}));
        rows_ = engine::profile_rows(static_cast<std::int64_t>(most_rows), backend_.hidden_size());
        TRY_VOID(fill());
        TRY_VOID(warm_up());
        TRY_VOID(measure());
        return collect();
    }

  private:
    std::int64_t blocks() const {
        return (request_.context + request_.block_size - 1) / request_.block_size;
    }

    core::BatchChunk chunk(std::int32_t sequence, std::int32_t first, std::int32_t rows) const {
        core::BatchChunk chunk;
        chunk.key.request = core::RequestId{static_cast<std::uint64_t>(sequence) + 1};
        chunk.layers = request_.layers;
        chunk.first_position = first;
        chunk.tokens.assign(static_cast<std::size_t>(rows), 1);
        if (request_.layers.begin > 0) {
            chunk.input = {engine::kProfileBuffer, 0, static_cast<std::uint32_t>(rows)};
        }
        for (std::int32_t layer = 0; layer < request_.layers.size(); ++layer) {
            const std::int64_t base = (std::int64_t{layer} * sequences_ + sequence) * blocks();
            for (std::int64_t b = 0; b < blocks(); ++b) {
                chunk.pages.push_back(static_cast<core::PageId>(base + b));
            }
        }
        return chunk;
    }

    // The batch hands its rows on, as in the middle of a pipeline.
    static void add(core::BatchPlan& plan, core::BatchChunk chunk) {
        chunk.output_row = plan.output_rows;
        plan.output_rows += static_cast<std::int32_t>(chunk.tokens.size());
        plan.chunks.push_back(std::move(chunk));
    }

    Result<double> time(core::BatchPlan& plan) {
        plan.id = core::kFirstBatch + ++batches_;
        const base::TimePoint before = now();
        TRY(const engine::BatchResult result,
            backend_.run(plan, [this](const core::PayloadRef& ref) {
                const auto hidden = static_cast<std::size_t>(backend_.hidden_size());
                return std::span<const float>(rows_).first(ref.rows * hidden);
            }));
        return (now() - before).seconds();
    }

    // Writes every context. Pages that nobody wrote would all be read from one page of zeros, which
    // is too fast.
    Status fill() {
        for (std::int32_t sequence = 0; sequence < sequences_; ++sequence) {
            for (std::int32_t at = 0; at < request_.context; at += kFillChunk) {
                core::BatchPlan plan;
                add(plan, chunk(sequence, at, std::min(kFillChunk, request_.context - at)));
                TRY_VOID(time(plan));
            }
            report(0.2 * (sequence + 1) / sequences_);
            // A slow machine decodes only as many sequences as it has filled in this time.
            if (elapsed() > 0.3 * request_.budget.seconds()) sequences_filled_ = sequence + 1;
            if (sequences_filled_ > 0) return base::Ok{};
        }
        sequences_filled_ = sequences_;
        return base::Ok{};
    }

    Probe prompt_probe(std::int32_t tokens) const {
        Probe probe{.kind = Kind::prompt, .tokens = tokens, .plan = {}, .seconds = {}};
        std::int32_t sequence = 0;
        for (std::int32_t left = tokens; left > 0; left -= request_.context) {
            add(probe.plan, chunk(sequence++, 0, std::min(left, request_.context)));
        }
        return probe;
    }
    Probe decode_probe(Kind kind, std::int32_t sequences, std::int32_t context) const {
        const std::int32_t tokens = kind == Kind::decode ? sequences : context;
        Probe probe{.kind = kind, .tokens = tokens, .plan = {}, .seconds = {}};
        for (std::int32_t s = 0; s < sequences; ++s) add(probe.plan, chunk(s, context - 1, 1));
        return probe;
    }

    std::vector<Probe> all_probes() const {
        std::vector<Probe> probes;
        const std::int32_t most_prompt =
            std::min(request_.most_prompt, sequences_filled_ * request_.context);
        // Sizes are powers of two, and some between the large ones. One token counts as a decode.
        for (const std::int32_t tokens : {2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 768, 1024, 1536,
                                          2048, 3072, 4096, 6144, 8192}) {
            if (tokens <= most_prompt) probes.push_back(prompt_probe(tokens));
        }
        for (const std::int32_t n : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}) {
            if (n > std::min(sequences_filled_, request_.most_sequences)) break;
            probes.push_back(decode_probe(Kind::decode, n, request_.context));
        }
        for (const std::int32_t part : {8, 2, 1}) {
            const std::int32_t context = std::max(1, request_.context / part);
            probes.push_back(decode_probe(Kind::context, context_sequences(), context));
        }
        return probes;
    }
    std::int32_t context_sequences() const {
        return std::min(kContextSequences, sequences_filled_);
    }

    // Runs each batch once and keeps those with which enough rounds fit into the budget.
    Status warm_up() {
        std::vector<Probe> probes = all_probes();
        double round_s = 0;
        const double budget_s = 0.9 * (request_.budget.seconds() - elapsed());
        std::array<bool, 3> slow = {};  // by kind: larger batches need not be tried
        for (Probe& probe : probes) {
            bool& too_slow = slow[static_cast<std::size_t>(probe.kind)];
            if (too_slow) continue;
            TRY(const double cold_s, time(probe.plan));
            TRY(const double warm_s, time(probe.plan));
            probe.first_s = std::min(cold_s, warm_s);
            const double cost_s = std::max(probe.first_s, kShort_s);
            const bool least = probe.kind != Kind::context && count(probe.kind) < 2;
            too_slow = !least && static_cast<double>(kLeastRounds) * (round_s + cost_s) > budget_s;
            if (too_slow) continue;
            round_s += cost_s;
            probes_.push_back(std::move(probe));
        }
        if (count(Kind::prompt) > 0 && count(Kind::decode) > 0) return base::Ok{};
        return base::Error{base::Errc::unavailable, "no memory to measure the smallest batches"};
    }
    std::size_t count(Kind kind) const {
        return static_cast<std::size_t>(std::count_if(
            probes_.begin(), probes_.end(), [&](const Probe& p) { return p.kind == kind; }));
    }

    Status measure() {
        const double start_s = elapsed();
        for (std::size_t round = 0; round < kMostRounds; ++round) {
            if (round >= kLeastRounds && elapsed() > request_.budget.seconds()) break;
            for (Probe& probe : probes_) {
                const double repeats = kShort_s / std::max(probe.first_s, 1e-9);
                for (int i = 0; i == 0 || (i < kMostRepeats && i < repeats); ++i) {
                    TRY(const double seconds, time(probe.plan));
                    probe.seconds.push_back(seconds);
                }
            }
            const double done = (elapsed() - start_s) / (request_.budget.seconds() - start_s);
            report(0.2 + 0.8 * std::clamp(done, 0.0, 1.0));
        }
        report(1);
        return base::Ok{};
    }

    MachineProfile collect() {
        MachineProfile profile;
        profile.context_sequences = context_sequences();
        for (Probe& probe : probes_) {
            std::sort(probe.seconds.begin(), probe.seconds.end());
            const std::size_t n = probe.seconds.size();
            const double median = probe.seconds[n / 2];
            ProfilePoint point;
            point.tokens = probe.tokens;
            point.seconds = median / request_.layers.size();
            point.spread = (probe.seconds[n * 3 / 4] - probe.seconds[n / 4]) / 2 / median;
            point.runs = static_cast<std::int32_t>(n);
            (probe.kind == Kind::prompt   ? profile.prompt
             : probe.kind == Kind::decode ? profile.decode
                                          : profile.context)
                .push_back(point);
        }
        return profile;
    }

    double elapsed() const { return (now() - began_).seconds(); }
    void report(double share) const {
        if (request_.on_progress) request_.on_progress(share);
    }

    engine::Backend& backend_;
    const ProfileRequest& request_;
    base::TimePoint began_;
    std::int32_t sequences_ = 0;         // that have pages
    std::int32_t sequences_filled_ = 0;  // whose pages were written
    std::vector<float> rows_;            // the input of every batch
    std::vector<Probe> probes_;
    std::uint64_t batches_ = 0;
};

}  // namespace

std::int64_t pages_to_profile(const ProfileRequest& request) {
    const std::int64_t blocks = (request.context + request.block_size - 1) / request.block_size;
    const std::int64_t prompts = (request.most_prompt + request.context - 1) / request.context;
    return blocks * std::max<std::int64_t>(prompts, request.most_sequences) * request.layers.size();
}

Result<MachineProfile> profile_machine(engine::Backend& backend, const ProfileRequest& request) {
    CHECK(!request.layers.empty() && request.context > 0 && request.block_size > 0);
    return Profiler(backend, request).run();
}

}  // namespace helix::node
