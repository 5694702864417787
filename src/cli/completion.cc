// helix completion bash|zsh|fish

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/completion_script.h"

namespace helix::cli {

void add_completion(App& app) {
    CLI::App* completion =
        app.parser.add_subcommand("completion", "A script with which a shell completes commands");
    auto shell = std::make_shared<std::string>();
    completion->add_option("shell", *shell, "bash, zsh or fish")->required();
    completion->footer(
        "Examples:\n"
        "  source <(helix completion bash)\n"
        "  helix completion bash > /etc/bash_completion.d/helix\n"
        "  helix completion zsh > ~/.zfunc/_helix\n"
        "  helix completion fish > ~/.config/fish/completions/helix.fish");
    completion->callback([&app, shell] {
        app.action = [&app, shell]() -> base::Status {
            TRY(const std::string script, completion_script(app.parser, *shell));
            std::fputs(script.c_str(), stdout);
            return base::Ok{};
        };
    });
}

}  // namespace helix::cli
