#include "cli/help_text.h"

#include <algorithm>

#include "spec/near_names.h"

namespace helix::cli {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kColumn = 30;  // where descriptions begin

class HelpFormat final : public CLI::Formatter {
  public:
    HelpFormat() { column_width(kColumn); }

    std::string make_option_desc(const CLI::Option* option) const override {
        return wrapped(CLI::Formatter::make_option_desc(option), kWidth - kColumn);
    }
    std::string make_description(const CLI::App* app) const override {
        return wrapped(CLI::Formatter::make_description(app), kWidth);
    }
    std::string make_subcommand(const CLI::App* sub) const override {
        std::string out = "  " + sub->get_name();
        out.resize(std::max(out.size() + 1, kColumn), ' ');
        for (const char c : wrapped(sub->get_description(), kWidth - kColumn)) {
            out += c;
            if (c == '\n') out.append(kColumn, ' ');
        }
        return out + "\n";
    }
};

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
    std::string out;
    std::size_t line = 0;  // where the line began in out
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
        const std::size_t word = end - at;
        if (out.size() > line && out.back() == ' ' && out.size() - line + word > width) {
            out.back() = '\n';
            line = out.size();
        }
        out.append(text, at, word);
        if (end < text.size()) out += text[end];
        if (end < text.size() && text[end] == '\n') line = out.size();
        at = end + 1;
    }
    return out;
}

std::shared_ptr<CLI::FormatterBase> help_format() {
    return std::make_shared<HelpFormat>();
}

OptionHeading::OptionHeading(CLI::App& command, const std::string& heading)
    : command_(command), before_(command.option_defaults()->get_group()) {
    command.option_defaults()->group(heading);
}

OptionHeading::~OptionHeading() {
    command_.option_defaults()->group(before_);
}

std::string full_name(const CLI::App& command) {
    const CLI::App* above = command.get_parent();
    return (above == nullptr ? "" : full_name(*above) + " ") + command.get_name();
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    const bool known = std::find(names.begin(), names.end(), word) != names.end();
    if (known || word.starts_with('-')) return "";
    return "there is no command '" + word + "'" + spec::did_you_mean(word, names);
}

}  // namespace helix::cli
