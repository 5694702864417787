// The kernels that multiply tiles, with a tile unit that is emulated. Included in a namespace of
// its own after simd_*.h of the instruction set that does the rest.

#include "engine/kernels/op_common.h"

#include "engine/kernels/op_quantised_formats.h"

#include "engine/kernels/op_matmul_kernel.h"

#include "tiles_emulated.h"

#include "engine/kernels/op_tile_matmul_kernel.h"

// A unit that takes weights for unsigned bytes, as two others of the four product instructions do.
class UnsignedTiles : public EmulatedTiles {
  public:
    template <int kSum, int kX, int kW>
    void add_product() {
        add_products<kSum, kX, kW, std::uint8_t>();
    }
};
