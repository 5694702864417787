// usage: engine_bench MODEL.gguf [THREADS[/RANKS] [REPEATS [f16|bf16|f32|q8 [PROMPT [BATCH...]]]]]
//
// Tokens per second of decoding at several batch sizes (contexts of 64 to 96 positions) and of a
// prompt of 512, of an encoder of so many texts of 64 tokens and of one of 512, as the median of
// REPEATS runs (four times as many of one sequence), by the clock on the wall and per second that a
// thread really ran (on a machine that others use, only the second compares). Beside them the
// physical limit: no batch can be faster than its weights can be read, nor than its products of
// bytes can be formed; both speeds are measured in the same process. bench/engine.py makes a table
// of the lines.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "engine/host/aligned_buffer.h"
#include "engine/host/thread_pool.h"
#include "engine/ops/kv_type.h"
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

double middle_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Speed by the clock on the wall, and per second that a thread really ran, times the threads.
struct Speed {
    double wall = 0;
    double cpu = 0;
};

// The best of some runs that do `amount` of something each.
template <typename Work>
Speed best_speed(int runs, int threads, double amount, Work&& work) {
    Speed best;
    for (int i = 0; i < runs; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const double cpu_start = cpu_seconds();
        work();
        best.cpu = std::max(best.cpu, amount / (cpu_seconds() - cpu_start) * threads);
        best.wall = std::max(best.wall, amount / seconds_since(start));
    }
    return best;
}

#if defined(__x86_64__)
#define HELIX_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HELIX_WIDEST
#endif

using Line [[gnu::vector_size(64)]] = std::uint64_t;

// Asks for lines 16 KiB before it needs them, as the kernels for more than two rows do.
HELIX_WIDEST std::uint64_t read_asking(const Line* lines, std::int64_t n) {
    Line sum = {};
    for (std::int64_t i = 0; i < n; ++i) {
        __builtin_prefetch(lines + i + 256, 0, 2);
        sum += lines[i];
    }
    return sum[0] + sum[7];
}

// Reads without asking ahead, which leaves that to the CPU.
HELIX_WIDEST std::uint64_t read_plainly(const Line* lines, std::int64_t n) {
    Line sum = {};
    for (std::int64_t i = 0; i < n; ++i) sum += lines[i];
    return sum[0] + sum[7];
}

// Bytes per second that the threads can read together, each in one stream, in whichever way is
// quicker.
class ReadLine {
  public:
    static base::Result<ReadLine> create(int threads) {
        ReadLine line(threads);
        TRY(line.buffer_, engine::AlignedBuffer::allocate(kBytes));
        std::fill_n(line.buffer_.data(), kBytes, std::byte{1});
        return line;
    }

    Speed sample() {
        const Speed asking = sample(read_asking);
        const Speed plainly = sample(read_plainly);
        return {std::max(asking.wall, plainly.wall), std::max(asking.cpu, plainly.cpu)};
    }

  private:
    static constexpr std::size_t kBytes = 256U << 20U;

    explicit ReadLine(int threads)
        : threads_(threads), pool_(std::make_unique<engine::ThreadPool>(threads)) {}

    Speed sample(std::uint64_t (*read)(const Line*, std::int64_t)) {
        const auto* lines = static_cast<const Line*>(static_cast<const void*>(buffer_.data()));
        const std::int64_t share = static_cast<std::int64_t>(kBytes / sizeof(Line)) / threads_;
        return best_speed(1, threads_, static_cast<double>(kBytes), [&] {
            pool_->run(threads_, [&](std::int64_t i, int) {
                if (read(lines + i * share, share) == 0) std::abort();  // has to be computed
            });
        });
    }

    int threads_;
    engine::AlignedBuffer buffer_;
    std::unique_ptr<engine::ThreadPool> pool_;
};

