#include "sim/faults/toy_model.h"

#include <algorithm>

#include "base/random.h"

namespace helix::sim {

using base::hash_pair;

std::uint64_t toy_embed(core::Token token, std::int32_t position) {
    return hash_pair(static_cast<std::uint64_t>(token) + 1, static_cast<std::uint64_t>(position));
}

std::uint64_t toy_key(std::uint64_t row, std::int32_t layer) {
    return hash_pair(row, 0x4b00U + static_cast<std::uint64_t>(layer));
}

std::uint64_t toy_layer(std::uint64_t row, std::int32_t layer, std::uint64_t keys_digest) {
    return hash_pair(hash_pair(row, static_cast<std::uint64_t>(layer)), keys_digest);
}

core::Token toy_sample(std::uint64_t row, std::uint64_t seed, std::int32_t position,
                       std::int32_t vocab) {
    const std::uint64_t bits =
        hash_pair(hash_pair(row, seed), static_cast<std::uint64_t>(position));
    return static_cast<core::Token>(bits % static_cast<std::uint64_t>(vocab));
}

std::vector<spec::TokenLogprob> toy_top(std::uint64_t row, std::int32_t n, std::int32_t vocab) {
    std::vector<spec::TokenLogprob> top;
    float logprob = 0;
    for (std::uint64_t i = 0; static_cast<std::int32_t>(top.size()) < std::min(n, vocab); ++i) {
        const std::uint64_t bits = hash_pair(row, 0x70000U + i);
        const auto token = static_cast<core::Token>(bits % static_cast<std::uint64_t>(vocab));
        const bool known = std::any_of(top.begin(), top.end(), [&](const spec::TokenLogprob& one) {
            return one.token == token;
        });
        if (known) continue;
        logprob -= 0.01F + static_cast<float>((bits >> 40U) & 0xffU) / 128.0F;
        top.push_back({token, logprob});
    }
    return top;
}

std::uint64_t toy_pool(std::uint64_t so_far, std::uint64_t row, std::int32_t position,
                       spec::Pooling pooling) {
    if (spec::needs_last_alone(pooling)) return row;
    if (pooling == spec::Pooling::cls) return position == 0 ? row : so_far;
    return hash_pair(so_far, row);
}

std::vector<float> toy_embedding(std::uint64_t pooled, spec::Pooling pooling) {
    if (pooling == spec::Pooling::rank) return {static_cast<float>(pooled >> 40U) / 16777216.0F};
    std::vector<float> values;
    for (int i = 0; i < 4; ++i, pooled >>= 16U) {
        values.push_back(static_cast<float>(pooled & 0xffffU) / 65536.0F);
    }
    return values;
}

std::vector<std::uint64_t> toy_rows(const std::vector<core::Token>& tokens, std::int32_t n_layers) {
    std::vector<std::uint64_t> digests(static_cast<std::size_t>(n_layers), 0);
    std::vector<std::uint64_t> rows;
    for (std::size_t p = 0; p < tokens.size(); ++p) {
        std::uint64_t row = toy_embed(tokens[p], static_cast<std::int32_t>(p));
        for (std::int32_t layer = 0; layer < n_layers; ++layer) {
            std::uint64_t& digest = digests[static_cast<std::size_t>(layer)];
            digest += toy_key(row, layer);
            row = toy_layer(row, layer, digest);
        }
        rows.push_back(row);
    }
    return rows;
}

std::vector<core::Token> toy_generate(const std::vector<core::Token>& prompt, std::int32_t n_output,
                                      std::int32_t n_layers, std::uint64_t seed,
                                      std::int32_t vocab) {
    std::vector<core::Token> tokens = prompt;
    std::vector<std::uint64_t> digests(static_cast<std::size_t>(n_layers), 0);
    std::vector<core::Token> output;
    for (std::size_t p = 0; output.size() < static_cast<std::size_t>(n_output); ++p) {
        const auto position = static_cast<std::int32_t>(p);
        std::uint64_t row = toy_embed(tokens[p], position);
        for (std::int32_t layer = 0; layer < n_layers; ++layer) {
            std::uint64_t& digest = digests[static_cast<std::size_t>(layer)];
            digest += toy_key(row, layer);
            row = toy_layer(row, layer, digest);
        }
        if (p + 1 < prompt.size()) continue;
        output.push_back(toy_sample(row, seed, position + 1, vocab));
        tokens.push_back(output.back());
    }
    return output;
}

}  // namespace helix::sim
