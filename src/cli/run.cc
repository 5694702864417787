#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/escape.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/build_commit.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/help_text.h"
#include "cli/pull_line.h"
#include "spec/near_names.h"

namespace helix::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  helix run Qwen/Qwen3-8B-GGUF:Q4_K_M                 pulls a model and chats with it\n"
    "  helix serve --model llama.gguf                      one machine, nothing to configure\n"
    "  helix worker --join 192.0.2.7:8080 --key den.key    adds this machine to a cluster\n"
    "  helix plan office.toml --model llama3-8b            which layers would go where\n"
    "  helix pull Qwen/Qwen3-8B-GGUF:Q4_K_M                a model from a hub\n"
    "  helix model info llama.gguf                         what a model file holds\n"
    "  helix bench --concurrency 8                         load on a server, measured\n"
    "  helix key new                                       keys for machines on a network\n"
    "\nIt ends with 0 when all went well, 1 when something failed, 2 when the command line or\n"
    "--config is wrong.\n"
    "\n'helix COMMAND --help' says more.";

base::Status set_level(const std::string& word) {
    base::LogLevel level = base::LogLevel::info;
    if (!base::parse_log_level(word, level)) {
        return base::invalid("--log-level: '" + word +
                             "' is none of debug, info, warn, error, off");
    }
    base::set_log_level(level);
    return base::Ok{};
}

// The numbers that the program ends with; kExamples says them to users.
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

void say_error(const std::string& message) {
    // What files and servers said may be in it.
    std::fprintf(stderr, "helix: %s\n", base::escaped_lines(message).c_str());
}

base::Status set_format(const std::string& word) {
    base::LogFormat format = base::LogFormat::text;
    if (!base::parse_log_format(word, format)) {
        return base::invalid("--log-format: '" + word + "' is neither text nor json");
    }
    base::set_log_format(format);
    return base::Ok{};
}

int report(const base::Status& status) {
    if (status.ok()) return 0;
    say_error(status.error().message);
    return kFailed;
}

int wrong_usage(const std::string& message) {
    say_error(message);
    return kWrongUsage;
}

// The flags that are meant by words that no command takes.
std::string unknown_words(const CLI::App& command, const std::vector<std::string>& extras) {
    std::vector<std::string> names;
    for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
        for (const CLI::Option* option : app->get_options()) {
            for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
        }
    }
    std::string out;
    for (const std::string& extra : extras) {
        const std::string flag = extra.substr(0, extra.find('='));
        if (!out.empty()) out += "; ";
        out += fmt::format("{} is not expected", extra);
        if (flag.starts_with("--")) out += spec::did_you_mean(flag, names);
    }
    return out;
}

// Help goes to standard output and is no error; everything else is one of the command line.
int end_of_parsing(const App& app, const CLI::App& command, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.parser.exit(error);
    std::string what = error.what();
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
        what = unknown_words(command, app.parser.remaining(true));
    }
    return wrong_usage(fmt::format("{}; '{} --help' says what there is", what, full_name(command)));
}

base::Result<std::vector<std::string>> configured(App& app, std::vector<std::string> words) {
    TRY(app.config_file, take_config_name(words));
    if (app.config_file.empty()) return words;
    TRY(const ConfigFile file, read_config(app.parser, app.config_file));
    return with_config(app.parser, file, std::move(words));
}

}  // namespace

void add_commands(App& app) {
    app.parser.set_version_flag(
        "--version", fmt::format("helix {} (commit {})", base::kVersion, build_commit()));
    app.parser.add_option("--log-level", app.log_level, "debug, info, warn, error or off")
        ->envname("HELIX_LOG")
        ->capture_default_str();
    app.parser
        .add_option("--log-format", app.log_format,
                    "of log lines: text, or json for machines, an object on each line")
        ->envname("HELIX_LOG_FORMAT")
        ->capture_default_str();
    app.parser.add_option("--config", app.config_file,
                          "a TOML file with options, as 'helix config show' prints one; flags "
                          "count more (Env:HELIX_CONFIG)");
    app.parser.require_subcommand(1);
    app.parser.fallthrough();
    app.parser.formatter(help_format());
    add_run(app);
    add_serve(app);
    add_worker(app);
    add_gateway(app);
    add_status(app);
    add_top(app);
    add_node(app);
    add_plan(app);
    add_machines(app);
    add_devices(app);
    add_simulate(app);
    add_experiment(app);
    add_model(app);
    add_pull(app);
    add_trace(app);
    add_profile(app);
    add_bench(app);
    add_key(app);
    add_pair(app);
    add_config(app);
    add_completion(app);
    add_man(app);
    add_help(app);
    app.parser.footer(kExamples);  // after the commands, which would take it over
}

int run(int argc, const char* const* argv) {
    App app;
    add_commands(app);
    if (argc < 2) {
        std::fputs(app.parser.help().c_str(), stdout);
        return 0;
    }
    if (const std::string unknown = unknown_command(app.parser, argv[1]); !unknown.empty()) {
        return wrong_usage(unknown + "; 'helix --help' lists what there is");
    }
    const auto words = configured(app, {argv + 1, argv + argc});
    if (!words.ok()) return wrong_usage(words.error().message);
    try {
        app.parser.parse(std::vector<std::string>(words->rbegin(),
                                                  words->rend()));  // it takes the last word first
    } catch (const CLI::ParseError& error) {
        return end_of_parsing(app, *command_of(app.parser, *words), error);
    }
    const base::Status levels = set_level(app.log_level);
    if (!levels.ok()) return wrong_usage(levels.error().message);
    const base::Status format = set_format(app.log_format);
    if (!format.ok()) return wrong_usage(format.error().message);
    for (std::string* model : app.models) {
        if (const base::Status found = resolve_model(*model); !found.ok()) return report(found);
    }
    return report(app.action());
}

}  // namespace helix::cli
