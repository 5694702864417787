#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// CPace, a key exchange by a short password (draft-irtf-cfrg-cpace), with the suite
// CPACE-RISTR255-SHA512 between an initiator and a responder, and its key confirmation. Who listens
// learns nothing of the password, and who takes part can try one password with each exchange.

namespace helix::net {

using PakePoint = std::array<std::uint8_t, 32>;   // of ristretto255, encoded
using PakeScalar = std::array<std::uint8_t, 32>;  // little-endian
using PakeKey = std::array<std::uint8_t, 64>;     // the draft's ISK

// What both sides must know alike.
struct PakeInputs {
    std::string password;
    std::string channel;  // what the exchange is for; the draft's CI
    std::string session;  // different in each exchange; the draft's sid
};

// What one side sends, and is held to. It is no secret.
struct PakeMessage {
    PakePoint share = {};
    std::string about;  // who sends it; the draft's AD
};

// The steps of the draft, one by one.
std::string pake_generator_string(const PakeInputs& inputs);
PakePoint pake_generator(const PakeInputs& inputs);
PakeScalar random_pake_scalar();
// Nothing when the point is no element of the group, or the product is the neutral element.
std::optional<PakePoint> pake_multiply(const PakeScalar& scalar, const PakePoint& point);
PakeKey pake_key(const std::string& session, const PakePoint& secret, const PakeMessage& initiator,
                 const PakeMessage& responder);

enum class PakeRole { initiator, responder };

// What the two have in common when both knew the password. Until the other side's confirmation is
// checked nothing says that they do.
class PakeSession {
  public:
    static constexpr std::size_t kConfirmationBytes = 64;

    PakeSession(PakeRole role, const std::string& session, const PakeMessage& initiator,
                const PakeMessage& responder, const PakePoint& secret);

    // What proves to the other side that we have the key.
    const std::string& confirmation() const { return ours_; }
    // Whether this proves that the other side has it. Takes the same time whatever is wrong.
    bool confirms(std::string_view theirs) const;
    // Encrypts a text so that only the other side reads it and notices changes.
    std::string seal(std::string_view text) const;
    // Nothing when this is not what the other side has sealed.
    std::optional<std::string> open(std::string_view sealed) const;

  private:
    std::string ours_;
    std::string theirs_;
    std::array<std::uint8_t, 32> seals_ = {};
    std::array<std::uint8_t, 32> opens_ = {};
};

// One side of one exchange.
class PakeParty {
  public:
    PakeParty(PakeRole role, PakeInputs inputs, std::string about);

    const PakeMessage& message() const { return message_; }
    // Nothing when what came is no share.
    std::optional<PakeSession> accept(const PakeMessage& theirs) const;

  private:
    PakeRole role_;
    std::string session_;
    PakeScalar scalar_;
    PakeMessage message_;
};

// A point as hexadecimal digits, and back; nothing when these are not one.
std::string to_hex(const PakePoint& point);
std::optional<PakePoint> point_from_hex(std::string_view digits);
// A session's name that nobody has used before: 16 bytes.
std::string random_pake_session();

}  // namespace helix::net