// Multiplications and additions of bytes that one thread can do in a second and nothing else: with
// VNNI, from registers. Zero where we do not know how to measure it.
#if defined(__x86_64__)
double byte_operations() {
    if (!engine::ops::supported(engine::ops::Isa::avx512)) return 0;
    constexpr std::int64_t kTurns = 4'000'000;
    const Speed speed = best_speed(5, 1, static_cast<double>(kTurns) * 8 * 128, [] {
        std::int64_t turns = kTurns;
        asm volatile(
            "1:\n"
            "vpdpbusd %%zmm0, %%zmm0, %%zmm1\nvpdpbusd %%zmm0, %%zmm0, %%zmm2\n"
            "vpdpbusd %%zmm0, %%zmm0, %%zmm3\nvpdpbusd %%zmm0, %%zmm0, %%zmm4\n"
            "vpdpbusd %%zmm0, %%zmm0, %%zmm5\nvpdpbusd %%zmm0, %%zmm0, %%zmm6\n"
            "vpdpbusd %%zmm0, %%zmm0, %%zmm7\nvpdpbusd %%zmm0, %%zmm0, %%zmm8\n"
            "dec %0\njnz 1b\nvzeroupper"
            : "+r"(turns)
            :
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "cc");
    });
    return speed.cpu;
}
#else
double byte_operations() {
    return 0;
}
#endif

class Samples {
  public:
    void add(const Speed& speed) {
        wall_.push_back(speed.wall);
        cpu_.push_back(speed.cpu);
    }
    Speed median() const { return {middle_of(wall_), middle_of(cpu_)}; }

  private:
    std::vector<double> wall_, cpu_;
};

struct Measured {
    Speed tokens;
    Speed read;  // bytes
};

class Bench {
  public:
    Bench(engine::Backend& backend, const model::ModelConfig& config, int threads, ReadLine& line)
        : threads_(threads), backend_(backend), config_(config), line_(line) {}

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
            if (config_.encoder) chunk.pooling = spec::Pooling::mean;
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

    // Median tokens per second, and bytes per second that could be read in between.
    Measured decode(int sequences, int repeats) {
        step(sequences, 0, 64, false);
        return measure(repeats, kSteps * sequences, [&](int repeat) {
            const std::int32_t position = 64 + repeat * kSteps % 32;
            for (std::int32_t i = 0; i < kSteps; ++i) step(sequences, position + i, 1, true);
        });
    }

    // Of an encoder, whose prompt is one chunk: texts of kTextTokens each.
    Measured texts(int texts, int repeats) {
        return measure(repeats, texts * kTextTokens,
                       [&](int) { step(texts, 0, kTextTokens, true); });
    }

    Measured prefill(std::int32_t tokens, int repeats) {
        return measure(repeats, tokens, [&](int) { step(1, 0, tokens, true); });
    }

    static constexpr std::int32_t kMaxBlocks = 32;
    static constexpr std::int32_t kTextTokens = 64;

  private:
    template <typename Work>
    Measured measure(int repeats, int tokens, Work&& work) {
        Samples tokens_read, bytes_read;
        for (int r = 0; r < repeats; ++r) {
            bytes_read.add(line_.sample());
            const auto start = std::chrono::steady_clock::now();
            const double cpu_start = cpu_seconds();
            work(r);
            tokens_read.add(
                {tokens / seconds_since(start), tokens / (cpu_seconds() - cpu_start) * threads_});
        }
        return {tokens_read.median(), bytes_read.median()};
    }

    static constexpr std::int32_t kSteps = 8;
    int threads_;
    engine::Backend& backend_;
    const model::ModelConfig& config_;
    ReadLine& line_;
};

struct Limits {
    double operations;  // per second, of bytes; 0: not known
    double bytes;       // that a batch reads
    double values;      // that a token is multiplied by

    // tokens is the number of tokens of a batch.
    void print(const char* what, int size, int tokens, const Measured& measured) const {
        const Speed& speed = measured.tokens;
        const double compute = operations > 0 ? operations / (2 * values) : 1e30;
        const double by_memory_wall = measured.read.wall / bytes * tokens;
        const double by_memory_cpu = measured.read.cpu / bytes * tokens;
        std::printf(
            "%-7s %-4d %8.2f tok/s  %8.2f per CPU second  limit %8.2f %8.2f  %5.1f %% of %s, read "
            "%.1f GB/s, %.1f per CPU second\n",
            what, size, speed.wall, speed.cpu, std::min(compute, by_memory_wall),
            std::min(compute, by_memory_cpu), 100 * speed.cpu / std::min(compute, by_memory_cpu),
            by_memory_cpu < compute ? "reading" : "arithmetic", measured.read.wall / 1e9,
            measured.read.cpu / 1e9);
    }
};

