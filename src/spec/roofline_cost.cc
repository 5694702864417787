#include "spec/roofline_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace helix::spec {
namespace {

constexpr double kAllReduceS = 100e-6;

bool measured(const NodeSpec& node) {
    return node.decode_s_per_layer > 0 && node.decode_batch_s_per_layer > 0 &&
           node.prefill_s_per_token_layer > 0;
}

}  // namespace

base::Result<RooflineCost> RooflineCost::make(const ClusterSpec& cluster, const ModelSpec& model,
                                              double mean_context) {
    if (model.layer_bytes <= 0 || model.flops_per_token_layer <= 0) {
        return base::invalid(
            fmt::format("model {}: speeds cannot be estimated without the size and work of a layer",
                        model.name));
    }
    RooflineCost costs(model, mean_context);
    for (const NodeSpec& node : cluster.nodes) {
        if (measured(node) || costs.types_.contains(node.type)) continue;
        auto type = find_machine_type(node.type);
        if (!type.ok()) {
            return base::invalid(fmt::format("node {}: has no measurements, and {}", node.name,
                                             type.error().message));
        }
        costs.types_.emplace(node.type, std::move(*type));
    }
    return costs;
}

double RooflineCost::layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                             std::int32_t prefill_tokens) const {
    if (measured(node)) return MeasuredNode().layer_s(node, decode_seqs, prefill_tokens);
    const auto found = types_.find(node.type);
    CHECK(found != types_.end());
    return layer_s(found->second, model_, mean_context_, decode_seqs, prefill_tokens);
}

double RooflineCost::layer_s(const MachineType& type, const ModelSpec& model, double mean_context,
                             std::int32_t decode_seqs, std::int32_t prefill_tokens) {
    CHECK(decode_seqs >= 0 && prefill_tokens >= 0);
    if (decode_seqs + prefill_tokens == 0) return 0;
    const double decodes = decode_seqs;
    const double prompt = prefill_tokens;
    const double weights_s = layer_bytes_read(model, decodes + prompt) /
                             (type.memory_efficiency * type.memory_bytes_per_s);
    const double token_s =
        model.flops_per_token_layer / (type.compute_efficiency * type.flops_per_s);
    const double kv_s = static_cast<double>(model.kv_bytes_per_token_layer) *
                        kept_tokens(model, mean_context) / type.memory_bytes_per_s;
    double seconds =
        std::max(weights_s, prompt * token_s) + decodes * (token_s + kv_s) + type.layer_overhead_s;
    if (type.n_devices > 1) {
        const double n = type.n_devices;
        const double bytes = (decodes + prompt) *
                             static_cast<double>(model.activation_bytes_per_token) * 2 * (n - 1) /
                             n;
        seconds += 2 * (kAllReduceS + bytes / type.peer_bytes_per_s);
    }
    return seconds;
}

}  // namespace helix::spec
