#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace helix::text::jinja {

// The arguments of a call, filter or test, as they are written.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;

    const Value* find(std::string_view name) const;
};

// Arguments by place, in the order of a parameter list; an absent one is empty.
class Bound {
  public:
    // `parameters` is "name name ..."; the first `required` of them must be given. `what` is named
    // in errors.
    static Result<Bound> bind(std::string_view what, std::string_view parameters,
                              std::size_t required, const Arguments& arguments);

    bool has(std::size_t i) const { return values_[i].has_value(); }
    // The argument at place i; none if it is absent.
    const Value& at(std::size_t i) const { return values_[i] ? *values_[i] : none_; }
    Value at_or(std::size_t i, const Value& fallback) const {
        return values_[i] ? *values_[i] : fallback;
    }
    bool truth_at(std::size_t i) const { return values_[i] && is_truthy(*values_[i]); }
    // The argument as an integer: `fallback` if it is absent or none, an error if it is no integer.
    Result<std::int64_t> int_at(std::size_t i, std::int64_t fallback) const;
    Result<std::string> text_at(std::size_t i, std::string fallback) const;

  private:
    std::string what_;
    Value none_;
    std::vector<std::string> names_;
    std::vector<std::optional<Value>> values_;
};

}  // namespace helix::text::jinja
