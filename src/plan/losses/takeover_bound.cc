#include "plan/losses/takeover_bound.h"

#include <algorithm>

#include <fmt/format.h>

#include "spec/units.h"

namespace helix::plan {

double search_s(const TakeoverRule& rule) {
    return (rule.addresses - 1) * rule.look_s + rule.addresses * rule.pause_s;
}

double takeover_bound_s(const TakeoverRule& rule) {
    const double lead_s = rule.lease_s > 0 ? rule.lease_s + rule.lease_grain_s : rule.restart_s;
    return std::max(rule.detection_s, lead_s) + rule.start_s + search_s(rule) + rule.settle_s;
}

std::string describe_takeover(const TakeoverRule& rule) {
    const std::string next = rule.lease_s > 0 ? fmt::format("another leads after its lease of {}",
                                                            spec::format_duration(rule.lease_s))
                                              : fmt::format("its service starts it again within {}",
                                                            spec::format_duration(rule.restart_s));
    return fmt::format(
        "an answer at a gateway stands still for at most {} when the coordinator dies: {}, and "
        "takes over what workers have kept",
        spec::format_duration(takeover_bound_s(rule)), next);
}

}  // namespace helix::plan
