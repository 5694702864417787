// helix config check|show

#include <cstdio>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/escape.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/config_text.h"
#include "cli/help_text.h"

namespace helix::cli {
namespace {

// Whether the command takes the values of these settings; a value that it wants besides may come
// from the command line.
base::Status check_values(const ConfigFile& file, const std::vector<std::string>& command) {
    App trial;
    add_commands(trial);
    std::vector<std::string> words = command;
    for (const ConfigSetting& setting : file.settings) {
        if (setting.command != command) continue;
        for (const std::string& value : setting.values) {
            words.push_back("--" + setting.key + "=" + value);
        }
    }
    try {
        trial.parser.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::RequiredError&) {
        return base::Ok{};
    } catch (const CLI::ParseError& error) {
        return base::invalid(fmt::format("{}: {}", file.name, error.what()));
    }
    return base::Ok{};
}

base::Status check_config(const CLI::App& program, const std::string& path) {
    if (path.empty()) return base::invalid("which file? Say helix config check FILE");
    TRY(const ConfigFile file, read_config(program, path));
    std::map<std::vector<std::string>, std::size_t> options;
    for (const ConfigSetting& setting : file.settings) ++options[setting.command];
    for (const auto& [command, number] : options) TRY_VOID(check_values(file, command));
    if (options.empty()) {
        std::printf("%s sets nothing.\n", base::escaped(path).c_str());
        return base::Ok{};
    }
    for (const auto& [command, number] : options) {
        std::printf(
            "%s: %zu %s of \"helix%s\", all known\n", base::escaped(path).c_str(), number,
            number == 1 ? "option" : "options",
            fmt::format("{}{}", command.empty() ? "" : " ", fmt::join(command, " ")).c_str());
    }
    return base::Ok{};
}

base::Status show_config(const CLI::App& program, const std::string& path,
                         const std::vector<std::string>& words) {
    const CLI::App* command = command_of(program, words);
    if (full_name(*command) != fmt::format("helix {}", fmt::join(words, " "))) {
        return base::invalid(
            fmt::format("there is no command \"helix {}\"; 'helix --help' lists "
                        "what there is",
                        fmt::join(words, " ")));
    }
    ConfigFile file;
    if (!path.empty()) {
        TRY(file, read_config(program, path));
    }
    std::fputs(config_text(program, *command, file).c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_config(App& app) {
    CLI::App* config = app.parser.add_subcommand(
        "config", "Files with options in place of long command lines: check one, or write one");
    config->require_subcommand(1);
    config->footer(
        "Examples:\n"
        "  helix config show serve > helix.toml    every option of it, explained, to be filled in\n"
        "  helix config check helix.toml\n"
        "  helix serve --config helix.toml");

    CLI::App* check =
        config->add_subcommand("check", "Whether the program knows all that a file sets");
    auto file = std::make_shared<std::string>();
    check->add_option("file", *file, "the file [--config, HELIX_CONFIG]");
    check->footer("Examples:\n  helix config check /etc/helix/helix.toml");
    check->callback([&app, file] {
        app.action = [&app, file] {
            return check_config(app.parser, file->empty() ? app.config_file : *file);
        };
    });

    CLI::App* show = config->add_subcommand(
        "show", "The options of a command as such a file: what --config sets, and what holds else");
    auto words = std::make_shared<std::vector<std::string>>();
    show->add_option("command", *words, "a command, like: serve, or: model info")->required();
    show->footer(
        "Examples:\n"
        "  helix config show worker\n"
        "  helix config show serve --config helix.toml    with the values that it sets, and where");
    show->callback([&app, words] {
        app.action = [&app, words] { return show_config(app.parser, app.config_file, *words); };
    });
}

}  // namespace helix::cli
