#pragma once

#include <cstdint>
#include <vector>

#include "spec/cluster_spec.h"
#include "spec/cost_model.h"

namespace helix::plan {

// One layer's time on one machine as a quick function of fractional batch sizes: the cost model
// sampled once, straight lines between.
class LayerCurves {
  public:
    LayerCurves(const spec::NodeSpec& node, const spec::CostModel& costs, double mean_prompt);

    // Seconds for decodes sequences with a token each; below one, the time of one in proportion.
    double decode_s(double decodes) const;
    // What prompt_rows tokens of prompts add to a batch with that many decodes.
    double prompt_s(double prompt_rows, double decodes) const;
    // A whole prompt of mean length by itself.
    double mean_prompt_s() const { return mean_prompt_s_; }

    bool operator==(const LayerCurves&) const = default;

  private:
    std::vector<double> decode_s_;  // [sequences]
    std::vector<double> prompt_s_;  // [decode sample][row sample]
    double mean_prompt_s_ = 0;
};

}  // namespace helix::plan
