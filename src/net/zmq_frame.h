#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace helix::net {

// Bytes kept alive by whoever owns them; copying a Frame copies no bytes.
struct Frame {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;

    static Frame of(std::string text) {
        auto owner = std::make_shared<const std::string>(std::move(text));
        return {owner, std::as_bytes(std::span(*owner))};
    }
    static Frame of(std::vector<float> rows) {
        auto owner = std::make_shared<const std::vector<float>>(std::move(rows));
        return {owner, std::as_bytes(std::span(*owner))};
    }
};

}  // namespace helix::net
