#include "cli/help_text.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace helix::cli::help_text_test {
namespace {

TEST(HelpText, IsWrappedBetweenWords) {
    EXPECT_EQ(wrapped("", 10), "");
    EXPECT_EQ(wrapped("one two three", 10), "one two\nthree");
    EXPECT_EQ(wrapped("one two three", 13), "one two three");
    EXPECT_EQ(wrapped("a\nbb cc\ndd", 4), "a\nbb\ncc\ndd");
    EXPECT_EQ(wrapped("a word-that-is-longer b", 5), "a\nword-that-is-longer\nb");
}

TEST(HelpText, AMistypedCommandIsNamedWithTheOneThatIsMeant) {
    CLI::App app;
    app.add_subcommand("serve", "");
    app.add_subcommand("worker", "");
    EXPECT_EQ(unknown_command(app, "serv"), "there is no command 'serv' (did you mean \"serve\"?)");
    EXPECT_EQ(unknown_command(app, "quux"), "there is no command 'quux'");
    EXPECT_EQ(unknown_command(app, "serve"), "");
    EXPECT_EQ(unknown_command(app, "--version"), "");
}

// Prints help to standard output, as a user would see it.
std::string help_of(std::vector<const char*> words) {
    words.insert(words.begin(), "helix");
    words.push_back("--help");
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run(static_cast<int>(words.size()), words.data()), 0);
    return ::testing::internal::GetCapturedStdout();
}

TEST(HelpText, OfEveryCommandFitsAHundredColumnsAndHasExamplesOfItsOwn) {
    const std::vector<std::vector<const char*>> commands = {{},
                                                            {"serve"},
                                                            {"worker"},
                                                            {"plan"},
                                                            {"machines"},
                                                            {"devices"},
                                                            {"simulate"},
                                                            {"experiment"},
                                                            {"model"},
                                                            {"model", "info"},
                                                            {"model", "synth"},
                                                            {"trace"},
                                                            {"trace", "info"},
                                                            {"trace", "synth"},
                                                            {"profile"},
                                                            {"bench"},
                                                            {"key"},
                                                            {"key", "new"},
                                                            {"node"},
                                                            {"node", "list"},
                                                            {"node", "drain"},
                                                            {"node", "undrain"},
                                                            {"node", "remove"},
                                                            {"run"},
                                                            {"status"},
                                                            {"top"},
                                                            {"config"},
                                                            {"config", "check"},
                                                            {"config", "show"},
                                                            {"completion"},
                                                            {"man"},
                                                            {"help"}};
    for (const auto& command : commands) {
        std::string name = "helix";
        for (const char* word : command) name += std::string(" ") + word;
        const std::string help = help_of(command);
        std::istringstream lines(help);
        for (std::string line; std::getline(lines, line);) {
            EXPECT_LE(line.size(), 100U) << name << ": " << line;
        }
        const std::size_t examples = help.find("\nExample");
        ASSERT_NE(examples, std::string::npos) << name;
        EXPECT_NE(help.find("\n  " + name + " ", examples), std::string::npos) << name;
    }
}

// More options than a screen has lines stand under headings.
TEST(HelpText, ManyOptionsHaveHeadings) {
    for (const char* command : {"serve", "worker", "gateway", "plan", "simulate", "bench"}) {
        const std::string help = help_of({command});
        std::istringstream lines(help);
        int headings = 0;
        int without = 0;  // options that are under none
        bool is_options = false;
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("Examples")) break;
            if (!line.empty() && line[0] != ' ' && line.back() == ':') {
                is_options = line == "Options:";
                ++headings;
            }
            if (is_options && line.starts_with("  -")) ++without;
        }
        EXPECT_GE(headings, 4) << command << ":\n" << help;
        EXPECT_LE(without, 14) << command << ":\n" << help;
    }
}

}  // namespace
}  // namespace helix::cli::help_text_test
