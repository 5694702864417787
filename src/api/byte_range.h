#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "net/http_message.h"

namespace helix::api {

struct ByteRange {
    std::uint64_t first = 0;
    std::uint64_t end = 0;  // of the byte after the last
    bool operator==(const ByteRange&) const = default;
};

// What a request wants of a file with so many bytes and this ETag.
struct WantedBytes {
    std::optional<ByteRange> part;  // absent: all
    bool outside = false;           // a part that the file does not have (416)
};

// Reads Range and If-Range (RFC 9110). One part can be asked for; what is asked for in another way
// is the whole file, as the standard allows.
WantedBytes wanted_bytes(const net::HttpRequest& request, std::uint64_t file_bytes,
                         const std::string& etag);

}  // namespace helix::api
