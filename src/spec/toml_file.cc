#include "spec/toml_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace helix::spec {

base::Error TomlFile::wrong(const toml::node& where, std::string_view what) const {
    return base::invalid(fmt::format("{}:{}: {}", file_, where.source().begin.line, what));
}

base::Status TomlFile::only(const toml::table& table, std::string_view owner,
                            std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : table) {
        if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
        return wrong(value, fmt::format("\"{}\" is not a key of {}; known are: {}", key.str(),
                                        owner, fmt::join(keys, ", ")));
    }
    return base::Ok{};
}

base::Result<const toml::table*> TomlFile::table(const toml::table& parent,
                                                 std::string_view key) const {
    const toml::node* node = parent.get(key);
    if (node == nullptr) return static_cast<const toml::table*>(nullptr);
    if (!node->is_table()) return wrong(*node, fmt::format("{}: expected a table", key));
    return node->as_table();
}

base::Result<const toml::array*> TomlFile::list(const toml::table& parent,
                                                std::string_view key) const {
    const toml::node* node = parent.get(key);
    if (node == nullptr) return static_cast<const toml::array*>(nullptr);
    if (!node->is_array()) return wrong(*node, fmt::format("{}: expected a list", key));
    return node->as_array();
}

base::Result<std::string> TomlFile::text(const toml::table& parent, std::string_view key,
                                         std::string otherwise) const {
    const toml::node* node = parent.get(key);
    if (node == nullptr) return otherwise;
    if (!node->is_string()) return wrong(*node, fmt::format("{}: expected a string", key));
    return node->as_string()->get();
}

base::Result<bool> TomlFile::flag(const toml::table& parent, std::string_view key,
                                  bool otherwise) const {
    const toml::node* node = parent.get(key);
    if (node == nullptr) return otherwise;
    if (!node->is_boolean()) return wrong(*node, fmt::format("{}: expected true or false", key));
    return node->as_boolean()->get();
}

}  // namespace helix::spec
