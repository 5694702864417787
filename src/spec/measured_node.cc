#include "spec/measured_node.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace helix::spec {

double MeasuredNode::layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                             std::int32_t prefill_tokens) const {
    CHECK(decode_seqs >= 0 && prefill_tokens >= 0);
    double seconds = 0;
    if (decode_seqs > 0) {
        const double slope =
            std::max(0.0, node.decode_batch_s_per_layer - node.decode_s_per_layer) / 7.0;
        seconds += node.decode_s_per_layer + slope * static_cast<double>(decode_seqs - 1);
    }
    if (prefill_tokens > 0) {
        const double prompt = node.prefill_s_per_token_layer * static_cast<double>(prefill_tokens);
        seconds += decode_seqs > 0 ? prompt : std::max(prompt, node.decode_s_per_layer);
    }
    return seconds;
}

base::Status check_measured(const ClusterSpec& cluster) {
    for (const NodeSpec& node : cluster.nodes) {
        const struct {
            const char* field;
            double value;
        } needed[] = {{"decode_s_per_layer", node.decode_s_per_layer},
                      {"decode_batch_s_per_layer", node.decode_batch_s_per_layer},
                      {"prefill_s_per_token_layer", node.prefill_s_per_token_layer}};
        for (const auto& [field, value] : needed) {
            if (value > 0) continue;
            return base::invalid(
                fmt::format("node {}: {} is {}, expected a measured time above 0 (or give measured "
                            "tables for its type)",
                            node.name, field, value));
        }
    }
    return base::Ok{};
}

}  // namespace helix::spec
