#include "net/pake.h"

#include <sodium.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hex.h"

namespace helix::net {
namespace {

constexpr std::string_view kGroup = "CPaceRistretto255";
constexpr std::string_view kKeyLabel = "CPaceRistretto255_ISK";
constexpr std::string_view kMacLabel = "CPaceMac";
constexpr std::size_t kHashBlockBytes = 128;  // of SHA-512
// Ours, for the two keys that texts are sealed with.
constexpr std::string_view kInitiatorSeals = "helix seal of the initiator";
constexpr std::string_view kResponderSeals = "helix seal of the responder";

static_assert(std::tuple_size_v<PakePoint> == crypto_core_ristretto255_BYTES);
static_assert(std::tuple_size_v<PakeScalar> == crypto_core_ristretto255_SCALARBYTES);
static_assert(std::tuple_size_v<PakeKey> == crypto_hash_sha512_BYTES);
static_assert(crypto_core_ristretto255_HASHBYTES == crypto_hash_sha512_BYTES);
static_assert(PakeSession::kConfirmationBytes == crypto_auth_hmacsha512_BYTES);

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

template <std::size_t kSize>
std::string_view text_of(const std::array<std::uint8_t, kSize>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The text behind its length, which is written in LEB128.
std::string with_length(std::string_view text) {
    std::string out;
    std::size_t length = text.size();
    for (; length >= 128; length >>= 7U) out += static_cast<char>(128U | (length & 127U));
    out += static_cast<char>(length);
    return out.append(text);
}

std::string joined(const PakeMessage& message) {
    return with_length(text_of(message.share)) + with_length(message.about);
}

PakeKey sha512(const std::string& text) {
    PakeKey hash = {};
    CHECK(crypto_hash_sha512(hash.data(), bytes_of(text), text.size()) == 0);
    return hash;
}

std::string mac(const PakeKey& key, const std::string& text) {
    std::array<std::uint8_t, PakeSession::kConfirmationBytes> tag = {};
    crypto_auth_hmacsha512_state state;
    CHECK(crypto_auth_hmacsha512_init(&state, key.data(), key.size()) == 0);
    CHECK(crypto_auth_hmacsha512_update(&state, bytes_of(text), text.size()) == 0);
    CHECK(crypto_auth_hmacsha512_final(&state, tag.data()) == 0);
    return std::string(text_of(tag));
}

std::array<std::uint8_t, 32> sealing_key(const PakeKey& key, std::string_view label) {
    std::array<std::uint8_t, crypto_secretbox_KEYBYTES> out = {};
    CHECK(crypto_generichash(out.data(), out.size(), bytes_of(label), label.size(), key.data(),
                             key.size()) == 0);
    return out;
}

}  // namespace

std::string pake_generator_string(const PakeInputs& inputs) {
    const std::string begin = with_length(kGroup) + with_length(inputs.password);
    // The password fills a block of the hash, so that its length cannot be told by the time taken.
    const std::size_t taken = begin.size() + 1;
    const std::size_t padding = kHashBlockBytes > taken ? kHashBlockBytes - taken : 0;
    return begin + with_length(std::string(padding, '\0')) + with_length(inputs.channel) +
           with_length(inputs.session);
}

PakePoint pake_generator(const PakeInputs& inputs) {
    const PakeKey hash = sha512(pake_generator_string(inputs));
    PakePoint point = {};
    CHECK(crypto_core_ristretto255_from_hash(point.data(), hash.data()) == 0);
    return point;
}

PakeScalar random_pake_scalar() {
    CHECK(sodium_init() >= 0);
    PakeScalar scalar = {};
    crypto_core_ristretto255_scalar_random(scalar.data());
    return scalar;
}

std::optional<PakePoint> pake_multiply(const PakeScalar& scalar, const PakePoint& point) {
    PakePoint product = {};
    if (crypto_scalarmult_ristretto255(product.data(), scalar.data(), point.data()) != 0) return {};
    return product;
}

PakeKey pake_key(const std::string& session, const PakePoint& secret, const PakeMessage& initiator,
                 const PakeMessage& responder) {
    return sha512(with_length(kKeyLabel) + with_length(session) + with_length(text_of(secret)) +
                  joined(initiator) + joined(responder));
}

PakeSession::PakeSession(PakeRole role, const std::string& session, const PakeMessage& initiator,
                         const PakeMessage& responder, const PakePoint& secret) {
    PakeKey key = pake_key(session, secret, initiator, responder);
    PakeKey mac_key = sha512(std::string(kMacLabel) + session + std::string(text_of(key)));
    ours_ = mac(mac_key, joined(initiator));
    theirs_ = mac(mac_key, joined(responder));
    seals_ = sealing_key(key, kInitiatorSeals);
    opens_ = sealing_key(key, kResponderSeals);
    if (role == PakeRole::responder) {
        std::swap(ours_, theirs_);
        std::swap(seals_, opens_);
    }
    sodium_memzero(key.data(), key.size());
    sodium_memzero(mac_key.data(), mac_key.size());
}

bool PakeSession::confirms(std::string_view theirs) const {
    return theirs.size() == theirs_.size() &&
           sodium_memcmp(theirs.data(), theirs_.data(), theirs_.size()) == 0;
}

std::string PakeSession::seal(std::string_view text) const {
    std::array<std::uint8_t, crypto_secretbox_NONCEBYTES> nonce = {};
    randombytes_buf(nonce.data(), nonce.size());
    std::string box(crypto_secretbox_MACBYTES + text.size(), '\0');
    CHECK(crypto_secretbox_easy(reinterpret_cast<unsigned char*>(box.data()), bytes_of(text),
                                text.size(), nonce.data(), seals_.data()) == 0);
    return std::string(text_of(nonce)) + box;
}

std::optional<std::string> PakeSession::open(std::string_view sealed) const {
    constexpr std::size_t kOverhead = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
    if (sealed.size() < kOverhead) return {};
    std::string text(sealed.size() - kOverhead, '\0');
    const std::string_view box = sealed.substr(crypto_secretbox_NONCEBYTES);
    if (crypto_secretbox_open_easy(reinterpret_cast<unsigned char*>(text.data()), bytes_of(box),
                                   box.size(), bytes_of(sealed), opens_.data()) != 0) {
        return {};
    }
    return text;
}

PakeParty::PakeParty(PakeRole role, PakeInputs inputs, std::string about)
    : role_(role), session_(std::move(inputs.session)), scalar_(random_pake_scalar()) {
    inputs.session = session_;
    const auto share = pake_multiply(scalar_, pake_generator(inputs));
    CHECK(share.has_value());
    message_ = {*share, std::move(about)};
}

std::optional<PakeSession> PakeParty::accept(const PakeMessage& theirs) const {
    const auto secret = pake_multiply(scalar_, theirs.share);
    if (!secret) return {};
    const bool first = role_ == PakeRole::initiator;
    return PakeSession(role_, session_, first ? message_ : theirs, first ? theirs : message_,
                       *secret);
}

std::optional<PakePoint> point_from_hex(std::string_view digits) {
    PakePoint point = {};
    const auto bytes = base::from_hex(digits, point.size());
    if (!bytes) return {};
    std::copy(bytes->begin(), bytes->end(), point.begin());
    return point;
}

std::string to_hex(const PakePoint& point) {
    return base::to_hex(text_of(point));
}

std::string random_pake_session() {
    CHECK(sodium_init() >= 0);
    std::array<std::uint8_t, 16> bytes = {};
    randombytes_buf(bytes.data(), bytes.size());
    return std::string(text_of(bytes));
}

}  // namespace helix::net
