#pragma once

namespace helix::base {

// One function object out of several, for std::visit: a type that none of them takes does not
// compile.
template <typename... Functions>
struct Overloaded : Functions... {
    using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace helix::base
