#pragma once

#include <string>

namespace helix::wire::test_support {

// The bytes of a Hello as protocol 9 wrote it: fields 1 to 13, and none of those that came later.
inline std::string hello_of_protocol_9() {
    const auto number = [](int field, char value) {
        return std::string{static_cast<char>(field << 3), value};
    };
    const auto bytes = [](int field, const std::string& value) {
        return std::string{static_cast<char>((field << 3) | 2), static_cast<char>(value.size())} +
               value;
    };
    return bytes(9, number(1, 9) + number(2, 77) + bytes(3, "old") + bytes(4, "host") +
                        bytes(5, "t4") + bytes(6, "here") + number(7, 8) + number(8, 100) +
                        bytes(9, "tcp://h:1") + bytes(10, "key") + bytes(11, "cpu") +
                        number(12, 1) + bytes(13, "gpu0"));
}

}  // namespace helix::wire::test_support
