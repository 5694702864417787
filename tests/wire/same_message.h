#pragma once

#include <algorithm>
#include <tuple>
#include <utility>

#include "wire/messages.h"

// Whether two messages have the same in every field. Messages without an operator== are taken
// apart, all of their fields at once: one more field, and this does not compile.

namespace helix::wire::test_support {

template <typename T>
bool same(const T& a, const T& b);
template <typename T>
bool same(const std::optional<T>& a, const std::optional<T>& b);
template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b);
template <typename... T>
bool same(const std::variant<T...>& a, const std::variant<T...>& b);

template <typename T>
bool same(const std::optional<T>& a, const std::optional<T>& b) {
    return a.has_value() == b.has_value() && (!a.has_value() || same(*a, *b));
}

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const T& x, const T& y) { return same(x, y); });
}

template <typename... T>
bool same(const std::variant<T...>& a, const std::variant<T...>& b) {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
}

template <typename... T>
bool same_fields(const std::tuple<T...>& a, const std::tuple<T...>& b) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return (same(std::get<I>(a), std::get<I>(b)) && ...);
    }
    (std::index_sequence_for<T...>{});
}

inline auto fields_of(const spec::ModelSpec& m) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q, r, s, t] = m;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q, r, s, t);
}
inline auto fields_of(const spec::LinkSpec& m) {
    const auto& [a, b, c, d] = m;
    return std::tie(a, b, c, d);
}
inline auto fields_of(const Welcome& m) {
    const auto& [a, b, c, d, e, f, g, h, i] = m;
    return std::tie(a, b, c, d, e, f, g, h, i);
}
inline auto fields_of(const ProfileReport& m) {
    const auto& [a, b, c, d] = m;
    return std::tie(a, b, c, d);
}
inline auto fields_of(const GatewayWelcome& m) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = m;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
}
inline auto fields_of(const core::BeamSearch& m) {
    const auto& [a, b, c] = m;
    return std::tie(a, b, c);
}
inline auto fields_of(const core::Request& m) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, n, o, p] = m;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p);
}
inline auto fields_of(const core::Begun::Choice& m) {
    const auto& [a, b] = m;
    return std::tie(a, b);
}
inline auto fields_of(const core::Begun& m) {
    const auto& [a, b, c] = m;
    return std::tie(a, b, c);
}
inline auto fields_of(const core::Submitted& m) {
    const auto& [a, b] = m;
    return std::tie(a, b);
}
inline auto fields_of(const core::Ended& m) {
    const auto& [a, b, c] = m;
    return std::tie(a, b, c);
}
inline auto fields_of(const core::MoveRequest& m) {
    const auto& [a, b] = m;
    return std::tie(a, b);
}
inline auto fields_of(const core::AcceptRequest& m) {
    const auto& [a] = m;
    return std::tie(a);
}
inline auto fields_of(const core::RejectRequest& m) {
    const auto& [a, b, c, d] = m;
    return std::tie(a, b, c, d);
}
inline auto fields_of(const core::RequestRouted& m) {
    const auto& [a, b, c, d, e] = m;
    return std::tie(a, b, c, d, e);
}
inline auto fields_of(const core::StreamToken& m) {
    const auto& [a, b, c, d] = m;
    return std::tie(a, b, c, d);
}
inline auto fields_of(const core::ScoreTokens& m) {
    const auto& [a, b] = m;
    return std::tie(a, b);
}
inline auto fields_of(const core::EmbedPrompt& m) {
    const auto& [a, b] = m;
    return std::tie(a, b);
}
inline auto fields_of(const core::FinishChoice& m) {
    const auto& [a, b, c] = m;
    return std::tie(a, b, c);
}
inline auto fields_of(const core::FinishRequest& m) {
    const auto& [a, b, c, d] = m;
    return std::tie(a, b, c, d);
}
inline auto fields_of(const core::StageTimed& m) {
    const auto& [a, b, c, d, e, f, g, h] = m;
    return std::tie(a, b, c, d, e, f, g, h);
}
inline auto fields_of(const core::RequestEvents& m) {
    const auto& [a, b] = m;
    return std::tie(a, b);
}

template <typename T>
bool same(const T& a, const T& b) {
    if constexpr (requires { fields_of(a); }) {
        return same_fields(fields_of(a), fields_of(b));
    } else {
        return a == b;
    }
}

}  // namespace helix::wire::test_support
