#include "cli/completion_script.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace helix::cli {
namespace {

// A command, and what may follow it.
struct Completed {
    std::vector<std::string> path;  // below the program
    std::vector<const CLI::App*> commands;
    std::vector<const CLI::Option*> options;
};

void collect(const CLI::App& app, const std::vector<std::string>& path,
             std::vector<Completed>& out) {
    Completed here{path, {}, {}};
    for (const CLI::App* command : app.get_subcommands({})) here.commands.push_back(command);
    for (const CLI::Option* option : app.get_options()) {
        if (!option->get_lnames().empty()) here.options.push_back(option);
    }
    out.push_back(here);
    for (const CLI::App* command : here.commands) {
        std::vector<std::string> below = path;
        below.push_back(command->get_name());
        collect(*command, below, out);
    }
}

// In single quotes, for any of the shells; a description has one line here.
std::string in_quotes(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') {
            out += "’";
        } else {
            out += c == '\n' || c == '\\' ? ' ' : c;
        }
    }
    return out + "'";
}

std::string joined(const std::vector<std::string>& path) {
    return fmt::format("{}", fmt::join(path, " "));
}

// The cases of a shell's `case` that follow the path of commands, for bash and zsh.
std::string path_cases(const std::vector<Completed>& all) {
    std::vector<std::string> steps;
    for (const Completed& one : all) {
        for (const CLI::App* command : one.commands) {
            steps.push_back(fmt::format("'{} {}'", joined(one.path), command->get_name()));
        }
    }
    return fmt::format("            {})\n                at=\"${{at:+$at }}$word\" ;;\n",
                       fmt::join(steps, "|"));
}

std::string bash_script(const std::vector<Completed>& all) {
    std::string out =
        "# helix completion bash\n"
        "_helix() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} at='' word commands='' flags=''\n"
        "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
        "        case \"$at $word\" in\n" +
        path_cases(all) +
        "        esac\n"
        "    done\n"
        "    case \"$at\" in\n";
    for (const Completed& one : all) {
        std::vector<std::string> commands;
        std::vector<std::string> flags;
        for (const CLI::App* command : one.commands) commands.push_back(command->get_name());
        for (const CLI::Option* option : one.options) {
            for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
        }
        out += fmt::format("        '{}')\n            commands='{}'\n            flags='{}' ;;\n",
                           joined(one.path), fmt::join(commands, " "), fmt::join(flags, " "));
    }
    return out +
           "    esac\n"
           "    if [[ $cur == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n"
           "    fi\n"
           "}\n"
           "complete -o default -F _helix helix\n";
}

std::string zsh_script(const std::vector<Completed>& all) {
    std::string out =
        "#compdef helix\n"
        "# helix completion zsh\n"
        "_helix() {\n"
        "    local at='' word\n"
        "    local -a commands flags\n"
        "    for word in \"${words[@]:1:$((CURRENT - 2))}\"; do\n"
        "        case \"$at $word\" in\n" +
        path_cases(all) +
        "        esac\n"
        "    done\n"
        "    case \"$at\" in\n";
    const auto described = [](const std::string& name, const std::string& text) {
        return in_quotes(name + ":" + text.substr(0, text.find('\n')));
    };
    for (const Completed& one : all) {
        std::vector<std::string> commands;
        std::vector<std::string> flags;
        for (const CLI::App* command : one.commands) {
            commands.push_back(described(command->get_name(), command->get_description()));
        }
        for (const CLI::Option* option : one.options) {
            for (const std::string& name : option->get_lnames()) {
                flags.push_back(described("--" + name, option->get_description()));
            }
        }
        out += fmt::format("        '{}')\n            commands=({})\n            flags=({}) ;;\n",
                           joined(one.path), fmt::join(commands, " "), fmt::join(flags, " "));
    }
    return out +
           "    esac\n"
           "    if [[ ${words[CURRENT]} == -* ]]; then\n"
           "        _describe flag flags\n"
           "    elif (( ${#commands} )); then\n"
           "        _describe command commands\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "if [[ $funcstack[1] == _helix ]]; then _helix \"$@\"; else compdef _helix helix; fi\n";
}

// The condition under which fish completes what follows a command.
std::string fish_condition(const Completed& one) {
    if (one.path.empty()) return "__fish_use_subcommand";
    std::vector<std::string> seen;
    for (const std::string& word : one.path) {
        seen.push_back("__fish_seen_subcommand_from " + word);
    }
    if (!one.commands.empty()) {
        std::vector<std::string> below;
        for (const CLI::App* command : one.commands) below.push_back(command->get_name());
        seen.push_back(fmt::format("not __fish_seen_subcommand_from {}", fmt::join(below, " ")));
    }
    return fmt::format("{}", fmt::join(seen, "; and "));
}

std::string fish_script(const std::vector<Completed>& all) {
    std::string out = "# helix completion fish\n";
    for (const Completed& one : all) {
        const std::string condition = fish_condition(one);
        for (const CLI::App* command : one.commands) {
            out += fmt::format("complete -c helix -n '{}' -f -a {} -d {}\n", condition,
                               command->get_name(), in_quotes(command->get_description()));
        }
        for (const CLI::Option* option : one.options) {
            for (const std::string& name : option->get_lnames()) {
                out += fmt::format("complete -c helix -n '{}' -l {}{} -d {}\n", condition, name,
                                   option->get_expected_max() == 0 ? "" : " -r",
                                   in_quotes(option->get_description()));
            }
        }
    }
    return out;
}

}  // namespace

base::Result<std::string> completion_script(const CLI::App& program, const std::string& shell) {
    std::vector<Completed> all;
    collect(program, {}, all);
    if (shell == "bash") return bash_script(all);
    if (shell == "zsh") return zsh_script(all);
    if (shell == "fish") return fish_script(all);
    return base::invalid("'" + shell + "' is none of bash, zsh, fish");
}

}  // namespace helix::cli
