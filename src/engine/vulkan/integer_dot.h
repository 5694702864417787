#pragma once

namespace helix::engine {

// A device's own dot product of four bytes: it has none, has shown that it is wrong, or that it is
// right. Shaders use it only in the last case.
enum class IntegerDot { none, wrong, proven };

constexpr const char* to_string(IntegerDot dot) {
    switch (dot) {
        case IntegerDot::none:
            return "none";
        case IntegerDot::wrong:
            return "wrong";
        case IntegerDot::proven:
            return "proven";
    }
    return "";
}

}  // namespace helix::engine
