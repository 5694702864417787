#include "plan/options.h"

namespace helix::plan {

const char* to_string(Method method) {
    switch (method) {
        case Method::automatic:
            return "auto";
        case Method::search:
            return "search";
        case Method::milp:
            return "milp";
        case Method::even:
            return "even";
        case Method::replicated:
            return "replicated";
        case Method::petals:
            return "petals";
        case Method::swarm:
            return "swarm";
        case Method::separate:
            return "separate";
        case Method::separate_plus:
            return "separate-plus";
        case Method::manual:
            return "manual";
    }
    return "?";
}

const char* to_string(Objective objective) {
    switch (objective) {
        case Objective::flow:
            return "flow";
        case Objective::throughput:
            return "throughput";
        case Objective::latency:
            return "latency";
        case Objective::balanced:
            return "balanced";
    }
    return "?";
}

const char* to_string(MilpStart start) {
    switch (start) {
        case MilpStart::none:
            return "none";
        case MilpStart::rules:
            return "rules";
        case MilpStart::search:
            return "search";
    }
    return "?";
}

}  // namespace helix::plan
