#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/body_fields.h"
#include "api/error.h"
#include "base/check.h"

namespace helix::api {

// Reads typed fields out of a JSON object. The first thing that is wrong becomes error(), which
// names the field; absent and null fields leave the output as it is. Unknown fields are ignored.
class FieldReader {
  public:
    using Json = nlohmann::ordered_json;
    explicit FieldReader(const Json& object, std::string prefix = {})
        : object_(object), prefix_(std::move(prefix)) {}

    // The field's value, or nullptr when it is absent or null.
    const Json* find(std::string_view name) const;
    const Json* find(const BodyField& field) const { return find(here(field)); }
    // Numbers are what the field says that they may be.
    void number(const BodyField& field, float& out);
    // most: a limit of the server, below what the field says.
    template <typename Int>
    void integer(const BodyField& field, Int& out, std::optional<std::int64_t> most = {}) {
        if (const auto value = read_integer(field, most)) out = static_cast<Int>(*value);
    }
    void boolean(const BodyField& field, bool& out);
    void text(const BodyField& field, std::string& out);

    // name: without the reader's prefix.
    void fail(std::string_view name, const std::string& message);
    void fail(const BodyField& field, const std::string& message) { fail(here(field), message); }
    bool failed() const { return error_.has_value(); }
    const std::optional<ApiError>& error() const { return error_; }

  private:
    std::string_view here(const BodyField& field) const {
        CHECK(field.name.starts_with(prefix_));
        return field.name.substr(prefix_.size());
    }
    std::optional<std::int64_t> read_integer(const BodyField& field,
                                             std::optional<std::int64_t> most);

    const Json& object_;
    std::string prefix_;  // "stream_options." for nested objects
    std::optional<ApiError> error_;
};

// A whole number, even when written as 3.0; nothing when value is anything else or beyond 64 bits.
std::optional<std::int64_t> as_integer(const nlohmann::ordered_json& value);

// The kind of a value for messages: "a string", "an array", ...
std::string kind_of(const nlohmann::ordered_json& value);

}  // namespace helix::api
