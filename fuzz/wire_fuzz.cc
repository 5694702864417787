// rooms: wire
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "wire/codec.h"

// Any bytes give an error, or a message that encodes and decodes to the same bytes again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const helix::wire::SessionLimits limits{data[0] % 33, data[1] % 65};
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 2), size - 2);
    for (const std::size_t payload_bytes : {std::size_t{0}, std::size_t{data[1]} * 4}) {
        const auto message = helix::wire::decode(bytes, payload_bytes, limits);
        if (!message.ok()) continue;
        const std::string encoded = helix::wire::encode(*message);
        const auto again =
            helix::wire::decode(std::as_bytes(std::span(encoded)), payload_bytes, limits);
        CHECK(again.ok());
        CHECK(helix::wire::encode(*again) == encoded);
    }
    return 0;
}
