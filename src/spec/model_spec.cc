#include "spec/model_spec.h"

#include <cmath>

namespace helix::spec {

double layer_bytes_read(const ModelSpec& model, double tokens) {
    const auto all = static_cast<double>(model.layer_bytes);
    if (model.n_experts == 0) return all;
    const double unused = 1.0 - static_cast<double>(model.n_experts_used) / model.n_experts;
    return all - static_cast<double>(model.layer_expert_bytes) * std::pow(unused, tokens);
}

}  // namespace helix::spec
