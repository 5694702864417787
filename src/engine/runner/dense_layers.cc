#include "engine/runner/dense_layers.h"

#include <cstddef>

#include "base/check.h"
#include "base/index.h"
#include "engine/runner/host_floats.h"
#include "engine/runner/rank_rows.h"

namespace helix::engine {
namespace {

// That a thread makes at once.
constexpr std::int64_t kDenseOutputs = 64;

std::vector<double> dense_outputs(ThreadPool& threads, std::span<const float> matrix,
                                  std::span<const double> x) {
    std::vector<double> y(matrix.size() / x.size());
    const auto make = [&](std::int64_t begin, std::int64_t end) {
        for (std::size_t row = base::size_of(begin); row < base::size_of(end); ++row)
            y[row] = add_products(0, matrix.subspan(row * x.size(), x.size()), x);
    };
    threads.run_pieces(std::ssize(y), kDenseOutputs, make);
    return y;
}

}  // namespace

base::Result<DenseLayers> DenseLayers::load(model::WeightSource& source,
                                            const model::ModelConfig& config) {
    DenseLayers layers;
    TRY(layers.first_,
        load_whole_matrix(source, model::kFirstDense, config.dense_inner, config.hidden));
    TRY(layers.second_,
        load_whole_matrix(source, model::kSecondDense, config.hidden, config.dense_inner));
    return layers;
}

std::int64_t DenseLayers::bytes(const model::ModelConfig& config) {
    return 2 * std::int64_t{config.dense_inner} * config.hidden *
           static_cast<std::int64_t>(sizeof(float));
}

std::vector<double> DenseLayers::apply(ThreadPool& threads, std::span<const double> pooled) const {
    CHECK(!pooled.empty() && first_.size() % pooled.size() == 0);
    return dense_outputs(threads, second_, dense_outputs(threads, first_, pooled));
}

}  // namespace helix::engine
