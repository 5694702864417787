#pragma once

#include <cstddef>
#include <cstdint>

// Shapes of the eight tile registers, as LDTILECFG reads them (palette 1).

namespace helix::engine::ops {

constexpr int kTileRows = 16;  // rows of activations that a product takes
constexpr int kSumTiles = 4;   // tiles 0 .. 3 are sums: [16] rows of [16] int32

// Tile 4 + 2 i holds activations, tile 5 + 2 i weights, for i < 2.
struct alignas(64) TileConfig {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64 && offsetof(TileConfig, row_bytes) == 16 &&
              offsetof(TileConfig, rows) == 48);

// For products over so many columns, 16 or 32: activations are [16][columns] bytes, weights
// [columns / 4][16 outputs][4] bytes.
constexpr TileConfig tile_config(int columns) {
    TileConfig config;
    for (int tile = 0; tile < kSumTiles + 4; ++tile) {
        const bool activations = tile >= kSumTiles && tile % 2 == 0;
        const bool weights = tile >= kSumTiles && tile % 2 == 1;
        config.row_bytes[tile] = static_cast<std::uint16_t>(activations ? columns : 64);
        config.rows[tile] = static_cast<std::uint8_t>(weights ? columns / 4 : kTileRows);
    }
    return config;
}

}  // namespace helix::engine::ops
