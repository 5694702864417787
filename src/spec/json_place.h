#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace helix::spec {

// A value inside a JSON file, and the way to it, so that every complaint says where:
//     "cluster.json: nodes[3].vram_gb: expected a number, found \"24\""
// It is valid while the parsed document lives.
class JsonPlace {
  public:
    JsonPlace(const nlohmann::json& value, std::string file, std::string path = "")
        : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

    const nlohmann::json& value() const { return *value_; }
    base::Error error(
        std::string_view expected) const;  // the message also names what is there instead
    base::Error complaint(std::string_view text) const;

    bool has(const char* key) const { return value_->is_object() && value_->contains(key); }
    bool present(const char* key) const;  // has it, and not as null
    base::Result<JsonPlace> member(const char* key) const;
    JsonPlace child(const std::string& key) const;  // the object must have the key
    JsonPlace element(std::size_t index) const;     // the array must be long enough
    base::Status expect_object() const;
    base::Result<std::size_t> array_size() const;

    base::Result<double> number() const;  // finite
    base::Result<std::int64_t> integer() const;
    base::Result<std::int32_t> index(std::int64_t below) const;  // 0 <= index < below
    base::Result<std::string> text() const;

    base::Result<double> number_or(const char* key, double otherwise) const;
    base::Result<std::string> text_or(const char* key, std::string otherwise) const;
    // Of these null counts as absent, too.
    base::Result<bool> flag_or(const char* key, bool otherwise) const;
    base::Result<std::int32_t> count(const char* key, std::int64_t high) const;  // 1 to high
    base::Result<std::int32_t> count_or(const char* key, std::int64_t high,
                                        std::int32_t otherwise) const;
    base::Result<std::int32_t> whole_or_zero(const char* key, std::int64_t high) const;  // 0 to it
    base::Result<float> positive_or(const char* key, double otherwise) const;

  private:
    const nlohmann::json* value_;
    std::string file_;
    std::string path_;
};

// Parses JSON within the default JsonLimits. Syntax errors name file and line. Comments and
// trailing commas are errors.
base::Result<nlohmann::json> parse_json(std::string_view text, const std::string& file);

}  // namespace helix::spec
