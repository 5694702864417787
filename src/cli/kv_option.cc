#include "cli/kv_option.h"

namespace helix::cli {

base::Result<engine::ops::KvType> parse_kv(const std::string& option, const std::string& text) {
    auto type = engine::ops::parse_kv_type(text);
    if (!type.ok()) return base::invalid(option + ": " + type.error().message);
    return type;
}

}  // namespace helix::cli
