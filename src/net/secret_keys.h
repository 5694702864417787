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

struct SecretSources {
    std::vector<std::string> keys;  // as they are
    // Files with one "KEY" or "NAME KEY" a line, where "#" begins a comment. They are read anew
    // when they change.
    std::vector<std::string> files;
    // Names of numbers that may stand behind a key in a file, as in "NAME KEY number=5".
    std::vector<std::string> numbers = {};
};

// A key that was found.
struct FoundKey {
    // What logs call it: its name, or "key-" and the beginning of its hash.
    std::string label;
    std::vector<std::pair<std::string, std::int64_t>> numbers;  // that stand behind it
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
    // Reads files anew that have changed and stand still since the last call. A file that cannot be
    // used any more keeps the keys that it had; the error is returned once for each change.
    base::Status refresh();

  private:
    using Hash = std::array<std::uint8_t, 32>;
    struct Key {
        FoundKey found;
        Hash hash;
    };
    struct File {
        FileWatch watch;
        std::vector<Key> keys;
    };
    static Hash hash_of(std::string_view text);
    static base::Result<Key> make_key(std::string_view name, std::string_view secret);
    static base::Result<Key> read_line(std::vector<std::string> words,
                                       const std::vector<std::string>& numbers);
    static base::Result<std::vector<Key>> read_file(const std::string& path,
                                                    const std::vector<std::string>& numbers);

    SecretSources sources_;
    std::vector<Key> given_;
    std::vector<File> files_;
};

}  // namespace helix::net
