#include "hub/digest.h"

#include <openssl/evp.h>

#include <array>

#include <fmt/format.h>

#include "base/check.h"
#include "base/hex.h"

namespace helix::hub {
namespace {

EVP_MD_CTX* context_of(const std::shared_ptr<void>& state) {
    return static_cast<EVP_MD_CTX*>(state.get());
}

}  // namespace

Digest::Digest(const void* algorithm)
    : state_(EVP_MD_CTX_new(),
             [](void* state) { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state)); }) {
    CHECK(state_ != nullptr);
    CHECK(EVP_DigestInit_ex(context_of(state_), static_cast<const EVP_MD*>(algorithm), nullptr) ==
          1);
}

Digest Digest::sha256() {
    return Digest(EVP_sha256());
}

Digest Digest::git_blob(std::uint64_t bytes) {
    Digest digest(EVP_sha1());
    std::string head = fmt::format("blob {}", bytes);
    head.push_back('\0');
    digest.add(std::as_bytes(std::span(head)));
    return digest;
}

void Digest::add(std::span<const std::byte> bytes) {
    CHECK(EVP_DigestUpdate(context_of(state_), bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw = {};
    unsigned size = 0;
    CHECK(EVP_DigestFinal_ex(context_of(state_), raw.data(), &size) == 1);
    return base::to_hex(std::as_bytes(std::span(raw)).first(size));
}

}  // namespace helix::hub
