#include "cli/kv_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "spec/placement_file.h"

namespace helix::cli {

base::Result<spec::KvType> parse_kv(const std::string& option, const std::string& text) {
    auto type = spec::parse_kv_type(text);
    if (!type.ok()) return base::invalid(option + ": " + type.error().message);
    return type;
}

base::Result<std::vector<spec::KvType>> parse_kv_list(const std::string& option,
                                                      const std::string& text) {
    std::vector<spec::KvType> types;
    std::size_t begin = 0;
    while (!text.empty() && begin <= text.size()) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        TRY(const spec::KvType type, parse_kv(option, text.substr(begin, end - begin)));
        if (std::find(types.begin(), types.end(), type) != types.end()) {
            return base::invalid(fmt::format("{}: {} comes twice", option, spec::to_string(type)));
        }
        types.push_back(type);
        begin = end + 1;
    }
    return types;
}

base::Result<spec::KvType> served_kv(const std::string& kv, const std::string& placement) {
    std::optional<spec::KvType> planned;
    if (!placement.empty()) {
        TRY(const spec::PlacementFile file, spec::read_placement_file(placement));
        planned = file.kv_type;
    }
    if (kv.empty()) return planned.value_or(spec::KvType::f16);
    TRY(const spec::KvType asked, parse_kv("--kv", kv));
    if (planned && *planned != asked) {
        return base::invalid(fmt::format("--kv {}: {} is planned for KV in {}",
                                         spec::to_string(asked), placement,
                                         spec::to_string(*planned)));
    }
    return asked;
}

}  // namespace helix::cli
