#include "engine/cpu/cpu_device.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "base/machine.h"
#include "engine/cpu/cpu_memory.h"
#include "engine/cpu/kv_memory.h"
#include "engine/device/device_group.h"

namespace helix::engine {
namespace {

// Cores that a thread can be pinned to are numbered below it.
int machine_cores() {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

base::Status check_cpu_options(const CpuDeviceOptions& options) {
    if (options.threads < 0) return base::invalid(fmt::format("{} threads", options.threads));
    if (options.isa && !ops::supported(*options.isa)) {
        return base::invalid(fmt::format("this machine has no {}", ops::to_string(*options.isa)));
    }
    const int cores = machine_cores();
    for (const int cpu : options.cpus) {
        if (cpu < 0 || cpu >= cores)
            return base::invalid(fmt::format("core {}: this machine has {}", cpu, cores));
    }
    return base::Ok{};
}

}  // namespace

base::Status check_ranks(int ranks, int threads, const model::ModelConfig& config) {
    TRY_VOID(check_heads(ranks, config));
    if (ranks > threads) {
        return base::invalid(fmt::format(
            "{} tensor parallel ranks need a thread each; there are {}", ranks, threads));
    }
    return base::Ok{};
}

base::Result<std::unique_ptr<Device>> CpuDevice::create(CpuDeviceOptions options,
                                                        const model::ModelConfig& config) {
    TRY_VOID(check_cpu_options(options));
    if (options.threads == 0)
        options.threads =
            options.cpus.empty() ? base::usable_threads() : static_cast<int>(options.cpus.size());
    TRY_VOID(check_ranks(options.ranks, options.threads, config));
    const ops::Kernels& kernels = ops::kernels(options.isa.value_or(ops::best_isa()));
    return std::unique_ptr<Device>(
        new CpuDevice(kernels,
                      place_threads(options.threads, options.ranks, options.cpus,
                                    options.ranks > 1 ? read_numa_nodes() : NumaNodes()),
                      options.watcher));
}

CpuDevice::CpuDevice(const ops::Kernels& kernels, ThreadPlaces places, InputWatcher* watcher)
    : kernels_(kernels),
      watcher_(watcher),
      pool_(std::move(places)),
      reducers_(base::size_of(pool_.size()), ops::RowReducer(kernels)) {}

std::int64_t CpuDevice::memory_bytes() const {
    return base::usable_memory_bytes() / 5 * 4;
}

// ---- memory
// ---------------------------------------------------------------------------------------

base::Result<std::unique_ptr<Buffer>> CpuDevice::make_buffer(std::int64_t floats) {
    return std::unique_ptr<Buffer>(std::make_unique<CpuBuffer>(floats));
}

base::Result<std::unique_ptr<KvArena>> CpuDevice::make_kv_arena(const ops::KvLayout& page,
                                                                std::int64_t pages,
                                                                std::int64_t swap_pages) {
    ops::KvLayout layout = page;
    layout.ranks = pool_.ranks();
    return KvMemory::allocate(layout, pages, swap_pages, pool_);
}

std::unique_ptr<Routing> CpuDevice::make_routing() {
    return std::make_unique<CpuRouting>();
}

// Where there are several memory nodes, a matrix has pages of its own: parts of it belong to one
// node or the other.
std::shared_ptr<ops::MatrixMemory> CpuDevice::matrix_memory() {
    if (matrix_memory_ == nullptr && expected_bytes_ > 0 && !pool_.several_nodes()) {
        auto memory = ops::MatrixMemory::allocate(expected_bytes_);
        if (memory.ok()) matrix_memory_ = std::move(*memory);  // otherwise each asks for its own
    }
    return matrix_memory_;
}

void CpuDevice::expect_matrices(std::int64_t bytes) {
    expected_bytes_ = bytes;
    matrix_memory_ = nullptr;
}

std::int64_t CpuDevice::matrix_bytes(const MatrixShape& shape) const {
    return shape.count * ops::PackedMatrix::packed_bytes(shape.type, shape.rows, shape.cols);
}

base::Result<std::unique_ptr<Matrix>> CpuDevice::make_matrix(const MatrixShape& shape,
                                                             std::span<const std::byte> data) {
    const std::size_t each = data.size() / base::size_of(shape.count);
    std::vector<ops::PackedMatrix> all;
    for (std::int64_t i = 0; i < shape.count; ++i) {
        auto packed =
            ops::PackedMatrix::pack(shape.type, shape.rows, shape.cols,
                                    data.subspan(base::at(i) * each, each), pool_, matrix_memory());
        if (!packed.ok()) return packed.error();
        all.push_back(std::move(*packed));
    }
    return std::unique_ptr<Matrix>(std::make_unique<CpuMatrix>(shape, std::move(all)));
}

void CpuDevice::name_matrix(const Matrix& matrix, std::string_view tensor) {
    if (watcher_ != nullptr) watcher_->matrix(matrix, tensor);
}

base::Status CpuDevice::write(Buffer& buffer, std::int64_t first, std::span<const float> values) {
    CHECK(first >= 0 && first + std::ssize(values) <= buffer.size());
    std::copy(values.begin(), values.end(), data_of(buffer) + first);
    return base::Ok{};
}

base::Result<std::span<const float>> CpuDevice::read(const Buffer& buffer, std::int64_t first,
                                                     std::int64_t count) {
    CHECK(first >= 0 && first + count <= buffer.size());
    return std::span<const float>(data_of(buffer) + first, base::size_of(count));
}

}  // namespace helix::engine
