#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace helix::text {

// The types of JSON that a parameter may have, as bits.
namespace json_type {
constexpr std::uint8_t kString = 1;
constexpr std::uint8_t kNumber = 2;
constexpr std::uint8_t kBoolean = 4;
constexpr std::uint8_t kNull = 8;
constexpr std::uint8_t kArray = 16;
constexpr std::uint8_t kObject = 32;
}  // namespace json_type

// What parsers ask of a request's tools. Immutable, for any thread.
class ToolSchemas {
  public:
    ToolSchemas() = default;
    // tools as the API has them: [{"type": "function", "function": {"name", "parameters"}}]. What
    // is not of that form is passed over.
    explicit ToolSchemas(const nlohmann::ordered_json& tools);

    bool empty() const { return tools_.empty(); }
    bool has(std::string_view tool) const { return tools_.find(tool) != tools_.end(); }
    // The types that the tool's parameter may have; 0 if nothing is said.
    std::uint8_t types(std::string_view tool, std::string_view parameter) const;

  private:
    using Parameters = std::map<std::string, std::uint8_t, std::less<>>;
    std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace helix::text
