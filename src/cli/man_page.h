#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace helix::cli {

// The manual page of a command, and of those below it that have none of their own, in roff for
// man(1). The page of the program itself names its commands' pages.
std::string man_page(const CLI::App& program, const CLI::App& command);

}  // namespace helix::cli
