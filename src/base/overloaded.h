#pragma once

#include <concepts>
#include <type_traits>

namespace helix::base {

// Several lambdas as one function object. std::visit(Overloaded{...}, variant) compiles only where
// each alternative has a lambda, so that one that is added later cannot be forgotten.
template <typename... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// One of the listed types: for a lambda that several alternatives share, each of them by its name.
template <typename T, typename... Types>
concept OneOf = (std::same_as<std::remove_const_t<T>, Types> || ...);

}  // namespace helix::base
