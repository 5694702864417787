// rooms: net
// Bytes as any peer may send them to the cluster port: however they are cut the verdict is the
// same, and what passes is made of messages within the limits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "net/zmtp_meter.h"

namespace {

using helix::net::ZmtpLimits;
using helix::net::ZmtpMeter;

// The meter's error; "" when all passed.
std::string verdict(std::span<const std::byte> data, std::size_t piece, const ZmtpLimits& limits,
                    std::uint64_t& messages) {
    ZmtpMeter meter(limits);
    for (std::size_t at = 0; at < data.size(); at += piece) {
        const auto passed = meter.pass(data.subspan(at, std::min(piece, data.size() - at)));
        if (!passed.ok()) return passed.error().message;
    }
    messages = meter.messages();
    return "";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
    const ZmtpLimits limits{1000, 1500, 3, 100};
    std::uint64_t whole = 0;
    std::uint64_t cut = 0;
    const std::string at_once = verdict(bytes, std::max<std::size_t>(size, 1), limits, whole);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{5}}) {
        CHECK(verdict(bytes, piece, limits, cut) == at_once);
        CHECK(!at_once.empty() || cut == whole);
    }
    // A message has at least a frame of two bytes.
    CHECK(whole * 2 <= size);
    return 0;
}
