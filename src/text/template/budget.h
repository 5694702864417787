#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace helix::text::jinja {

// What one rendering may use. A template comes with a model file and is untrusted input: whatever
// it says, time, memory and stack stay bounded.
struct RenderLimits {
    std::uint64_t steps = 10'000'000;  // one per evaluated node, per item, per 8 bytes of text made
    std::size_t text_bytes = 32u << 20;    // the longest single string
    std::size_t output_bytes = 32u << 20;  // the rendered text, captured blocks included
    int nesting = 64;                      // containers inside containers
    int depth = 400;                       // expressions, statements and macro calls on the stack
};

// Counts one rendering's steps against its limits.
class Budget {
  public:
    explicit Budget(const RenderLimits& limits) : limits_(limits), steps_left_(limits.steps) {}

    const RenderLimits& limits() const { return limits_; }

    base::Status charge(std::uint64_t steps);
    // Charges for text of this many bytes that is about to be made or scanned.
    base::Status charge_text(std::size_t bytes);

  private:
    RenderLimits limits_;
    std::uint64_t steps_left_;
};

}  // namespace helix::text::jinja
