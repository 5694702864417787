#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/pake.h"

// Letting in a machine by a short code: an admin starts pairing and is shown the code, which is
// typed once at the machine. What both say to each other is in docs/security.md. Pairing has no
// clock: time is passed in.

namespace helix::api {

class Pairing {
  public:
    static constexpr base::Duration kCodeLife = base::from_seconds(600);
    static constexpr int kTries = 3;  // of one code
    // After the last wrong try of a code there is none for a while, and after each further one for
    // twice as long.
    static constexpr base::Duration kFirstPause = base::from_seconds(30);
    static constexpr base::Duration kLongestPause = base::from_seconds(960);
    // A code without wrong tries for so long: the next pause is the first again.
    static constexpr base::Duration kForgetAfter = base::from_seconds(3600);
    // Exchanges that have begun. One more ends the oldest.
    static constexpr std::size_t kMostExchanges = 16;
    static constexpr base::Duration kExchangeLife = base::from_seconds(60);

    // about is the coordinator's public key, to which every exchange is bound.
    explicit Pairing(std::string about) : about_(std::move(about)) {}

    // ---- what an admin does and sees
    enum class State { off, shown, paused };
    struct Look {
        State state = State::off;
        std::string code;      // while one is shown
        base::Duration left;   // of the code or of the pause
        int tries_left = 0;    // of the code
        int wrong_tries = 0;   // of all codes since start()
        std::string let_in;    // who was let in by the last code; "" = nobody
        bool expired = false;  // nobody came in time
    };
    // Makes a new code, which ends the one before. During a pause the code comes after it.
    Look start(base::TimePoint now);
    // How it stands. Makes the new code when a pause is over, so that no code is in force that
    // nobody has seen.
    Look look(base::TimePoint now);
    void stop();

    // ---- what anybody may try
    enum class Refusal {
        none,
        no_code,           // none is shown: nobody started it, or it is over
        paused,            // too many wrong tries
        bad_share,         // no element of the group
        used_session,      // the session's name is one of an exchange that has begun
        unknown_exchange,  // it has not begun, has ended, or was for a code before
        wrong_code
    };
    struct Begun {
        Refusal refused = Refusal::none;
        net::PakeMessage answer;
    };
    Begun begin(base::TimePoint now, const std::string& session, const net::PakeMessage& theirs);

    struct Proved {
        Refusal refused = Refusal::none;
        std::string name;  // of the machine
        std::optional<net::PakeSession> session;
    };
    // One try: ends the exchange. Without a refusal the machine knows the code, which stays in
    // force until used() is called.
    Proved prove(base::TimePoint now, const std::string& session, std::string_view confirmation);
    // The machine that proved itself was let in: the code is used up.
    void used(const std::string& name);

    // How long the pause still is.
    base::Duration pause_left(base::TimePoint now) const;
    int tries_left() const { return tries_left_; }

  private:
    struct Exchange {
        std::string name;
        net::PakeSession session;
        base::TimePoint began;
    };
    Refusal check_code(base::TimePoint now);
    void make_code(base::TimePoint now);
    void end_code();
    void wrong_try(base::TimePoint now);
    void clean(base::TimePoint now);
    Look look_now(base::TimePoint now) const;

    std::string about_;
    bool on_ = false;
    std::string code_;  // 8 digits; "" = none is shown
    base::TimePoint until_;
    int tries_left_ = 0;
    int wrong_tries_ = 0;
    std::string let_in_;
    bool expired_ = false;
    base::Duration pause_;  // the last one
    base::TimePoint paused_at_;
    std::map<std::string, Exchange> exchanges_;  // by the session's name
};

const char* to_string(Pairing::State state);

// What every exchange is for; both sides must say the same.
inline constexpr const char* kPairingChannel = "helix pairing 1";

// Eight digits as people read them: "1234 5678".
std::string shown_code(const std::string& code);
// The code that somebody typed, without blanks and dashes; nothing when these are not 8 digits.
std::optional<std::string> typed_code(std::string_view text);

// Pairing, and how those are let in who prove that they know the code.
struct PairingDesk {
    PairingDesk(
        std::string key,
        std::function<base::Status(const std::string& name, const std::string& public_key)> let)
        : public_key(key), let_in(std::move(let)), pairing(std::move(key)) {}

    std::string public_key;  // the coordinator's
    std::function<base::Status(const std::string& name, const std::string& public_key)> let_in;
    Pairing pairing;
};

}  // namespace helix::api
