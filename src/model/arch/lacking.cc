#include "model/arch/architecture.h"

namespace helix::model {
namespace {

struct Lacking {
    std::string_view architecture;
    std::string_view mechanisms;
};
constexpr Lacking kLacking[] = {
    {"qwen3next", "recurrent layers (gated delta nets)"},
    {"qwen35", "recurrent layers (gated delta nets)"},
    {"qwen35moe", "recurrent layers (gated delta nets)"},
    {"deepseek2", "latent attention, grouped routing"},
    {"deepseek32", "latent attention, sparse attention by an indexer"},
    {"glm-dsa", "latent attention, sparse attention by an indexer"},
    {"mamba", "recurrent layers (Mamba)"},
    {"mamba2", "recurrent layers (Mamba 2)"},
    {"granitehybrid", "recurrent layers (Mamba 2)"},
    {"nemotron_h", "recurrent layers (Mamba 2)"},
    {"nemotron_h_moe", "recurrent layers (Mamba 2), feed-forwards without a gate"},
    {"neo-bert", "an encoder with norms before its blocks"},
};

}  // namespace

std::string_view lacking_mechanisms(std::string_view architecture) {
    for (const Lacking& one : kLacking) {
        if (one.architecture == architecture) return one.mechanisms;
    }
    return {};
}

}  // namespace helix::model
