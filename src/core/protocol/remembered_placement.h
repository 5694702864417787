#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/protocol/types.h"

namespace helix::core {

// A placement that was in force, in terms that outlive the coordinator that put it there: workers
// are known by their names, which they keep when they join the next one.
struct RememberedPlacement {
    struct Holder {
        std::string worker;
        LayerRange layers;              // empty: it was given none
        std::int64_t memory_bytes = 0;  // its memory then; with much less it may not hold them now
        bool operator==(const Holder&) const = default;
    };
    struct Flow {
        std::string from;  // "" = the coordinator
        std::string to;
        double tokens_per_s = 0;
        bool operator==(const Flow&) const = default;
    };
    std::vector<Holder> holders;
    std::vector<Flow> flows;  // each above 0
    bool operator==(const RememberedPlacement&) const = default;
};

// A worker that was being emptied, or was empty (DrainWorker), until that is called off.
struct RememberedDrain {
    std::string worker;
    bool remove = false;  // when it is empty it is to be dismissed
    bool operator==(const RememberedDrain&) const = default;
};

// ok if this can be the placement of a model with so many layers; else what is wrong: a layer that
// nobody holds, a name that comes twice, a flow of a worker that is not among the holders, ...
base::Status check_remembered(const RememberedPlacement& placement, std::int32_t n_layers);

}  // namespace helix::core
