#include "net/secret_keys.h"

#include <sodium.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "base/check.h"
#include "base/hex.h"

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

// What a line of a file may look like.
std::string expected_line(const SecretSources& sources) {
    std::string out = "expected \"KEY\" or \"NAME KEY\"";
    std::vector<std::string> behind = sources.numbers;
    for (std::string& name : behind) name += "=N";
    if (!behind.empty()) {
        out += fmt::format(", and behind it {} (1 to {})", fmt::join(behind, ", "), kMostNumber);
    }
    for (const KeyChoice& choice : sources.choices) {
        out += fmt::format(", {}={}", choice.name, fmt::join(choice.values, "|"));
    }
    return out;
}

Result<std::pair<std::string, std::int64_t>> read_number(const std::string& text,
                                                         const SecretSources& sources) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::vector<std::string>& names = sources.numbers;
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + equals + 1, end, value);
    const bool good = read.ec == std::errc() && read.ptr == end && value >= 1 &&
                      value <= kMostNumber &&
                      std::find(names.begin(), names.end(), name) != names.end();
    if (!good) return base::invalid(expected_line(sources));
    return std::pair(name, value);
}

// The choice that this word is of, whether its value is one or not.
const KeyChoice* choice_of(std::string_view word, const SecretSources& sources) {
    for (const KeyChoice& choice : sources.choices) {
        if (word.starts_with(choice.name) && word.substr(choice.name.size()).starts_with('=')) {
            return &choice;
        }
    }
    return nullptr;
}

Result<std::pair<std::string, std::string>> read_choice(const KeyChoice& choice,
                                                        std::string_view word) {
    std::string value(word.substr(choice.name.size() + 1));
    const auto& values = choice.values;
    if (std::find(values.begin(), values.end(), value) == values.end()) {
        return base::invalid(
            fmt::format("the {} of a key here is {}", choice.name, fmt::join(values, " or ")));
    }
    return std::pair(choice.name, std::move(value));
}

// Takes what stands behind the key off the end of the line.
Status read_words_behind(std::vector<std::string>& words, const SecretSources& sources,
                         FoundKey& found) {
    while (words.size() > 1) {
        const std::string& last = words.back();
        if (const KeyChoice* choice = choice_of(last, sources)) {
            TRY(auto chosen, read_choice(*choice, last));
            found.choices.push_back(std::move(chosen));
        } else if (!sources.numbers.empty() && looks_like_number(last)) {
            TRY(auto number, read_number(last, sources));
            found.numbers.push_back(std::move(number));
        } else {
            break;
        }
        words.pop_back();
    }
    return base::Ok{};
}

}  // namespace

SecretHash hash_secret(std::string_view secret) {
    SecretHash hash = {};
    static_assert(sizeof(SecretHash) == crypto_generichash_BYTES);
    const auto* bytes = reinterpret_cast<const unsigned char*>(secret.data());
    CHECK(crypto_generichash(hash.data(), hash.size(), bytes, secret.size(), nullptr, 0) == 0);
    return hash;
}

std::string random_secret() {
    CHECK(sodium_init() >= 0);
    std::array<unsigned char, 32> bytes = {};
    randombytes_buf(bytes.data(), bytes.size());
    return base::to_hex(std::as_bytes(std::span(bytes)));
}

Result<SecretKeys::Key> SecretKeys::make_key(std::string_view name, std::string_view secret) {
    if (!is_printable(secret, kMostKeyBytes)) {
        return base::invalid(fmt::format(
            "a key must have 1 to {} letters, digits or signs, without blanks", kMostKeyBytes));
    }
    Key key;
    key.hash = hash_secret(secret);
    key.found.label = name;
    if (name.empty()) {
        key.found.label = "key-" + base::to_hex(std::as_bytes(std::span(key.hash)).first(4));
    }
    return key;
}

Result<SecretKeys::Key> SecretKeys::read_line(std::vector<std::string> words,
                                              const SecretSources& sources) {
    FoundKey found;
    TRY_VOID(read_words_behind(words, sources, found));
    const std::string name = words.size() > 1 ? words.front() : "";
    const bool good = words.size() <= 2 && (name.empty() || is_printable(name, kMostNameBytes)) &&
                      is_printable(words.back(), kMostKeyBytes);
    if (!good) return base::invalid(expected_line(sources));
    TRY(Key key, make_key(name, words.back()));
    key.found.numbers = std::move(found.numbers);
    key.found.choices = std::move(found.choices);
    return key;
}

Result<std::vector<SecretKeys::Key>> SecretKeys::read_file(const std::string& path,
                                                           const SecretSources& sources) {
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
        auto key = read_line(std::move(all), sources);
        if (!key.ok()) {
            return base::invalid(fmt::format("{}:{}: {}", path, number, key.error().message));
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
        TRY(file.keys, read_file(path, sources));
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
    return find(hash_secret(given));
}

std::optional<FoundKey> SecretKeys::find(const SecretHash& hash) const {
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
        TRY(file.keys, read_file(file.watch.path(), sources_));
    }
    return base::Ok{};
}

}  // namespace helix::net
