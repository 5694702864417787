// usage: attention_bench [CONTEXT [HEADS KV_HEADS HEAD_DIM [LAYERS]]]
//
// What one row of decoding spends in attention, for each type of KV cache and vector instruction
// set that this machine has (portable code only where it has none): microseconds that a thread
// really ran for each layer, the median over rounds through all layers, whose pages together are
// larger than a cache.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/random.h"
#include "engine/cpu/attention_cpu.h"
#include "engine/cpu/kv_store_cpu.h"
#include "engine/host/aligned_buffer.h"
#include "engine/ops/kv_type.h"

namespace {

using namespace helix;  // NOLINT: a program of one file
using namespace helix::engine;

constexpr int kBlock = 16;
constexpr int kRounds = 9;

struct Size {
    int context = 4096;
    int heads = 32;
    int kv_heads = 8;
    int head_dim = 128;
    int layers = 8;
};

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<float> random_floats(int n) {
    base::Random random(5);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = static_cast<float>(random.uniform()) * 2 - 1;
    return values;
}

// The pages of every layer, filled. Page b of layer l has the number l * blocks + b.
base::Result<AlignedBuffer> make_pages(const ops::Kernels& kernels, const ops::KvLayout& layout,
                                       const Size& size, int blocks) {
    const auto page = static_cast<std::size_t>(layout.page_bytes());
    const auto pages = static_cast<std::size_t>(blocks * size.layers);
    TRY(AlignedBuffer buffer, AlignedBuffer::allocate(page * pages));
    const auto x = random_floats(size.kv_heads * size.head_dim);
    for (std::size_t p = 0; p < pages; ++p) {
        for (int i = 0; i < kBlock; ++i)
            ops::kv_store(kernels, layout, 0, x.data(), x.data(), i, buffer.data() + p * page);
    }
    return buffer;
}

base::Status measure(ops::Isa isa, ops::KvType type, const Size& size) {
    const ops::Kernels& kernels = ops::kernels(isa);
    const ops::KvLayout layout{type, size.kv_heads, size.head_dim, kBlock};
    const int blocks = (size.context + kBlock - 1) / kBlock;
    TRY(AlignedBuffer buffer, make_pages(kernels, layout, size, blocks));
    std::vector<const std::byte*> table;
    for (int p = 0; p < blocks * size.layers; ++p)
        table.push_back(buffer.data() + p * layout.page_bytes());
    const auto q = random_floats(size.heads * size.head_dim);
    std::vector<float> out(q.size());
    ThreadPool pool(1);
    ops::PagedAttention attention;
    std::vector<double> us;
    for (int round = 0; round < kRounds; ++round) {
        const double start = cpu_seconds();
        for (int layer = 0; layer < size.layers; ++layer) {
            const ops::AttentionRows row{0, 1, size.context - 1, table.data() + layer * blocks};
            attention.run(kernels, pool, layout, {size.heads, 0}, {&row, 1}, q.data(), out.data());
        }
        us.push_back((cpu_seconds() - start) * 1e6 / size.layers);
    }
    std::sort(us.begin(), us.end());
    std::printf("%-8s %-4s %8.1f us  (%.1f-%.1f)  %8.2f MB  %6.2f GB/s\n", ops::to_string(isa),
                ops::to_string(type), us[us.size() / 2], us.front(), us.back(),
                static_cast<double>(blocks * layout.page_bytes()) * 1e-6,
                static_cast<double>(blocks * layout.page_bytes()) * 1e-3 / us[us.size() / 2]);
    return base::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
    Size size;
    int* const given[] = {&size.context, &size.heads, &size.kv_heads, &size.head_dim, &size.layers};
    for (int i = 1; i < argc && i <= 5; ++i) *given[i - 1] = std::max(1, std::atoi(argv[i]));
    if (size.heads % size.kv_heads != 0)
        return std::fprintf(stderr, "KV_HEADS has to divide HEADS\n"), 2;
    for (const ops::Isa isa : {ops::Isa::portable, ops::Isa::avx2, ops::Isa::avx512}) {
        const bool vectors = ops::best_isa() != ops::Isa::portable;
        if (!ops::supported(isa) || (vectors && isa == ops::Isa::portable)) continue;
        for (const auto type :
             {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32, ops::KvType::q8}) {
            const auto done = measure(isa, type, size);
            if (!done.ok()) return std::fprintf(stderr, "%s\n", done.error().message.c_str()), 1;
        }
    }
    return 0;
}
