// usage: engine_bench MODEL.gguf [THREADS [REPEATS [f16|f32 [PROMPT [BATCH...]]]]]
//
// Tokens per second of decoding at several batch sizes (contexts of 64 to 96 positions) and of a
// prompt of 512, as the median of REPEATS runs, beside the memory line: the speed at which the
// weights that a decoded token needs could be read at all, from the read bandwidth measured in the
// same process before and after.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "engine/aligned_buffer.h"
#include "engine/cpu_backend.h"
#include "engine/thread_pool.h"
#include "model/local_weights.h"

namespace {

using namespace helix;  // NOLINT: a program of one file

constexpr std::int32_t kBlock = 16;

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Bytes per second that the pool's threads can read together.
double read_bandwidth(int threads) {
    constexpr std::size_t kBytes = 256U << 20U;
    constexpr std::size_t kPiece = 1U << 20U;
    auto buffer = engine::AlignedBuffer::allocate(kBytes);
    if (!buffer.ok()) return 0;
    engine::ThreadPool pool(threads);
    std::vector<std::uint64_t> sums(kBytes / kPiece);
    double best = 0;
    for (int repeat = 0; repeat < 5; ++repeat) {
        const auto start = std::chrono::steady_clock::now();
        pool.run(static_cast<std::int64_t>(sums.size()), [&](std::int64_t i, int) {
            const std::byte* at = buffer->data() + static_cast<std::size_t>(i) * kPiece;
            if (repeat == 0)
                std::fill_n(buffer->data() + static_cast<std::size_t>(i) * kPiece, kPiece,
                            std::byte{1});
            const auto* words = static_cast<const std::uint64_t*>(static_cast<const void*>(at));
            std::uint64_t lanes[8] = {};
            for (std::size_t w = 0; w < kPiece / 8; w += 8) {
                for (std::size_t l = 0; l < 8; ++l) lanes[l] += words[w + l];
            }
            sums[static_cast<std::size_t>(i)] = std::accumulate(lanes, lanes + 8, std::uint64_t{0});
        });
        if (repeat > 0) best = std::max(best, static_cast<double>(kBytes) / seconds_since(start));
    }
    return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) == 0 ? 0 : best;
}

class Bench {
  public:
    Bench(engine::Backend& backend, const model::ModelConfig& config, int threads)
        : threads_(threads), backend_(backend), config_(config) {}

    // Seconds of one batch that runs `rows` rows from `position` on of each of `sequences`
    // sequences.
    void step(int sequences, std::int32_t position, std::int32_t rows, bool sample) {
        core::BatchPlan plan;
        plan.id = 1;
        for (int s = 0; s < sequences; ++s) {
            core::BatchChunk chunk;
            chunk.key.request.value = static_cast<std::uint64_t>(s);
            chunk.layers = {0, config_.n_layers};
            chunk.first_position = position;
            for (std::int32_t i = 0; i < rows; ++i)
                chunk.tokens.push_back((s * 131 + position + i * 7) % config_.vocab);
            chunk.sample = sample;
            chunk.sampling.temperature = 0;
            const std::int32_t blocks = (position + rows + kBlock - 1) / kBlock;
            for (std::int32_t l = 0; l < config_.n_layers; ++l) {
                for (std::int32_t b = 0; b < blocks; ++b) {
                    chunk.pages.push_back(
                        static_cast<core::PageId>((s * config_.n_layers + l) * kMaxBlocks + b));
                }
            }
            plan.chunks.push_back(std::move(chunk));
        }
        auto result =
            backend_.run(plan, [](const core::PayloadRef&) { return std::span<const float>(); });
        if (!result.ok()) {
            std::fprintf(stderr, "%s\n", result.error().message.c_str());
            std::exit(1);
        }
    }

    // Median tokens per second of wall time, and per second that a thread was really running: the
    // second is what compares on a machine that others use too.
    struct Speed {
        double wall;
        double cpu;
    };

