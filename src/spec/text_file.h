#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace helix::spec {

// Settings, tables and descriptions have a few megabytes at most, vocabularies some ten.
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kMaxTraceBytes = std::uint64_t{8} << 30U;

// Reads a whole file, which must be a regular one, since a pipe or a device has no end. The error
// names the path.
base::Result<std::string> read_text_file(const std::string& path,
                                         std::uint64_t max_bytes = kMaxTextBytes);
base::Status write_text_file(const std::string& path, std::string_view text);

}  // namespace helix::spec
