#pragma once

namespace helix::engine {

// Arithmetic of its own that a device need not have: it has none, has shown that it is wrong, or
// that it is right. Shaders use it only in the last case.
enum class FeatureProof { none, wrong, proven };

constexpr const char* to_string(FeatureProof proof) {
    switch (proof) {
        case FeatureProof::none:
            return "none";
        case FeatureProof::wrong:
            return "wrong";
        case FeatureProof::proven:
            return "proven";
    }
    return "";
}

}  // namespace helix::engine
