#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace helix::spec {

// Whole small files. The error names the path.
base::Result<std::string> read_text_file(const std::string& path);
base::Status write_text_file(const std::string& path, std::string_view text);

}  // namespace helix::spec
