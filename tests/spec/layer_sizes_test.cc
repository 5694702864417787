#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "spec/model_spec.h"

namespace helix::spec::layer_sizes_test {
namespace {

ModelSpec random_model(base::Random& random) {
    ModelSpec model;
    model.n_layers = static_cast<std::int32_t>(random.between(1, 12));
    model.embedding_bytes = random.between(1, 50);
    model.head_bytes = random.between(1, 50);
    std::vector<std::int64_t> sizes;
    const std::int64_t kinds = random.between(1, 3);
    for (std::int32_t l = 0; l < model.n_layers; ++l)
        sizes.push_back(100 * random.between(1, kinds));
    set_layer_sizes(model, sizes);
    EXPECT_EQ(model.layer_bytes, *std::max_element(sizes.begin(), sizes.end()));
    // Both forms say the same.
    const bool equal = std::count(sizes.begin(), sizes.end(), sizes[0]) == model.n_layers;
    EXPECT_EQ(model.bytes_of_layer.empty(), equal);
    for (std::int32_t l = 0; l < model.n_layers; ++l) {
        std::int64_t bytes = sizes[static_cast<std::size_t>(l)];
        if (l == 0) bytes += model.embedding_bytes;
        if (l == model.n_layers - 1) bytes += model.head_bytes;
        EXPECT_EQ(stored_bytes(model, {l, l + 1}), bytes);
    }
    return model;
}

TEST(LayerSizes, OfSeveralLayersAreThoseOfEach) {
    base::Random random(1);
    for (int i = 0; i < 200; ++i) {
        const ModelSpec model = random_model(random);
        const std::int32_t n = model.n_layers;
        std::vector<std::int64_t> most(static_cast<std::size_t>(n) + 1, 0);
        for (std::int32_t begin = 0; begin < n; ++begin) {
            std::int64_t sum = 0;
            for (std::int32_t end = begin + 1; end <= n; ++end) {
                sum += stored_bytes(model, {end - 1, end});
                EXPECT_EQ(stored_bytes(model, {begin, end}), sum);
                const std::int64_t inner = sum - (begin == 0 ? model.embedding_bytes : 0) -
                                           (end == n ? model.head_bytes : 0);
                const auto size = static_cast<std::size_t>(end - begin);
                most[size] = std::max(most[size], inner);
                if (begin == 0 && end < n) {
                    EXPECT_EQ(most_stored_bytes(model, end, true, false), inner);
                }
                if (begin > 0 && end == n) {
                    EXPECT_EQ(most_stored_bytes(model, n - begin, false, true), inner);
                }
            }
        }
        for (std::int32_t j = 0; j <= n; ++j)
            EXPECT_EQ(most_stored_bytes(model, j), most[static_cast<std::size_t>(j)]);
        EXPECT_EQ(stored_bytes(model, {3, 3}), 0);
        const auto all = static_cast<double>(most[static_cast<std::size_t>(n)]);
        EXPECT_DOUBLE_EQ(layer_bytes_read(model, 7), all / n);
    }
}

TEST(LayerSizes, WhatEverybodyHoldsIsHeldByWhoeverHasALayer) {
    ModelSpec model;
    model.n_layers = 4;
    model.layer_bytes = 10;
    model.head_bytes = 3;
    model.common_bytes = 100;
    EXPECT_EQ(stored_bytes(model, {0, 2}), 120);
    EXPECT_EQ(stored_bytes(model, {2, 4}), 123);
    EXPECT_EQ(stored_bytes(model, {2, 2}), 0);
    EXPECT_EQ(most_stored_bytes(model, 2), 20);
}

TEST(JoinedLayers, AreHeldTogether) {
    ModelSpec model;
    model.n_layers = 10;
    for (std::int32_t cut = 0; cut <= 10; ++cut) EXPECT_TRUE(may_cut(model, cut));
    model.joined_layers = 4;
    for (std::int32_t cut = 0; cut <= 10; ++cut)
        EXPECT_EQ(may_cut(model, cut), cut <= 6 || cut == 10) << cut;
    EXPECT_TRUE(may_hold(model, {2, 6}));
    EXPECT_TRUE(may_hold(model, {6, 10}));
    EXPECT_TRUE(may_hold(model, {0, 10}));
    EXPECT_TRUE(may_hold(model, {8, 8}));
    EXPECT_FALSE(may_hold(model, {2, 7}));
    EXPECT_FALSE(may_hold(model, {7, 10}));
    set_layer_sizes(model, {1, 1, 1, 1, 1, 1, 5, 5, 5, 5});
    EXPECT_LT(typical_layer(model), 6) << "a joined layer cannot be measured by itself";
    model.joined_layers = 10;
    EXPECT_EQ(typical_layer(model), 0);
}

TEST(SharedKv, TheLastLayersHaveNone) {
    ModelSpec model;
    model.n_layers = 10;
    EXPECT_EQ(kv_layers(model, {2, 10}), (LayerRange{2, 10}));
    EXPECT_EQ(most_kv_layers(model, 4, true), 4);
    model.joined_layers = 4;
    model.shared_kv_layers = 3;
    EXPECT_EQ(kv_layers(model, {0, 10}), (LayerRange{0, 7}));
    EXPECT_EQ(kv_layers(model, {2, 6}), (LayerRange{2, 6}));
    EXPECT_EQ(kv_layers(model, {6, 10}), (LayerRange{6, 7}));
    EXPECT_TRUE(kv_layers(model, {8, 10}).empty());
    EXPECT_EQ(most_kv_layers(model, 6), 6);
    EXPECT_EQ(most_kv_layers(model, 6, true), 3);
    EXPECT_EQ(most_kv_layers(model, 7), 4) << "so many end with the last";
    EXPECT_EQ(most_kv_layers(model, 10), 7);
    EXPECT_EQ(most_kv_layers(model, 2, true), 1) << "nobody may hold them, and one has some";
    EXPECT_EQ(most_kv_layers(model, 0), 0);
    // Of the seven that have some, three keep 10 positions.
    model.window = {10, false, {true, false, true, false, true, false, false, true, true, true}};
    EXPECT_DOUBLE_EQ(kept_tokens(model, 100), (4 * 100 + 3 * 10) / 7.0);
}

TEST(LayerSizes, ALayerStandsForAll) {
    const auto typical = [](std::vector<std::int64_t> sizes) {
        ModelSpec model;
        model.n_layers = static_cast<std::int32_t>(sizes.size());
        set_layer_sizes(model, std::move(sizes));
        return typical_layer(model);
    };
    EXPECT_EQ(typical({5}), 0);
    EXPECT_EQ(typical({5, 5}), 0);
    EXPECT_EQ(typical({5, 5, 5, 5}), 1);
    EXPECT_EQ(typical({2, 2, 2, 9, 9, 9, 9, 9}), 3);  // the first layers have no experts
    EXPECT_EQ(typical({2, 9, 2, 9}), 1);              // every second one has
    EXPECT_EQ(typical({9, 2, 9, 2}), 2);
    EXPECT_EQ(typical({1, 2, 2, 9}), 1);  // neither the first nor the last
    EXPECT_EQ(typical({5, 6, 4, 5, 6, 5}), 3);
}

}  // namespace
}  // namespace helix::spec::layer_sizes_test
