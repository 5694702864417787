#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace helix::node {

// Where the bytes of weights came from, since somebody last asked. Used on the engine's thread.
class WeightTally {
  public:
    // from reads as in "40.0 MB from the coordinator".
    void add(const std::string& from, std::uint64_t bytes) { bytes_[from] += bytes; }
    // "40.0 MB from the coordinator, 12.5 MB from den", and begins anew; "" when there were none.
    std::string take() {
        std::string text;
        for (const auto& [from, bytes] : std::exchange(bytes_, {})) {
            text += fmt::format("{}{:.1f} MB from {}", text.empty() ? "" : ", ",
                                static_cast<double>(bytes) * 1e-6, from);
        }
        return text;
    }

  private:
    std::map<std::string, std::uint64_t> bytes_;
};

}  // namespace helix::node
