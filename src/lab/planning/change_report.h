#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/planning/plan_changes.h"
#include "plan/change/cluster_change.h"

// Questions about changes of a cluster as people write them, and answers as they are shown.

namespace helix::lab {

// Changes in words (plan/change/cluster_change.h).
struct ChangeWords {
    std::vector<std::string> add;
    std::vector<std::string> remove;
    std::vector<std::string> link;
    std::vector<std::string> upgrade;

    bool empty() const { return add.empty() && remove.empty() && link.empty() && upgrade.empty(); }
};
base::Result<std::vector<plan::Change>> parse_changes(const ChangeWords& words);

// One JSON object, without a line end. elapsed_s: that the answer took.
std::string what_if_json(const std::vector<plan::Change>& changes, const WhatIfAnswer& answer,
                         double elapsed_s);
std::string replan_json(const ReplanAnswer& answer, double elapsed_s);
std::string advice_json(const Advised& advised);

// For people, in lines: of the first two what stands below the picture of the plan.
std::string what_if_text(const std::vector<plan::Change>& changes, const WhatIfAnswer& answer);
std::string replan_text(const ReplanAnswer& answer);
std::string advice_text(const Advised& advised);

}  // namespace helix::lab
