#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/proof/model_values.h"
#include "engine/proof/operator_values.h"

// A device's proof: every operator on random inputs, and whole models, against a device that is
// known to be right, bit for bit.

namespace helix::engine::proof {

// What is compared under one name, such as "matmul q8_0".
struct Check {
    std::string name;
    struct Case {
        std::string shape;  // like "7 rows x 33 outputs x 800 columns"
        std::function<Values(Device& device, std::uint64_t seed)> values;
    };
    std::vector<Case> cases;
};

// Every operator in fixed shapes, and in some that are drawn from the seed. quick: fewer of both.
std::vector<Check> operator_checks(std::uint64_t seed, bool quick);

struct CheckOutcome {
    std::string name;
    int cases = 0;  // that were compared
    double seconds = 0;
    std::string wrong;  // "": all bits are the same; else the shape, the seed and the difference
};

struct ProofRequest {
    OpenDevice device;
    OpenDevice right;
    std::uint64_t seed = 0;
    bool quick = false;
    std::function<void(const CheckOutcome&)> on_check;                         // may be empty
    std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;  // may be empty
};

// Every check is run, whatever became of those before it. A device that does not open, or fails, is
// a check that is wrong.
std::vector<CheckOutcome> prove_device(const ProofRequest& request);

bool all_right(const std::vector<CheckOutcome>& outcomes);

}  // namespace helix::engine::proof
