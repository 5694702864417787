#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

// Result<T>: a value, or what the world did wrong. Ignoring one is a compile error ([[nodiscard]]).
// Shaped like std::expected of C++23, so that this can replace it.
//
//     TRY(auto spec, parse_cluster(text));      // declares spec, or returns the error
//     TRY_VOID(file.sync());

namespace helix::base {

// There are few kinds of error; each has one HTTP status (api/error.h).
enum class Errc {
    invalid,      // bad input: a file, a body, an option
    not_found,    // no such file, model, worker
    too_large,    // over a stated limit
    overloaded,   // try again later
    unavailable,  // a peer, a device or a placement is missing now
    denied,       // not on the allow-list
    io,           // the operating system said no
    internal,     // a library failed in a way that names no other kind
};

const char* to_string(Errc code);

// message says which thing is wrong and what was expected; it is shown to users as it stands.
struct Error {
    Errc code = Errc::internal;
    std::string message;
};

struct Ok {};

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value)
        : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
    Result(Error error)
        : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T& value() & { return checked(); }
    const T& value() const& { return const_cast<Result*>(this)->checked(); }
    T&& value() && { return std::move(checked()); }
    T& operator*() & { return checked(); }
    const T& operator*() const& { return value(); }
    T* operator->() { return &checked(); }
    const T* operator->() const { return &value(); }

    const Error& error() const {
        CHECK(!ok());
        return std::get<1>(state_);
    }

  private:
    T& checked() {
        CHECK(ok());
        return std::get<0>(state_);
    }

    std::variant<T, Error> state_;
};

using Status = Result<Ok>;

// An error of the most common kind.
inline Error invalid(std::string message) {
    return {Errc::invalid, std::move(message)};
}

}  // namespace helix::base

#define HELIX_CONCAT_(a, b) a##b
#define HELIX_CONCAT(a, b) HELIX_CONCAT_(a, b)
#define HELIX_TRY_(tmp, declaration, ...) \
    auto tmp = (__VA_ARGS__);             \
    if (!tmp.ok()) return tmp.error();    \
    declaration = std::move(tmp).value()
#define TRY(declaration, ...) HELIX_TRY_(HELIX_CONCAT(try_, __LINE__), declaration, __VA_ARGS__)
#define TRY_VOID(...)                                    \
    do {                                                 \
        auto try_status = (__VA_ARGS__);                 \
        if (!try_status.ok()) return try_status.error(); \
    } while (false)
