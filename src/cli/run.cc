#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "base/escape.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/help_text.h"
#include "cli/pull_line.h"

namespace helix::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  helix serve --model llama.gguf                      one machine, nothing to configure\n"
    "  helix worker --join 192.0.2.7:8080 --key den.key    adds this machine to a cluster\n"
    "  helix plan office.toml --model llama3-8b            which layers would go where\n"
    "  helix pull Qwen/Qwen3-8B-GGUF:Q4_K_M                a model from a hub\n"
    "  helix model info llama.gguf                         what a model file holds\n"
    "  helix bench --concurrency 8                         load on a server, measured\n"
    "  helix key new                                       keys for machines on a network\n"
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

int report(const base::Status& status) {
    if (status.ok()) return 0;
    // What files and servers said may be in it.
    std::fprintf(stderr, "helix: %s\n", base::escaped_lines(status.error().message).c_str());
    return 1;
}

}  // namespace

int run(int argc, const char* const* argv) {
    App app;
    std::string level = "info";
    app.parser.set_version_flag("--version", std::string("helix ") + base::kVersion);
    app.parser.add_option("--log-level", level, "debug, info, warn, error or off")
        ->envname("HELIX_LOG");
    app.parser.require_subcommand(1);
    app.parser.fallthrough();
    app.parser.formatter(help_format());
    add_serve(app);
    add_worker(app);
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
    add_node(app);
    app.parser.footer(kExamples);  // after the commands, which would take it over
    if (argc < 2) {
        std::fputs(app.parser.help().c_str(), stdout);
        return 0;
    }
    if (const std::string unknown = unknown_command(app.parser, argv[1]); !unknown.empty()) {
        return report(base::invalid(unknown + "; 'helix --help' lists what there is"));
    }
    try {
        app.parser.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.parser.exit(error);
    }
    const base::Status levels = set_level(level);
    if (!levels.ok()) return report(levels);
    for (std::string* model : app.models) {
        if (const base::Status found = resolve_model(*model); !found.ok()) return report(found);
    }
    return report(app.action());
}

}  // namespace helix::cli
