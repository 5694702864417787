#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "spec/catalogue.h"
#include "spec/cost_model.h"
#include "spec/measured_node.h"
#include "spec/model_spec.h"

namespace helix::spec {

// Seconds of a layer from the catalogue's datasheet figures, for planning without measurements:
//
//     max(W / (e_m B), p F / (e_c C)) + d F / (e_c C) + d K c / B + overhead
//       + 2 (100 us + (d + p) A 2 (n - 1) / n / peer)                         with n > 1 cards
//
// W, F, K, A: bytes of a layer that the batch reads (layer_bytes_read), FLOP of a token, KV bytes
// of a token, activation bytes; B, C: memory bandwidth and FLOP/s; e_m, e_c: the shares of them
// that are reached; d, p: decodes and prompt tokens of the batch; c: mean context of a decode, of
// what it attends to (kept_tokens). The
// computing of prompts hides behind the reading of weights; that of decodes does not, since their
// products are too narrow. Against the measured tables of LLaMA 30B and 70B on T4, L4, V100, A100
// and their two- and four-card machines the mean error is 5.5 % (tests/spec/roofline_cost_test.cc
// prints it by machine). A node that measured itself keeps its measurements.
class RooflineCost final : public CostModel {
  public:
    // Every node must have measurements or a type of the catalogue. mean_context is the number of
    // tokens that a decoding sequence has behind it, by default a mean prompt of the Azure
    // conversation trace and half of its output.
    static base::Result<RooflineCost> make(const ClusterSpec& cluster, const ModelSpec& model,
                                           double mean_context = 879);

    double layer_s(const NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override;

    // The same for any machine type.
    static double layer_s(const MachineType& type, const ModelSpec& model, double mean_context,
                          std::int32_t decode_seqs, std::int32_t prefill_tokens);

  private:
    RooflineCost(const ModelSpec& model, double mean_context)
        : model_(model), mean_context_(mean_context) {}

    ModelSpec model_;
    double mean_context_ = 0;
    std::map<std::string, MachineType> types_;  // by NodeSpec::type
};

}  // namespace helix::spec
