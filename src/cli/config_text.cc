#include "cli/config_text.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/help_text.h"

namespace helix::cli {
namespace {

constexpr std::size_t kCommentWidth = 98;

// A value in TOML: numbers and flags as they are, all else in quotes.
std::string toml_value(const CLI::Option& option, const std::string& value) {
    const std::string type = option.get_type_name();
    const bool bare =
        option.get_expected_max() == 0 || type == "INT" || type == "UINT" || type == "FLOAT";
    if (bare) return value;
    std::ostringstream out;
    out << toml::value<std::string>(value);
    return out.str();
}

std::string toml_values(const CLI::Option& option, const std::vector<std::string>& values) {
    if (option.get_expected_max() <= 1) return toml_value(option, values.front());
    std::vector<std::string> parts;
    for (const std::string& value : values) parts.push_back(toml_value(option, value));
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string comment(const std::string& text) {
    std::string out = "# ";
    for (const char c : wrapped(text, kCommentWidth)) {
        out += c;
        if (c == '\n') out += "# ";
    }
    return out + "\n";
}

// The line for an option that the file does not set.
std::string unset_line(const CLI::Option& option, const std::string& key) {
    const char* environment =
        option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
    if (environment != nullptr) {
        return fmt::format("# {} = {}    # {}\n", key, toml_value(option, environment),
                           option.get_envname());
    }
    if (option.get_expected_max() == 0) return fmt::format("# {} = false\n", key);
    const std::string standard = option.get_default_str();
    const bool list = option.get_expected_max() > 1;
    if (standard.empty() || standard == "[]") {
        return fmt::format("# {} = {}\n", key, list ? "[...]" : "...");
    }
    return fmt::format("# {} = {}\n", key, toml_value(option, standard));
}

std::string options_text(const CLI::App& app, const ConfigFile& file) {
    std::string out;
    for (const CLI::Option* option : app.get_options()) {
        if (!may_be_set(*option)) continue;
        const std::string& key = option->get_lnames().front();
        out += "\n" + comment(option->get_description());
        if (const ConfigSetting* setting = file.find(option); setting != nullptr) {
            out += fmt::format("{} = {}    # {}:{}\n", setting->key,
                               toml_values(*option, setting->values), file.name, setting->line);
        } else {
            out += unset_line(*option, key);
        }
    }
    return out;
}

}  // namespace

std::string config_text(const CLI::App& program, const CLI::App& command, const ConfigFile& file) {
    std::string table;  // its name: the command's without "helix"
    for (const CLI::App* app = &command; app != &program; app = app->get_parent()) {
        table = app->get_name() + (table.empty() ? "" : ".") + table;
    }
    return comment("Options of '" + full_name(command) +
                   "', to be given with --config FILE. What is a comment holds by itself.") +
           options_text(program, file) + "\n[" + table + "]\n" + options_text(command, file);
}

}  // namespace helix::cli
