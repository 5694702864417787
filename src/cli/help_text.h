#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace helix::cli {

// text with line ends in place of blanks so that no line is wider than width, where words allow it.
// Line ends that are there stay.
std::string wrapped(const std::string& text, std::size_t width);

// Help that fits a terminal of 100 columns.
std::shared_ptr<CLI::FormatterBase> help_format();

// The options that are added to the command while it lives stand under this heading, in its help
// and its manual page.
class OptionHeading {
  public:
    OptionHeading(CLI::App& command, const std::string& heading);
    ~OptionHeading();
    OptionHeading(const OptionHeading&) = delete;
    OptionHeading& operator=(const OptionHeading&) = delete;

  private:
    CLI::App& command_;
    std::string before_;
};

// Its name with those of the commands above it: "helix model info".
std::string full_name(const CLI::App& command);

// What to say of a word that is neither an option nor a subcommand of app, with what is meant most
// likely; empty: it is one.
std::string unknown_command(const CLI::App& app, const std::string& word);

}  // namespace helix::cli
