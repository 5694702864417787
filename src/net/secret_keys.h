#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/private_file.h"

// The keys that clients of the HTTP port send ("Authorization: Bearer KEY"). They are kept as
// hashes, and are looked up in a time that does not depend on how much of a key is right.

namespace helix::net {

// A secret without the secret: BLAKE2b of 256 bits.
using SecretHash = std::array<std::uint8_t, 32>;
SecretHash hash_secret(std::string_view secret);
// A secret that nobody guesses: 256 bits from the operating system, as 64 hexadecimal digits.
std::string random_secret();

// A word with a value that may stand behind a key in a file, as in "NAME KEY name=one".
struct KeyChoice {
    std::string name;
    std::vector<std::string> values;  // that it can have
};

struct SecretSources {
    std::vector<std::string> keys;  // as they are
    // Files with one "KEY" or "NAME KEY" a line, where "#" begins a comment. They are read anew
    // when they change.
    std::vector<std::string> files;
    // Names of numbers that may stand behind a key in a file, as in "NAME KEY number=5".
    std::vector<std::string> numbers = {};
    std::vector<KeyChoice> choices = {};
};

// A key that was found.
struct FoundKey {
    // What logs call it: its name, or "key-" and the beginning of its hash.
    std::string label;
    std::vector<std::pair<std::string, std::int64_t>> numbers;  // that stand behind it
    std::vector<std::pair<std::string, std::string>> choices;   // the same
};

class SecretKeys {
  public:
    // Error invalid or denied, with what to do about it: a file holds no key, is not there, or may
    // be written by others.
    static base::Result<SecretKeys> load(SecretSources sources);
    // Has no keys, so none are asked for.
    SecretKeys() = default;

    // Whether keys are asked for at all. This stays as it is when a file loses its last key.
    bool configured() const { return !sources_.keys.empty() || !sources_.files.empty(); }
    // The key that was given; nothing when it is none of ours.
    std::optional<FoundKey> find(std::string_view given) const;
    std::optional<FoundKey> find(const SecretHash& hash) const;
    // Reads files anew that have changed and stand still since the last call. A file that cannot be
    // used any more keeps the keys that it had; the error is returned once for each change.
    base::Status refresh();

  private:
    struct Key {
        FoundKey found;
        SecretHash hash;
    };
    struct File {
        FileWatch watch;
        std::vector<Key> keys;
    };
    static base::Result<Key> make_key(std::string_view name, std::string_view secret);
    // The error says what was expected, and never shows what stands in the line.
    static base::Result<Key> read_line(std::vector<std::string> words,
                                       const SecretSources& sources);
    static base::Result<std::vector<Key>> read_file(const std::string& path,
                                                    const SecretSources& sources);

    SecretSources sources_;
    std::vector<Key> given_;
    std::vector<File> files_;
};

}  // namespace helix::net
