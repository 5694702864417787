#include "api/sessions.h"

#include <cstdint>
#include <utility>

namespace helix::api {

bool Sessions::is_over(base::TimePoint now, const Session& session) {
    return now - session.used > base::Duration{kIdleSeconds * 1'000'000'000};
}

void Sessions::make_room(std::size_t most, const net::SecretHash* key) {
    std::size_t count = 0;
    auto oldest = sessions_.end();
    for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
        if (key != nullptr && it->second.key != *key) continue;
        ++count;
        if (oldest == sessions_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    if (count >= most) sessions_.erase(oldest);
}

void Sessions::begin(base::TimePoint now, std::string_view id, const net::SecretHash& key) {
    make_room(kMostOfAKey, &key);
    make_room(kMost, nullptr);
    sessions_[net::hash_secret(id)] = {key, now};
}

std::optional<net::SecretHash> Sessions::find(base::TimePoint now, std::string_view id) const {
    const auto found = sessions_.find(net::hash_secret(id));
    if (found == sessions_.end() || is_over(now, found->second)) return {};
    return found->second.key;
}

void Sessions::used(base::TimePoint now, std::string_view id) {
    const auto found = sessions_.find(net::hash_secret(id));
    if (found != sessions_.end() && !is_over(now, found->second)) found->second.used = now;
}

void Sessions::end(std::string_view id) {
    sessions_.erase(net::hash_secret(id));
}

void Sessions::clean(base::TimePoint now,
                     const std::function<bool(const net::SecretHash&)>& is_key) {
    std::erase_if(sessions_, [&](const auto& one) {
        return is_over(now, one.second) || !is_key(one.second.key);
    });
}

}  // namespace helix::api
