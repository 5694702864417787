#include "engine/kernels/decoded_panel.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "model/quant/codes.h"

namespace helix::engine::ops {

const DecodedBlock* decode_panel(const PackedMatrix& matrix, std::int64_t panel) {
    thread_local std::vector<DecodedBlock> decoded;
    const std::int64_t n_blocks = matrix.cols() / 32;
    if (std::ssize(decoded) < n_blocks) decoded.resize(base::size_of(n_blocks));
    const model::quant::Decode decode = model::quant::find_decoder(matrix.type());
    CHECK(decode != nullptr);
    const model::TensorTypeInfo& info = *model::tensor_type_info(matrix.type());
    const int parts = info.block_size / 32;
    const std::byte* row = matrix.panel(panel);
    DecodedBlock* unit = decoded.data();
    for (std::int64_t block = 0; block < n_blocks; block += parts, unit += parts) {
        for (int output = 0; output < kPanelRows; ++output, row += info.block_bytes) {
            for (int part = 0; part < parts; ++part) {
                model::quant::Codes codes;
                decode(row, part, codes);
                DecodedBlock& to = unit[part];
                for (int group = 0; group < 8; ++group)
                    std::memcpy(to.w + 64 * group + 4 * output, codes.q + 4 * group, 4);
                to.scale[0][output] = codes.scale[0];
                to.scale[1][output] = codes.scale[1];
            }
        }
    }
    return decoded.data();
}

}  // namespace helix::engine::ops
