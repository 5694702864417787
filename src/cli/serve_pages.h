#pragma once

#include <cstdint>
#include <string>

#include "api/api_server.h"
#include "node/coordinator_server.h"
#include "spec/model_spec.h"

// What `helix serve` shows besides the API: the placement as a page, what-if questions, and how
// machines are added.

namespace helix::cli {

// What a machine that is to be added has to know.
struct JoinFacts {
    std::string http_host;         // that the API listens on, as a number
    std::string cluster_host;      // that workers connect to, likewise
    std::uint16_t port = 0;        // of the API
    std::string key;               // the coordinator's key file; "" = none
    std::string public_key;        // that is in it
    bool fixed_placement = false;  // --placement says who has which layers
};

// All use the coordinator and the model, which must live as long.
api::ExtraPages extra_pages(node::CoordinatorServer& coordinator, const spec::ModelSpec& model,
                            JoinFacts facts);

}  // namespace helix::cli
