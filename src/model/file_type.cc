#include "model/file_type.h"

namespace helix::model {

std::uint32_t file_type(TensorType quant) {
    switch (quant) {
        case TensorType::f32:
            return 0;
        case TensorType::f16:
            return 1;
        case TensorType::q4_0:
            return 2;
        case TensorType::q8_0:
            return 7;
        case TensorType::q4_k:
            return 14;
        case TensorType::q6_k:
            return 18;
        case TensorType::q4_1:
            return 3;
        case TensorType::q5_0:
            return 8;
        case TensorType::q5_1:
            return 9;
        case TensorType::q2_k:
            return 10;
        case TensorType::q3_k:
            return 11;
        case TensorType::q5_k:
            return 16;
        case TensorType::iq3_xxs:
            return 23;
        case TensorType::iq3_s:
            return 26;
        case TensorType::iq4_nl:
            return 25;
        case TensorType::iq4_xs:
            return 30;
        case TensorType::iq2_xxs:
            return 19;
        case TensorType::iq2_xs:
            return 20;
        case TensorType::iq2_s:
            return 28;
        case TensorType::tq1_0:
            return 36;
        case TensorType::tq2_0:
            return 37;
        case TensorType::iq1_s:
            return 24;
        case TensorType::iq1_m:
            return 31;
        case TensorType::mxfp4:
            return 38;
        case TensorType::nvfp4:
            return 39;
        case TensorType::fp8:
        case TensorType::int4:
            return static_cast<std::uint32_t>(quant);
        case TensorType::bf16:
            return 32;
    }
    return 0;
}

}  // namespace helix::model
