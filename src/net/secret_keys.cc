#include "net/secret_keys.h"

#include <sodium.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::net {

using base::Result;
using base::Status;

namespace {

constexpr std::size_t kMostKeyBytes = 512;
constexpr std::size_t kMostNameBytes = 64;

bool is_printable(std::string_view text, std::size_t most) {
    if (text.empty() || text.size() > most) return false;
    for (const char c : text) {
        if (c <= ' ' || c > '~') return false;
    }
    return true;
}

}  // namespace

SecretKeys::Hash SecretKeys::hash_of(std::string_view text) {
    Hash hash = {};
    static_assert(sizeof(Hash) == crypto_generichash_BYTES);
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    CHECK(crypto_generichash(hash.data(), hash.size(), bytes, text.size(), nullptr, 0) == 0);
    return hash;
}

Result<SecretKeys::Key> SecretKeys::make_key(std::string_view name, std::string_view secret) {
    if (!is_printable(secret, kMostKeyBytes)) {
        return base::invalid(fmt::format(
            "a key must have 1 to {} letters, digits or signs, without blanks", kMostKeyBytes));
    }
    Key key;
    key.hash = hash_of(secret);
    key.label = name;
    if (name.empty()) {
        key.label = fmt::format("key-{:02x}{:02x}{:02x}{:02x}", key.hash[0], key.hash[1],
                                key.hash[2], key.hash[3]);
    }
    return key;
}

Result<std::vector<SecretKeys::Key>> SecretKeys::read_file(const std::string& path) {
    TRY_VOID(check_only_ours(path));
    std::ifstream file(path);
    if (!file) return base::Error{base::Errc::io, path + ": cannot read it"};
    std::vector<Key> keys;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line);
        std::string name;
        std::string secret;
        std::string more;
        if (!(words >> name) || name.front() == '#') continue;
        if (!(words >> secret)) std::swap(name, secret);
        const bool good = !(words >> more) && (name.empty() || is_printable(name, kMostNameBytes));
        auto key = make_key(name, secret);
        if (!good || !key.ok()) {
            return base::invalid(
                fmt::format("{}:{}: expected \"KEY\" or \"NAME KEY\"", path, number));
        }
        keys.push_back(std::move(key).value());
    }
    return keys;
}

Result<SecretKeys> SecretKeys::load(SecretSources sources) {
    CHECK(sodium_init() >= 0);
    SecretKeys all;
    for (const std::string& secret : sources.keys) {
        TRY(Key key, make_key("", secret));
        all.given_.push_back(std::move(key));
    }
    for (const std::string& path : sources.files) {
        File file{FileWatch(path), {}};
        TRY(file.keys, read_file(path));
        if (file.keys.empty()) {
            return base::invalid(fmt::format("{} holds no key: write one a line", path));
        }
        all.files_.push_back(std::move(file));
    }
    all.sources_ = std::move(sources);
    return all;
}

std::optional<std::string> SecretKeys::find(std::string_view given) const {
    if (!configured()) return {};
    const Hash hash = hash_of(given);
    const Key* found = nullptr;
    const auto look = [&](const std::vector<Key>& keys) {
        for (const Key& key : keys) {
            if (sodium_memcmp(key.hash.data(), hash.data(), hash.size()) == 0) found = &key;
        }
    };
    look(given_);
    for (const File& file : files_) look(file.keys);
    if (found == nullptr) return {};
    return found->label;
}

Status SecretKeys::refresh() {
    for (File& file : files_) {
        if (!file.watch.changed()) continue;
        TRY(file.keys, read_file(file.watch.path()));
    }
    return base::Ok{};
}

}  // namespace helix::net
