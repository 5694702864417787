#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/faults/probes.h"
#include "sim/fuzz/fuzz_case.h"

namespace helix::sim {

// What one seed came to; adds up over seeds.
struct FuzzResult {
    std::string broken;  // the first promise or rule that did not hold; empty when all did
    std::int64_t at_us = 0;
    std::uint64_t digest = 0;
    double simulated_s = 0;
    std::int64_t requests = 0;
    std::int64_t completed = 0;
    std::int64_t errors = 0;
    std::int64_t tokens = 0;
    FaultCounts counts;
    Probes probes;

    void add(const FuzzResult& other);
};

// Phase 1: the case's load under its faults. Phase 2, calm: everything must end within
// case.calm_s, new requests must be served, and then nothing may be held anywhere.
class FuzzRun {
  public:
    explicit FuzzRun(const FuzzCase& which) : case_(which) {}
    void set_trace(std::function<void(const std::string&)> trace) { trace_ = std::move(trace); }
    FuzzResult run();
    // Of the cluster under way, also from a signal handler.
    static std::int64_t now_us();

  private:
    const FuzzCase& case_;
    std::function<void(const std::string&)> trace_;
};

FuzzResult run_seed(std::uint64_t seed);

}  // namespace helix::sim
