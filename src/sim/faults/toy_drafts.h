#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/coordinator/coordinator.h"

namespace helix::sim {

// The draft model of the simulated cluster: it knows what the toy model will say, and is wrong now
// and then, on purpose. Equal questions get equal answers.
class ToyDrafts {
  public:
    // right: how likely each drafted token is right when those before it were.
    ToyDrafts(std::int32_t n_layers, std::int32_t vocab, double right,
              const spec::AttentionWindow& window = {});

    void begin(const core::Request& request);
    // Nothing where none is wanted.
    std::optional<core::Drafted> answer(const core::ProposeDrafts& question);
    void forget(core::RequestId id) { texts_.erase(id); }

  private:
    struct Text {
        std::uint64_t seed = 0;
        std::vector<core::Token> tokens;
    };
    std::int32_t n_layers_;
    std::int32_t vocab_;
    double right_;
    spec::AttentionWindow window_;
    std::map<core::RequestId, Text> texts_;
};

}  // namespace helix::sim
