#include "net/secret_keys.h"

#include <sodium.h>

#include <algorithm>
#include <charconv>
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
constexpr std::int64_t kMostNumber = 100'000'000;

bool is_printable(std::string_view text, std::size_t most) {
    if (text.empty() || text.size() > most) return false;
    for (const char c : text) {
        if (c <= ' ' || c > '~') return false;
    }
    return true;
}

// Whether this is a word and a number, and no key that happens to have a "=".
bool looks_like_number(std::string_view text) {
    const std::size_t equals = text.find('=');
    return equals != std::string_view::npos && equals > 0 &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == equals &&
           text.find_first_not_of("=-0123456789.", equals) == std::string_view::npos &&
           !text.ends_with('=');
}

Result<std::pair<std::string, std::int64_t>> read_number(const std::string& text,
                                                         const std::vector<std::string>& names) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + equals + 1, end, value);
    const bool good = read.ec == std::errc() && read.ptr == end && value >= 1 &&
                      value <= kMostNumber &&
                      std::find(names.begin(), names.end(), name) != names.end();
    if (!good) return base::invalid("");
    return std::pair(name, value);
}

std::vector<std::string> as_shown(std::vector<std::string> names) {
    for (std::string& name : names) name += "=N";
    return names;
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
    key.found.label = name;
    if (name.empty()) {
        key.found.label = fmt::format("key-{:02x}{:02x}{:02x}{:02x}", key.hash[0], key.hash[1],
                                      key.hash[2], key.hash[3]);
    }
    return key;
}

Result<SecretKeys::Key> SecretKeys::read_line(std::vector<std::string> words,
                                              const std::vector<std::string>& numbers) {
    FoundKey found;
    while (!numbers.empty() && words.size() > 1 && looks_like_number(words.back())) {
        TRY(auto number, read_number(words.back(), numbers));
        found.numbers.push_back(std::move(number));
        words.pop_back();
    }
    const std::string name = words.size() > 1 ? words.front() : "";
    const bool good = words.size() <= 2 && (name.empty() || is_printable(name, kMostNameBytes));
    if (!good) return base::invalid("");
    TRY(Key key, make_key(name, words.back()));
    key.found.numbers = std::move(found.numbers);
    return key;
}

Result<std::vector<SecretKeys::Key>> SecretKeys::read_file(
    const std::string& path, const std::vector<std::string>& numbers) {
    TRY_VOID(check_only_ours(path));
    std::ifstream file(path);
    if (!file) return base::Error{base::Errc::io, path + ": cannot read it"};
    std::vector<Key> keys;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line);
        std::vector<std::string> all;
        for (std::string word; words >> word;) all.push_back(std::move(word));
        if (all.empty() || all.front().front() == '#') continue;
        auto key = read_line(std::move(all), numbers);
        if (!key.ok()) {
            return base::invalid(fmt::format(
                "{}:{}: expected \"KEY\" or \"NAME KEY\"{}", path, number,
                numbers.empty() ? std::string()
                                : fmt::format(", and behind it {} (1 to {})",
                                              fmt::join(as_shown(numbers), ", "), kMostNumber)));
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
        TRY(file.keys, read_file(path, sources.numbers));
        if (file.keys.empty()) {
            return base::invalid(fmt::format("{} holds no key: write one a line", path));
        }
        all.files_.push_back(std::move(file));
    }
    all.sources_ = std::move(sources);
    return all;
}

std::optional<FoundKey> SecretKeys::find(std::string_view given) const {
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
    return found->found;
}

Status SecretKeys::refresh() {
    for (File& file : files_) {
        if (!file.watch.changed()) continue;
        TRY(file.keys, read_file(file.watch.path(), sources_.numbers));
    }
    return base::Ok{};
}

}  // namespace helix::net
