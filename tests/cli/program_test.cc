// What the program says about itself, and how it ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/completion_script.h"
#include "cli/man_page.h"
#include "own_folder.h"

namespace helix::cli::program_test {
namespace {

using ::testing::HasSubstr;

struct Ended {
    int code = 0;
    std::string out;
    std::string error;
};

Ended helix(std::vector<const char*> words) {
    words.insert(words.begin(), "helix");
    Ended ended;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    ended.code = run(static_cast<int>(words.size()), words.data());
    ended.out = ::testing::internal::GetCapturedStdout();
    ended.error = ::testing::internal::GetCapturedStderr();
    return ended;
}

TEST(Program, EndsWithTwoWhereTheCommandLineIsWrong) {
    const Ended flag = helix({"machines", "--jsn"});
    EXPECT_EQ(flag.code, 2);
    EXPECT_EQ(flag.error,
              "helix: --jsn is not expected (did you mean \"--json\"?); 'helix machines --help' "
              "says what there is\n");
    EXPECT_EQ(helix({"key", "new", "more"}).code, 2);
    EXPECT_EQ(helix({"bench", "--concurrency", "x"}).code, 2);
    EXPECT_EQ(helix({"nod"}).code, 2);
    EXPECT_EQ(helix({"--log-level", "loud", "machines"}).code, 2);
    EXPECT_THAT(helix({"--log-format", "yaml", "machines"}).error,
                HasSubstr("--log-format: 'yaml' is neither text nor json"));
    EXPECT_EQ(helix({"machines", "--config", "/nowhere.toml"}).code, 2);
    EXPECT_EQ(helix({"machines", "--config"}).code, 2);
    EXPECT_EQ(helix({"plan", "/nowhere.toml"}).code, 2) << "without --model";
}

TEST(Program, EndsWithOneWhereItFailed) {
    EXPECT_EQ(helix({"model", "info", "/nowhere.gguf"}).code, 1);
}

TEST(Program, HelpIsWhatTheFlagSays) {
    for (const std::vector<const char*>& command :
         {std::vector<const char*>{}, {"serve"}, {"key", "new"}}) {
        std::vector<const char*> by_flag = command;
        by_flag.push_back("--help");
        std::vector<const char*> by_word = command;
        by_word.insert(by_word.begin(), "help");
        const Ended help = helix(by_word);
        EXPECT_EQ(help.code, 0);
        EXPECT_EQ(help.out, helix(by_flag).out);
        EXPECT_FALSE(help.out.empty());
    }
    EXPECT_EQ(helix({"help", "serv"}).error,
              "helix: there is no command 'serv' (did you mean \"serve\"?)\n");
}

TEST(Program, SaysItsVersionWithTheCommit) {
    EXPECT_THAT(helix({"--version"}).out,
                testing::MatchesRegex("helix [0-9.]+ \\(commit [^ ]+\\)\n"));
}

using ProgramFile = OwnFolder;

TEST_F(ProgramFile, ChecksAFileAndFindsValuesThatDoNotFit) {
    const std::string path = folder_ + "/helix.toml";
    std::ofstream(path) << "[bench]\nconcurrency = 8\n[key.new]\nworker = 'den'\n";
    const Ended good = helix({"config", "check", path.c_str()});
    EXPECT_EQ(good.code, 0) << good.error;
    EXPECT_THAT(good.out, HasSubstr("1 option of \"helix bench\", all known"));
    EXPECT_THAT(good.out, HasSubstr("1 option of \"helix key new\", all known"));
    std::ofstream(path) << "[bench]\nconcurrency = 'many'\n";
    const Ended bad = helix({"config", "check", path.c_str()});
    EXPECT_EQ(bad.code, 1);
    EXPECT_THAT(bad.error, HasSubstr(path + ": Could not convert: --concurrency = many"));
}

using CompletionScript = OwnFolder;

// Runs a command; its standard output.
std::string output_of(const std::string& command) {
    std::string out;
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return "popen failed";
    char piece[4096];
    for (std::size_t n = 0; (n = std::fread(piece, 1, sizeof piece, pipe)) > 0;)
        out.append(piece, n);
    ::pclose(pipe);
    return out;
}

TEST_F(CompletionScript, OfBashOffersCommandsAndFlags) {
    App app;
    add_commands(app);
    const std::string path = folder_ + "/helix.bash";
    std::ofstream(path) << *completion_script(app.parser, "bash");
    const auto completed = [&](const std::string& words, int last) {
        return output_of("bash -c 'source " + path + "; COMP_WORDS=(" + words + "); COMP_CWORD=" +
                         std::to_string(last) + "; _helix; echo ${COMPREPLY[@]}'");
    };
    EXPECT_EQ(completed("helix mod", 1), "model\n");
    EXPECT_EQ(completed("helix model in", 2), "info\n");
    EXPECT_EQ(completed("helix serve --clus", 2), "--cluster-listen\n");
    EXPECT_EQ(completed("helix key new --w", 3), "--worker\n");
    EXPECT_EQ(completed("helix serve --model mod", 3), "\n");  // a file: bash completes it
}

// Where a shell is installed it reads its script.
TEST_F(CompletionScript, IsAScriptOfItsShell) {
    App app;
    add_commands(app);
    for (const std::string shell : {"bash", "zsh", "fish"}) {
        const auto script = completion_script(app.parser, shell);
        ASSERT_TRUE(script.ok());
        EXPECT_THAT(*script, HasSubstr("cluster-listen"));
        const std::string path = folder_ + "/helix." + shell;
        std::ofstream(path) << *script;
        EXPECT_EQ(output_of("if command -v " + shell + " >/dev/null; then " + shell + " -n " +
                            path + " 2>&1; fi"),
                  "")
            << shell;
    }
    EXPECT_FALSE(completion_script(app.parser, "csh").ok());
}

TEST(ManPage, OfEveryCommandHasItsOptionsAndNoOrdersOfItsText) {
    App app;
    add_commands(app);
    std::vector<const CLI::App*> commands{&app.parser};
    for (const CLI::App* command : app.parser.get_subcommands({})) commands.push_back(command);
    for (const CLI::App* command : commands) {
        const std::string page = man_page(app.parser, *command);
        EXPECT_THAT(page, HasSubstr(".TH HELIX"));
        for (const CLI::Option* option : command->get_options()) {
            for (std::string name : option->get_lnames()) {
                for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) {
                    name.insert(at, "\\");
                }
                EXPECT_THAT(page, HasSubstr("\\-\\-" + name)) << command->get_name();
            }
        }
        std::istringstream lines(page);
        for (std::string line; std::getline(lines, line);) {
            if (!line.starts_with(".")) continue;
            EXPECT_THAT(line, testing::MatchesRegex("\\.(TH|SH|SS|TP|B|BR|nf|fi)( .*)?"));
        }
    }
}

}  // namespace
}  // namespace helix::cli::program_test
