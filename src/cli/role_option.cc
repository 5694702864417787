#include "cli/role_option.h"

#include <fmt/format.h>

#include <optional>

namespace helix::cli {

base::Result<spec::NodeRole> role_of(const std::string& word) {
    const std::optional<spec::NodeRole> role = spec::parse_role(word);
    if (role) return *role;
    return base::invalid(fmt::format("--role: expected {}, not \"{}\"", spec::kRoleNames, word));
}

}  // namespace helix::cli
