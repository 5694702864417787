#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace helix::cli {

// "2GB", "512 MiB", "1.5G" -> bytes (GB = 1e9, GiB = 2^30, a bare G is GiB). A small
// number without a unit is refused: 4 was hardly meant in bytes. what names the option.
base::Result<std::int64_t> parse_size(const std::string& what, const std::string& text);

// "0-3,8" -> {0, 1, 2, 3, 8}.
base::Result<std::vector<int>> parse_cpu_list(const std::string& what, const std::string& text);

struct HostPort {
    std::string host;
    std::uint16_t port = 0;
};
// "127.0.0.1:8080", ":8080" (all addresses), "[::1]:8080", "8080" (loopback).
base::Result<HostPort> parse_host_port(const std::string& what, const std::string& text);

}  // namespace helix::cli
