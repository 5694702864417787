#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/error.h"

namespace helix::api {

// Reads typed fields out of a JSON object. The first thing that is wrong becomes error(), which
// names the field; absent and null fields leave the output as it is. Unknown fields are ignored.
class FieldReader {
  public:
    using Json = nlohmann::ordered_json;
    explicit FieldReader(const Json& object, std::string prefix = {})
        : object_(object), prefix_(std::move(prefix)) {}

    // The field's value, or nullptr when it is absent or null.
    const Json* find(const char* name) const;
    void number(const char* name, double low, double high, float& out);
    template <typename Int>
    void integer(const char* name, std::int64_t low, std::int64_t high, Int& out) {
        if (const auto value = read_integer(name, low, high)) out = static_cast<Int>(*value);
    }
    void boolean(const char* name, bool& out);
    void text(const char* name, std::string& out);

    void fail(const std::string& name, const std::string& message);
    bool failed() const { return error_.has_value(); }
    const std::optional<ApiError>& error() const { return error_; }

  private:
    std::optional<std::int64_t> read_integer(const char* name, std::int64_t low, std::int64_t high);

    const Json& object_;
    std::string prefix_;  // "stream_options." for nested objects
    std::optional<ApiError> error_;
};

// A whole number, even when written as 3.0; nothing when value is anything else or beyond 64 bits.
std::optional<std::int64_t> as_integer(const nlohmann::ordered_json& value);

// The kind of a value for messages: "a string", "an array", ...
std::string kind_of(const nlohmann::ordered_json& value);

}  // namespace helix::api
