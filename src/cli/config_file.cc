#include "cli/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "spec/near_names.h"

namespace helix::cli {
namespace {

constexpr std::uint64_t kMostConfigBytes = 1U << 20U;
constexpr std::string_view kConfigFlag = "--config";

const CLI::Option* find_option(const CLI::App& app, std::string_view key) {
    for (const CLI::Option* option : app.get_options()) {
        if (may_be_set(*option) && option->check_lname(std::string(key))) return option;
    }
    return nullptr;
}

const CLI::App* find_command(const CLI::App& app, std::string_view name) {
    for (const CLI::App* command : app.get_subcommands({})) {
        if (command->get_name() == name) return command;
    }
    return nullptr;
}

class ConfigReader {
  public:
    explicit ConfigReader(std::string name) { file_.name = std::move(name); }

    base::Result<ConfigFile> read(const CLI::App& program, const toml::table& root) {
        TRY_VOID(read_table(program, root, {}));
        return std::move(file_);
    }

  private:
    base::Error wrong(const toml::node& where, const std::string& what) const {
        return base::invalid(fmt::format("{}:{}: {}", file_.name, where.source().begin.line, what));
    }

    base::Status read_table(const CLI::App& app, const toml::table& table,
                            const std::vector<std::string>& path) {
        for (const auto& [key, value] : table) {
            if (value.is_table()) {
                const CLI::App* command = find_command(app, key.str());
                if (command == nullptr) return no_command(app, value, std::string(key.str()), path);
                std::vector<std::string> below = path;
                below.emplace_back(key.str());
                TRY_VOID(read_table(*command, *value.as_table(), below));
                continue;
            }
            const CLI::Option* option = find_option(app, key.str());
            if (option == nullptr) return no_key(app, value, std::string(key.str()), path);
            TRY_VOID(read_setting(*option, std::string(key.str()), value, path));
        }
        return base::Ok{};
    }

    base::Status read_setting(const CLI::Option& option, const std::string& key,
                              const toml::node& value, const std::vector<std::string>& path) {
        ConfigSetting setting{path, &option, key, {}, value.source().begin.line};
        if (option.get_expected_max() == 0) {
            const auto raised = value.value_exact<bool>();
            if (!raised) return wrong(value, key + ": expected true or false");
            setting.values.emplace_back(*raised ? "true" : "false");
        } else if (const toml::array* list = value.as_array(); list != nullptr) {
            if (option.get_expected_max() == 1) return wrong(value, key + " takes one value");
            for (const toml::node& element : *list) {
                TRY(std::string word, word_of(element, key));
                setting.values.push_back(std::move(word));
            }
        } else {
            TRY(std::string word, word_of(value, key));
            setting.values.push_back(std::move(word));
        }
        file_.settings.push_back(std::move(setting));
        return base::Ok{};
    }

    base::Result<std::string> word_of(const toml::node& value, const std::string& key) const {
        if (const auto* text = value.as_string()) return text->get();
        if (const auto* number = value.as_integer()) return std::to_string(number->get());
        if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
        return wrong(value, key + ": expected text or a number");
    }

    base::Error no_command(const CLI::App& app, const toml::node& where, const std::string& name,
                           const std::vector<std::string>& path) const {
        if (find_option(app, name) != nullptr) return wrong(where, name + " is no table");
        std::vector<std::string> names;
        for (const CLI::App* command : app.get_subcommands({})) {
            names.push_back(command->get_name());
        }
        return wrong(where,
                     fmt::format("there is no command \"helix {}{}{}\"{}", fmt::join(path, " "),
                                 path.empty() ? "" : " ", name, spec::did_you_mean(name, names)));
    }

