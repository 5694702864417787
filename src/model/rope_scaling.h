#pragma once

#include <cstdint>
#include <vector>

namespace helix::model {

// LLaMA 3.1's scaling: frequencies with a wavelength above the trained context / low are divided by
// factor, those below the trained context / high are kept, and between the two the division fades
// in. GGUF files hold the result as the tensor rope_freqs.weight, config.json the parameters.
struct Llama3RopeScaling {
    float rope_base = 500000.0F;
    std::int32_t rope_dim = 0;
    float factor = 8.0F;
    float low_frequency_factor = 1.0F;
    float high_frequency_factor = 4.0F;
    std::int32_t trained_context = 8192;
};

// The divisors of the frequencies, [rope_dim / 2].
std::vector<float> llama3_rope_factors(const Llama3RopeScaling& scaling);
// Gemma 4's, of whose pairs this share is turned by the usual frequencies: 1, and for the others a
// number so large that they do not turn at all.
std::vector<float> proportional_rope_factors(std::int32_t rope_dim, float share);

}  // namespace helix::model
