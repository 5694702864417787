#include "cli/man_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/version.h"
#include "cli/help_text.h"

namespace helix::cli {
namespace {

// Text as roff takes it: no word of it is an order.
std::string roff(const std::string& text) {
    std::string out;
    bool line_begins = true;
    for (const char c : text) {
        if (line_begins && (c == '.' || c == '\'')) out += "\\&";
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
        line_begins = c == '\n';
    }
    return out;
}

constexpr std::string_view kNoHeading = "Options";  // CLI11's

std::string section(const std::string& title) {
    return ".SH " + title + "\n";
}

// "helix model info" is the page helix-model of section 1.
std::string page_name(const CLI::App& command) {
    std::string name = full_name(command);
    std::replace(name.begin(), name.end(), ' ', '-');
    return name;
}

std::string option_names(const CLI::Option& option) {
    std::string out;
    for (const std::string& name : option.get_lnames()) {
        out += (out.empty() ? "" : ", ") + std::string("\\fB\\-\\-") + roff(name) + "\\fR";
    }
    if (out.empty()) out = "\\fI" + roff(option.get_name(true)) + "\\fR";
    const bool flag = option.get_expected_max() == 0;
    if (!flag && !option.get_lnames().empty()) {
        out += " \\fI" + roff(option.get_type_name()) + "\\fR";
        if (option.get_expected_max() > 1) out += " ...";
    }
    return out;
}

std::string option_text(const CLI::Option& option) {
    std::string out = ".TP\n" + option_names(option) + "\n" + roff(option.get_description());
    if (option.get_required()) out += " (required)";
    if (const std::string standard = option.get_default_str();
        !standard.empty() && standard != "[]") {
        out += " [" + roff(standard) + "]";
    }
    if (!option.get_envname().empty()) {
        out += " (environment: " + roff(option.get_envname()) + ")";
    }
    return out + "\n";
}

// Under their headings, but for those of no heading of its own, which come first.
std::string options_text(const CLI::App& command) {
    std::string out;
    for (const std::string& heading : command.get_groups()) {
        if (heading != kNoHeading) out += ".SS " + roff(heading) + "\n";
        for (const CLI::Option* option : command.get_options()) {
            if (option->get_group() == heading) out += option_text(*option);
        }
    }
    return out;
}

std::string examples_text(const CLI::App& command) {
    std::string footer = command.get_footer();
    if (footer.empty()) return "";
    constexpr std::string_view kTitle = "Examples:\n";
    if (footer.starts_with(kTitle)) footer.erase(0, kTitle.size());
    return section("EXAMPLES") + ".nf\n" + roff(footer) + "\n.fi\n";
}

}  // namespace

std::string man_page(const CLI::App& program, const CLI::App& command) {
    std::string title = page_name(command);
    std::transform(title.begin(), title.end(), title.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    std::string out =
        fmt::format(".TH {} 1 \"\" \"helix {}\" \"User Commands\"\n", roff(title), base::kVersion);
    out += section("NAME") +
           fmt::format("{} \\- {}\n", roff(page_name(command)), roff(command.get_description()));
    out += section("SYNOPSIS") +
           fmt::format(".B {}\n{}[\\fIOPTIONS\\fR]\n", roff(full_name(command)),
                       command.get_subcommands({}).empty() ? "" : "\\fICOMMAND\\fR ");
    out += section("OPTIONS") + options_text(command);
    const auto commands = command.get_subcommands({});
    if (!commands.empty()) out += section("COMMANDS");
    for (const CLI::App* below : commands) {
        if (&command == &program) {
            out += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(*below)),
                               roff(below->get_description()));
        } else {
            out += fmt::format(".SS {}\n{}\n", roff(full_name(*below)),
                               roff(below->get_description())) +
                   options_text(*below);
        }
    }
    out += examples_text(command);
    if (&command != &program)
        out += section("SEE ALSO") + fmt::format(".BR {} (1)\n", program.get_name());
    return out;
}

}  // namespace helix::cli