    base::Error no_key(const CLI::App& app, const toml::node& where, const std::string& name,
                       const std::vector<std::string>& path) const {
        const std::string owner =
            fmt::format("helix{}{}", path.empty() ? "" : " ", fmt::join(path, " "));
        if (find_command(app, name) != nullptr) {
            return wrong(where, fmt::format("{} is a command: write [{}{}{}]", name,
                                            fmt::join(path, "."), path.empty() ? "" : ".", name));
        }
        std::vector<std::string> names;
        for (const CLI::Option* option : app.get_options()) {
            if (!may_be_set(*option)) continue;
            names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
        }
        return wrong(where, fmt::format("\"{}\" has no option \"{}\"{}", owner, name,
                                        spec::did_you_mean(name, names)));
    }

    ConfigFile file_;
};

// Whether the words name this option, as "--name", "--name=value" or "-n".
bool names_option(const std::vector<std::string>& words, const CLI::Option& option) {
    const auto end = std::find(words.begin(), words.end(), "--");  // what follows is no option
    return std::any_of(words.begin(), end, [&](const std::string& word) {
        if (!word.starts_with("--")) {
            return word.size() >= 2 && word[0] == '-' && option.check_sname(word.substr(1, 1));
        }
        return option.check_lname(word.substr(2, word.find('=') - 2));
    });
}

bool environment_sets(const CLI::Option& option) {
    return !option.get_envname().empty() && std::getenv(option.get_envname().c_str()) != nullptr;
}

}  // namespace

bool may_be_set(const CLI::Option& option) {
    return !option.get_lnames().empty() && !option.check_lname("help") &&
           !option.check_lname("version") && !option.check_lname("config");
}

const ConfigSetting* ConfigFile::find(const CLI::Option* option) const {
    for (const ConfigSetting& setting : settings) {
        if (setting.option == option) return &setting;
    }
    return nullptr;
}

base::Result<ConfigFile> parse_config(const CLI::App& program, std::string_view text,
                                      const std::string& name) {
    try {
        const toml::table root = toml::parse(text, name);
        return ConfigReader(name).read(program, root);
    } catch (const toml::parse_error& error) {
        return base::invalid(fmt::format("{}:{}: is not TOML: {}", name, error.source().begin.line,
                                         error.description()));
    }
}

base::Result<ConfigFile> read_config(const CLI::App& program, const std::string& path) {
    TRY(const std::string text, base::read_file(path, kMostConfigBytes));
    return parse_config(program, text, path);
}

base::Result<std::string> take_config_name(std::vector<std::string>& words) {
    for (auto word = words.begin(); word != words.end(); ++word) {
        if (word->starts_with(std::string(kConfigFlag) + "=")) {
            std::string name = word->substr(kConfigFlag.size() + 1);
            words.erase(word);
            return name;
        }
        if (*word != kConfigFlag) continue;
        if (word + 1 == words.end()) return base::invalid("--config: which file?");
        std::string name = *(word + 1);
        words.erase(word, word + 2);
        return name;
    }
    const char* named = std::getenv("HELIX_CONFIG");
    return std::string(named == nullptr ? "" : named);
}

const CLI::App* command_of(const CLI::App& program, const std::vector<std::string>& words) {
    const CLI::App* command = &program;
    for (const std::string& word : words) {
        if (const CLI::App* below = find_command(*command, word); below != nullptr) command = below;
    }
    return command;
}

std::vector<std::string> with_config(const CLI::App& program, const ConfigFile& file,
                                     std::vector<std::string> words) {
    const CLI::App* command = command_of(program, words);
    std::vector<std::string> more;
    for (const ConfigSetting& setting : file.settings) {
        const auto options = command->get_options();
        const bool of_command =
            std::find(options.begin(), options.end(), setting.option) != options.end();
        if (!of_command && !setting.command.empty()) continue;
        if (names_option(words, *setting.option) || environment_sets(*setting.option)) continue;
        for (const std::string& value : setting.values) {
            more.push_back("--" + setting.key + "=" + value);
        }
    }
    words.insert(std::find(words.begin(), words.end(), "--"), more.begin(), more.end());
    return words;
}

}  // namespace helix::cli
