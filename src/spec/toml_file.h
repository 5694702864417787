#pragma once

#include <toml++/toml.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace helix::spec {

// Reads values out of a parsed TOML file; every complaint begins with file and line. A key that is
// not there gives null, or the caller's default.
class TomlFile {
  public:
    explicit TomlFile(std::string file) : file_(std::move(file)) {}

    const std::string& name() const { return file_; }
    base::Error wrong(const toml::node& where, std::string_view what) const;

    // Checks that the table has no keys but these.
    base::Status only(const toml::table& table, std::string_view owner,
                      std::initializer_list<std::string_view> keys) const;
    base::Result<const toml::table*> table(const toml::table& parent, std::string_view key) const;
    base::Result<const toml::array*> list(const toml::table& parent, std::string_view key) const;
    base::Result<std::string> text(const toml::table& parent, std::string_view key,
                                   std::string otherwise) const;
    base::Result<bool> flag(const toml::table& parent, std::string_view key, bool otherwise) const;

    // Reads a quantity with its unit, by one of the functions of units.h.
    template <typename Value>
    base::Result<Value> quantity(const toml::table& parent, std::string_view key,
                                 base::Result<Value> (*parse)(std::string_view),
                                 Value otherwise) const {
        const toml::node* node = parent.get(key);
        if (node == nullptr) return otherwise;
        if (!node->is_string()) return wrong(*node, std::string(key) + kExpectedUnit);
        const auto parsed = parse(node->as_string()->get());
        if (!parsed.ok()) return wrong(*node, std::string(key) + ": " + parsed.error().message);
        return *parsed;
    }

  private:
    static constexpr const char* kExpectedUnit = ": expected a string with a unit";
    std::string file_;
};

}  // namespace helix::spec
