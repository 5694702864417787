#include "text/template/call.h"

#include <algorithm>

namespace helix::text::jinja {

const Value* Arguments::find(std::string_view name) const {
    for (const auto& [key, value] : named) {
        if (key == name) return &value;
    }
    return nullptr;
}

Result<Bound> Bound::bind(std::string_view what, std::string_view parameters, std::size_t required,
                          const Arguments& arguments) {
    Bound bound;
    bound.what_ = what;
    for (std::size_t at = 0; at < parameters.size();) {
        const std::size_t end = std::min(parameters.find(' ', at), parameters.size());
        bound.names_.emplace_back(parameters.substr(at, end - at));
        at = end + 1;
    }
    bound.values_.resize(bound.names_.size());
    if (arguments.positional.size() > bound.names_.size()) {
        return base::invalid(bound.what_ + " takes at most " + std::to_string(bound.names_.size()) +
                             " argument(s), got " + std::to_string(arguments.positional.size()));
    }
    std::copy(arguments.positional.begin(), arguments.positional.end(), bound.values_.begin());
    for (const auto& [name, value] : arguments.named) {
        const auto found = std::find(bound.names_.begin(), bound.names_.end(), name);
        if (found == bound.names_.end())
            return base::invalid(bound.what_ + " has no argument named '" + name + "'");
        auto& place = bound.values_[static_cast<std::size_t>(found - bound.names_.begin())];
        if (place)
            return base::invalid(bound.what_ + " got two values for argument '" + name + "'");
        place = value;
    }
    for (std::size_t i = 0; i < required; ++i) {
        if (!bound.values_[i])
            return base::invalid(bound.what_ + " needs argument '" + bound.names_[i] + "'");
    }
    return bound;
}

Result<std::int64_t> Bound::int_at(std::size_t i, std::int64_t fallback) const {
    if (!values_[i] || values_[i]->is<None>()) return fallback;
    std::int64_t storage = 0;
    const auto* number = as_int(*values_[i], storage);
    if (number != nullptr) return *number;
    return base::invalid(what_ + ": argument '" + names_[i] + "' must be an integer, not '" +
                         type_name(*values_[i]) + "'");
}

Result<std::string> Bound::text_at(std::size_t i, std::string fallback) const {
    if (!values_[i] || values_[i]->is<None>()) return fallback;
    if (const auto* text = values_[i]->get<Text>()) return text->str();
    return base::invalid(what_ + ": argument '" + names_[i] + "' must be a string, not '" +
                         type_name(*values_[i]) + "'");
}

}  // namespace helix::text::jinja