    Speed decode(int sequences, int repeats) {
        step(sequences, 0, 64, false);
        return measure(repeats, kSteps * sequences, [&](int repeat) {
            const std::int32_t position = 64 + repeat * kSteps % 32;
            for (std::int32_t i = 0; i < kSteps; ++i) step(sequences, position + i, 1, true);
        });
    }

    Speed prefill(std::int32_t tokens, int repeats) {
        return measure(repeats, tokens, [&](int) { step(1, 0, tokens, true); });
    }

    static constexpr std::int32_t kMaxBlocks = 32;

  private:
    template <typename Work>
    Speed measure(int repeats, int tokens, Work&& work) {
        std::vector<double> wall, cpu;
        for (int r = 0; r < repeats; ++r) {
            const auto start = std::chrono::steady_clock::now();
            const double cpu_start = cpu_seconds();
            work(r);
            cpu.push_back(tokens / (cpu_seconds() - cpu_start) * threads_);
            wall.push_back(tokens / seconds_since(start));
        }
        return {median(wall), median(cpu)};
    }

    static constexpr std::int32_t kSteps = 8;
    int threads_;
    engine::Backend& backend_;
    const model::ModelConfig& config_;
};

int run(const std::string& path, const engine::CpuOptions& options, int repeats,
        std::int32_t prompt, const std::vector<int>& batches) {
    auto weights = model::LocalWeights::open(path);
    if (!weights.ok()) return std::fprintf(stderr, "%s\n", weights.error().message.c_str()), 1;
    auto config = model::read_model_config(**weights);
    if (!config.ok()) return std::fprintf(stderr, "%s\n", config.error().message.c_str()), 1;
    double read_bytes = 0;
    for (const model::TensorInfo& tensor : (*weights)->file().tensors()) {
        if (tensor.name != "token_embd.weight" || config->tied_embeddings) {
            read_bytes += static_cast<double>(tensor.bytes);
        }
    }
    auto backend = engine::CpuBackend::create(
        std::shared_ptr<model::WeightSource>(std::move(*weights)), *config, options);
    if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.error().message.c_str()), 1;
    const double start = cpu_seconds();
    auto pages = (*backend)->load({0, config->n_layers});
    if (!pages.ok()) return std::fprintf(stderr, "%s\n", pages.error().message.c_str()), 1;
    const double loaded = cpu_seconds() - start;
    const double bandwidth = read_bandwidth(options.threads);
    std::printf("%s  threads %d  isa %s  loaded in %.2f CPU s  read bandwidth %.1f GB/s\n",
                path.c_str(), options.threads, engine::ops::to_string(engine::ops::best_isa()),
                loaded, bandwidth / 1e9);
    Bench bench(**backend, *config, options.threads);
    for (const int batch : batches) {
        const Bench::Speed speed = bench.decode(batch, repeats);
        const double line = bandwidth / read_bytes * batch;
        std::printf(
            "decode  B=%-3d %8.2f tok/s   %8.2f per CPU second   %5.1f %% of the memory line\n",
            batch, speed.wall, speed.cpu, 100 * speed.wall / line);
    }
    const Bench::Speed speed = bench.prefill(prompt, std::max(1, repeats / 2));
    std::printf("prefill %-5d %8.2f tok/s   %8.2f per CPU second\n", prompt, speed.wall, speed.cpu);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2)
        return std::fprintf(
                   stderr,
                   "usage: %s MODEL.gguf [THREADS [REPEATS [f16|f32 [PROMPT [BATCH...]]]]]\n",
                   argv[0]),
               2;
    engine::CpuOptions options;
    options.threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : 2;
    options.block_size = kBlock;
    if (argc > 4 && std::string(argv[4]) == "f32") options.kv_type = engine::ops::KvType::f32;
    const std::int32_t prompt = argc > 5 ? std::clamp(std::atoi(argv[5]), 1, 512) : 512;
    std::vector<int> batches;
    for (int i = 6; i < argc; ++i) batches.push_back(std::clamp(std::atoi(argv[i]), 1, 256));
    if (batches.empty()) batches = {1, 8, 16, 32};
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    return run(argv[1], options, argc > 3 ? std::max(1, std::atoi(argv[3])) : 5, prompt, batches);
}
