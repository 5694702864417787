// helix man [COMMAND], helix help [COMMAND...]

#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/help_text.h"
#include "cli/man_page.h"

namespace helix::cli {
namespace {

base::Result<const CLI::App*> named(const App& app, const std::vector<std::string>& words) {
    const CLI::App* command = &app.parser;
    for (const std::string& word : words) {
        if (const std::string unknown = unknown_command(*command, word); !unknown.empty()) {
            return base::invalid(unknown);
        }
        command = command_of(*command, {word});
    }
    return command;
}

}  // namespace

void add_man(App& app) {
    CLI::App* man = app.parser.add_subcommand("man", "Prints a manual page, for 'man -l -'");
    auto words = std::make_shared<std::vector<std::string>>();
    man->add_option("command", *words, "a command [the program itself]");
    man->footer(
        "Examples:\n"
        "  helix man serve | man -l -\n"
        "  helix man > /usr/local/share/man/man1/helix.1");
    man->callback([&app, words] {
        app.action = [&app, words]() -> base::Status {
            TRY(const CLI::App* command, named(app, *words));
            std::fputs(man_page(app.parser, *command).c_str(), stdout);
            return base::Ok{};
        };
    });
}

void add_help(App& app) {
    CLI::App* help = app.parser.add_subcommand("help", "The same as --help: of a command, or all");
    auto words = std::make_shared<std::vector<std::string>>();
    help->add_option("command", *words, "a command, like: model info");
    help->footer("Examples:\n  helix help\n  helix help serve\n  helix help key new");
    help->callback([&app, words] {
        app.action = [&app, words]() -> base::Status {
            TRY(const CLI::App* command, named(app, *words));
            // CLI::App::help() would speak of the command that was parsed: of this one.
            const CLI::App* above = command->get_parent();
            const std::string text = command->get_formatter()->make_help(
                command, above == nullptr ? command->get_name() : full_name(*command),
                CLI::AppFormatMode::Normal);
            std::fputs(text.c_str(), stdout);
            return base::Ok{};
        };
    });
}

}  // namespace helix::cli
