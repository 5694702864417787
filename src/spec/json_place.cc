#include "spec/json_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spec/bounded_json.h"

namespace helix::spec {

base::Error JsonPlace::complaint(std::string_view text) const {
    return base::invalid(path_.empty() ? fmt::format("{}: {}", file_, text)
                                       : fmt::format("{}: {}: {}", file_, path_, text));
}

base::Error JsonPlace::error(std::string_view expected) const {
    std::string found = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (found.size() > 60) found = found.substr(0, 57) + "...";
    return complaint(fmt::format("expected {}, found {}", expected, found));
}

bool JsonPlace::present(const char* key) const {
    return has(key) && !(*value_)[key].is_null();
}

base::Result<JsonPlace> JsonPlace::member(const char* key) const {
    TRY_VOID(expect_object());
    if (!value_->contains(key)) return complaint(fmt::format("has no \"{}\"", key));
    return child(key);
}

JsonPlace JsonPlace::child(const std::string& key) const {
    return {(*value_)[key], file_, path_.empty() ? key : path_ + "." + key};
}

JsonPlace JsonPlace::element(std::size_t index) const {
    return {(*value_)[index], file_, fmt::format("{}[{}]", path_, index)};
}

base::Status JsonPlace::expect_object() const {
    if (!value_->is_object()) return error("an object");
    return base::Ok{};
}

base::Result<std::size_t> JsonPlace::array_size() const {
    if (!value_->is_array()) return error("an array");
    return value_->size();
}

base::Result<double> JsonPlace::number() const {
    if (!value_->is_number()) return error("a number");
    const auto number = value_->get<double>();
    if (!std::isfinite(number)) return error("a finite number");
    return number;
}

base::Result<std::int64_t> JsonPlace::integer() const {
    TRY(const double number, this->number());
    if (number != std::floor(number) || std::abs(number) > 9e15) return error("a whole number");
    return static_cast<std::int64_t>(number);
}

base::Result<std::int32_t> JsonPlace::index(std::int64_t below) const {
    TRY(const std::int64_t number, integer());
    if (number < 0 || number >= below)
        return error(fmt::format("a number from 0 to {}", below - 1));
    return static_cast<std::int32_t>(number);
}

base::Result<std::string> JsonPlace::text() const {
    if (!value_->is_string()) return error("a string");
    return value_->get<std::string>();
}

base::Result<double> JsonPlace::number_or(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    return child(key).number();
}

base::Result<std::string> JsonPlace::text_or(const char* key, std::string otherwise) const {
    if (!has(key)) return otherwise;
    return child(key).text();
}

base::Result<bool> JsonPlace::flag_or(const char* key, bool otherwise) const {
    if (!present(key)) return otherwise;
    const JsonPlace place = child(key);
    if (!place.value().is_boolean()) return place.error("true or false");
    return place.value().get<bool>();
}

base::Result<std::int32_t> JsonPlace::count(const char* key, std::int64_t high) const {
    TRY(const JsonPlace place, member(key));
    TRY(const std::int64_t value, place.integer());
    if (value < 1 || value > high) return place.error(fmt::format("1 to {}", high));
    return static_cast<std::int32_t>(value);
}

base::Result<std::int32_t> JsonPlace::count_or(const char* key, std::int64_t high,
                                               std::int32_t otherwise) const {
    if (!present(key)) return otherwise;
    return count(key, high);
}

base::Result<std::int32_t> JsonPlace::whole_or_zero(const char* key, std::int64_t high) const {
    if (!present(key)) return 0;
    const JsonPlace place = child(key);
    TRY(const std::int64_t value, place.integer());
    if (value < 0 || value > high) return place.error(fmt::format("0 to {}", high));
    return static_cast<std::int32_t>(value);
}

base::Result<float> JsonPlace::positive_or(const char* key, double otherwise) const {
    if (!present(key)) return static_cast<float>(otherwise);
    const JsonPlace place = child(key);
    TRY(const double value, place.number());
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow) || narrow <= 0) return place.error("a number above zero");
    return narrow;
}

namespace {

// The library's message without its name, number and place, which our own message has.
std::string parse_complaint(const std::string& text) {
    const std::size_t column = text.find("column ");
    const std::size_t colon = text.find(": ", column == std::string::npos ? 0 : column);
    return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

base::Result<nlohmann::json> parse_json(std::string_view text, const std::string& file) {
    nlohmann::json document;
    const auto problem = read_bounded_json(text, {}, document);
    if (!problem) return document;
    if (problem->over_limit) return base::invalid(fmt::format("{}: {}", file, problem->message));
    const auto end =
        text.begin() + static_cast<std::ptrdiff_t>(std::min(problem->byte, text.size()));
    return base::invalid(fmt::format("{}:{}: is not JSON: {}", file,
                                     1 + std::count(text.begin(), end, '\n'),
                                     parse_complaint(problem->message)));
}

}  // namespace helix::spec
