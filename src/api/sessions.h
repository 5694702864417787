#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "net/secret_keys.h"

// Who is logged in on the page. A session stands for the key that it was begun with and may do what
// that key may do, so that it ends with the key. It is known by a random id, of which only the hash
// is kept. It has no clock and no random source: both are passed in.

namespace helix::api {

class Sessions {
  public:
    // A session that nobody has used for so long is over.
    static constexpr std::int64_t kIdleSeconds = 30 * 24 * 3600;
    // One more, and the one that was not used for longest is over: of the same key, or of all.
    static constexpr std::size_t kMostOfAKey = 64;
    static constexpr std::size_t kMost = 4096;

    // id comes from net::random_secret.
    void begin(base::TimePoint now, std::string_view id, const net::SecretHash& key);
    // The hash of the key that the session stands for; nothing when there is no such session.
    std::optional<net::SecretHash> find(base::TimePoint now, std::string_view id) const;
    void used(base::TimePoint now, std::string_view id);
    void end(std::string_view id);
    // Forgets sessions that are over, and those of keys that are none any more.
    void clean(base::TimePoint now, const std::function<bool(const net::SecretHash&)>& is_key);

    std::size_t size() const { return sessions_.size(); }

  private:
    struct Session {
        net::SecretHash key;
        base::TimePoint used;
    };
    using Map = std::map<net::SecretHash, Session>;  // by the hash of the id

    static bool is_over(base::TimePoint now, const Session& session);
    // Ends the one that was not used for longest, of this key or of all, if there are too many.
    void make_room(std::size_t most, const net::SecretHash* key);

    Map sessions_;
};

}  // namespace helix::api