int run(const std::string& path, const engine::CpuOptions& options, int repeats,
        std::int32_t prompt, const std::vector<int>& batches) {
    auto weights = model::LocalWeights::open(path);
    if (!weights.ok()) return std::fprintf(stderr, "%s\n", weights.error().message.c_str()), 1;
    auto config = model::read_model_config(**weights);
    if (!config.ok()) return std::fprintf(stderr, "%s\n", config.error().message.c_str()), 1;
    double read_bytes = 0;
    double read_values = 0;
    const auto is_table = [&](const std::string& name) {
        if (name == "position_embd.weight" || name == "token_types.weight") return true;
        return name == "token_embd.weight" && (config->encoder || !config->tied_embeddings);
    };
    for (const model::TensorInfo& tensor : (*weights)->file().tensors()) {
        if (!is_table(tensor.name)) {
            read_bytes += static_cast<double>(tensor.bytes);
            read_values += static_cast<double>(tensor.rows() * tensor.row_length());
        }
    }
    auto backend = engine::make_cpu_backend(
        std::shared_ptr<model::WeightSource>(std::move(*weights)), *config, options);
    if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.error().message.c_str()), 1;
    const double start = cpu_seconds();
    auto pages = (*backend)->load({0, config->n_layers});
    if (!pages.ok()) return std::fprintf(stderr, "%s\n", pages.error().message.c_str()), 1;
    const double loaded = cpu_seconds() - start;
    auto line = ReadLine::create(options.threads);
    if (!line.ok()) return std::fprintf(stderr, "%s\n", line.error().message.c_str()), 1;
    const Limits limits{byte_operations() * static_cast<double>(options.threads), read_bytes,
                        read_values};
    std::printf("%s  threads %d  ranks %d  isa %s  loaded in %.2f CPU s\n", path.c_str(),
                options.threads, options.ranks, engine::ops::to_string(engine::ops::best_isa()),
                loaded);
    std::printf("limit: %.0f GOP/s of bytes\n", limits.operations / 1e9);
    Bench bench(**backend, *config, options.threads, *line);
    for (const int batch : batches) {
        if (config->encoder)
            limits.print("texts", batch, batch * Bench::kTextTokens, bench.texts(batch, repeats));
        else
            limits.print("decode", batch, batch,
                         bench.decode(batch, batch == 1 ? 4 * repeats : repeats));
    }
    limits.print("prefill", prompt, prompt, bench.prefill(prompt, std::max(1, repeats / 2)));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2)
        return std::fprintf(
                   stderr,
                   "usage: %s MODEL.gguf [THREADS[/RANKS] [REPEATS [f16|bf16|f32|q8 [PROMPT "
                   "[BATCH...]]]]]\n",
                   argv[0]),
               2;
    engine::CpuOptions options;
    const std::string threads = argc > 2 ? argv[2] : "2";
    options.threads = std::max(1, std::atoi(threads.c_str()));
    if (const std::size_t slash = threads.find('/'); slash != std::string::npos)
        options.ranks = std::atoi(threads.c_str() + slash + 1);
    options.block_size = kBlock;
    if (argc > 4) {
        const auto type = engine::ops::parse_kv_type(argv[4]);
        if (!type.ok()) return std::fprintf(stderr, "%s\n", type.error().message.c_str()), 2;
        options.kv_type = *type;
    }
    const std::int32_t prompt = argc > 5 ? std::clamp(std::atoi(argv[5]), 1, 512) : 512;
    std::vector<int> batches;
    for (int i = 6; i < argc; ++i) batches.push_back(std::clamp(std::atoi(argv[i]), 1, 256));
    if (batches.empty()) batches = {1, 8, 16, 32};
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    return run(argv[1], options, argc > 3 ? std::max(1, std::atoi(argv[3])) : 5, prompt, batches);
}
