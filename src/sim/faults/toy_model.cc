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

namespace {

// What the layers keep of the rows of one sequence.
class ToyKeys {
  public:
    ToyKeys(std::int32_t n_layers, const spec::AttentionWindow& window)
        : window_(window),
          keys_(static_cast<std::size_t>(n_layers)),
          digests_(static_cast<std::size_t>(n_layers), 0),
          begins_(static_cast<std::size_t>(n_layers), 0) {}

    // The next row, past all layers.
    std::uint64_t next(core::Token token) {
        const auto position = static_cast<std::int32_t>(keys_.front().size());
        std::uint64_t row = toy_embed(token, position);
        for (std::size_t l = 0; l < keys_.size(); ++l) {
            const auto layer = static_cast<std::int32_t>(l);
            keys_[l].push_back(toy_key(row, layer));
            digests_[l] += keys_[l].back();
            const std::int64_t begin = window_.has(layer) ? window_.first_position(position) : 0;
            for (; begins_[l] < begin; ++begins_[l])
                digests_[l] -= keys_[l][static_cast<std::size_t>(begins_[l])];
            row = toy_layer(row, layer, digests_[l]);
        }
        return row;
    }

  private:
    const spec::AttentionWindow& window_;
    std::vector<std::vector<std::uint64_t>> keys_;  // [layer][position]
    std::vector<std::uint64_t> digests_;            // of the positions from begins_ on
    std::vector<std::int64_t> begins_;
};

}  // namespace

std::vector<std::uint64_t> toy_rows(const std::vector<core::Token>& tokens, std::int32_t n_layers,
                                    const spec::AttentionWindow& window) {
    ToyKeys keys(n_layers, window);
    std::vector<std::uint64_t> rows;
    for (const core::Token token : tokens) rows.push_back(keys.next(token));
    return rows;
}

std::vector<core::Token> toy_generate(const std::vector<core::Token>& prompt, std::int32_t n_output,
                                      std::int32_t n_layers, std::uint64_t seed, std::int32_t vocab,
                                      const spec::AttentionWindow& window) {
    ToyKeys keys(n_layers, window);
    std::vector<core::Token> tokens = prompt;
    std::vector<core::Token> output;
    for (std::size_t p = 0; output.size() < static_cast<std::size_t>(n_output); ++p) {
        const std::uint64_t row = keys.next(tokens[p]);
        if (p + 1 < prompt.size()) continue;
        output.push_back(toy_sample(row, seed, static_cast<std::int32_t>(p) + 1, vocab));
        tokens.push_back(output.back());
    }
    return output;
}

}  // namespace helix::sim
