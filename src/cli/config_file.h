#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"

// A file with options in place of a long command line, in TOML:
//
//     log-level = "warn"          # an option of helix itself
//     [serve]                     # what follows are options of `helix serve`
//     model = "/srv/llama.gguf"
//     served-model-name = ["llama", "default"]
//     no-prefix-cache = true
//
// Keys are the names of the flags without the dashes in front. The command line counts more than
// the environment, and that more than the file.

namespace helix::cli {

// Whether a file may set this option: not what asks for help, and not the file's own name.
bool may_be_set(const CLI::Option& option);

// What a file sets for one option.
struct ConfigSetting {
    std::vector<std::string> command;  // below helix; empty: of helix itself
    const CLI::Option* option = nullptr;
    std::string key;  // as the file has it: an option may have several names
    std::vector<std::string> values;
    std::int64_t line = 0;
};

struct ConfigFile {
    std::string name;
    std::vector<ConfigSetting> settings;  // in the order of the file's tables

    // What it sets for this option; null when it does not.
    const ConfigSetting* find(const CLI::Option* option) const;
};

// Reads the text of a file against the options of the program. Error invalid with file, line and
// what is meant most likely: a key, a table or a value that no command takes.
base::Result<ConfigFile> parse_config(const CLI::App& program, std::string_view text,
                                      const std::string& name);
base::Result<ConfigFile> read_config(const CLI::App& program, const std::string& path);

// The file that the words of a command line name with --config, which is taken out of them; else
// the one in HELIX_CONFIG; empty when none is named. Error invalid: --config without a file.
base::Result<std::string> take_config_name(std::vector<std::string>& words);

// The command that the words of a command line name.
const CLI::App* command_of(const CLI::App& program, const std::vector<std::string>& words);

// The words with those of the file's settings that are for their command, or for helix itself, and
// that neither the words nor the environment set.
std::vector<std::string> with_config(const CLI::App& program, const ConfigFile& file,
                                     std::vector<std::string> words);

}  // namespace helix::cli
