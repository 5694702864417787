#include "cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/config_text.h"

namespace helix::cli::config_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Named {
    std::string listen = "127.0.0.1:1";
    std::vector<std::string> keys;
    int threads = 3;
    bool quiet = false;
    bool partial = true;
    std::string level;
};

// A program with a command, one below another, and every kind of option.
class ConfigFileTest : public testing::Test {
  public:
    ConfigFileTest() {
        program_.add_option("--level", set_.level, "how much it says")
            ->envname("CONFIG_TEST_LEVEL");
        program_.fallthrough();
        CLI::App* serve = program_.add_subcommand("serve", "serves");
        serve->add_option("--listen,--address", set_.listen, "where\nin two lines")
            ->capture_default_str();
        serve->add_option("--key", set_.keys, "keys");
        serve->add_option("-t,--threads", set_.threads, "how many")->capture_default_str();
        serve->add_flag("--quiet", set_.quiet, "says less");
        serve->add_flag("--partial,!--no-partial", set_.partial, "also parts");
        CLI::App* model = program_.add_subcommand("model", "models");
        model->add_subcommand("info", "one")->add_option("--name", name_, "its name");
    }

    // The complaint about a file, or what it sets as "command key values line".
    std::string read(const std::string& text) {
        const auto file = parse_config(program_, text, "f.toml");
        if (!file.ok()) return file.error().message;
        std::string out;
        for (const ConfigSetting& setting : file->settings) {
            for (const std::string& word : setting.command) out += word + " ";
            out += setting.key;
            for (const std::string& value : setting.values) out += " " + value;
            out += " @" + std::to_string(setting.line) + "; ";
        }
        return out;
    }

    // What the program understands of a file and words.
    const Named& parse(const std::string& text, const std::vector<std::string>& words) {
        const auto file = parse_config(program_, text, "f.toml");
        EXPECT_TRUE(file.ok()) << file.error().message;
        std::vector<std::string> all = with_config(program_, *file, words);
        program_.parse(std::vector<std::string>(all.rbegin(), all.rend()));
        return set_;
    }

    CLI::App program_{"a program", "helix"};
    Named set_;
    std::string name_;
};

TEST_F(ConfigFileTest, SetsOptionsOfCommandsByTheirFlags) {
    const Named& set = parse(
        "level = 'low'\n[serve]\naddress = '0.0.0.0:2'\nkey = ['a b', 'c']\nthreads = 7\n"
        "quiet = true\npartial = false\n[model.info]\nname = 'x'\n",
        {"serve"});
    EXPECT_EQ(set.level, "low");
    EXPECT_EQ(set.listen, "0.0.0.0:2");
    EXPECT_THAT(set.keys, ElementsAre("a b", "c"));
    EXPECT_EQ(set.threads, 7);
    EXPECT_TRUE(set.quiet);
    EXPECT_FALSE(set.partial);
    EXPECT_EQ(name_, "");  // another command's
}

TEST_F(ConfigFileTest, ANegativeFlagMeansWhatItSays) {
    EXPECT_FALSE(parse("[serve]\nno-partial = true\n", {"serve"}).partial);
}

TEST_F(ConfigFileTest, TheCommandLineCountsMore) {
    const std::string text = "level = 'low'\n[serve]\nlisten = 'f:1'\nkey = ['f']\nthreads = 7\n";
    const Named& set =
        parse(text, {"--level=high", "serve", "--address", "c:1", "--key=c", "-t", "2"});
    EXPECT_EQ(set.level, "high");
    EXPECT_EQ(set.listen, "c:1");
    EXPECT_THAT(set.keys, ElementsAre("c"));
    EXPECT_EQ(set.threads, 2);
}

TEST_F(ConfigFileTest, TheEnvironmentCountsMore) {
    ::setenv("CONFIG_TEST_LEVEL", "high", 1);
    EXPECT_EQ(parse("level = 'low'\n", {"serve"}).level, "high");
    ::unsetenv("CONFIG_TEST_LEVEL");
}

TEST_F(ConfigFileTest, OptionsOfTheFileStayBeforeWhatIsNoOption) {
    const auto file = parse_config(program_, "[serve]\nthreads = 7\n", "f.toml");
    EXPECT_THAT(with_config(program_, *file, {"serve", "--", "--threads"}),
                ElementsAre("serve", "--threads=7", "--", "--threads"));
}

TEST_F(ConfigFileTest, ErrorsNameFileLineAndWhatIsMeant) {
    EXPECT_EQ(read("\n[serve]\nthreds = 1\n"),
              "f.toml:3: \"helix serve\" has no option \"threds\" (did you mean \"threads\"?)");
    EXPECT_EQ(read("[serv]\nthreads = 1\n"),
              "f.toml:1: there is no command \"helix serv\" (did you mean \"serve\"?)");
    EXPECT_EQ(read("[model.inf]\nname = 'a'\n"),
              "f.toml:1: there is no command \"helix model inf\" (did you mean \"info\"?)");
    EXPECT_EQ(read("serve = 1\n"), "f.toml:1: serve is a command: write [serve]");
    EXPECT_EQ(read("[level]\na = 1\n"), "f.toml:1: level is no table");
    EXPECT_EQ(read("[serve]\nquiet = 'yes'\n"), "f.toml:2: quiet: expected true or false");
    EXPECT_EQ(read("[serve]\nlisten = ['a', 'b']\n"), "f.toml:2: listen takes one value");
    EXPECT_EQ(read("[serve]\nlisten = true\n"), "f.toml:2: listen: expected text or a number");
    EXPECT_EQ(read("[serve]\nkey = [1979-05-27]\n"), "f.toml:2: key: expected text or a number");
    EXPECT_EQ(read("[serve]\nhelp = true\n"), "f.toml:2: \"helix serve\" has no option \"help\"");
    EXPECT_THAT(read("[serve]\nthreads = \n"), HasSubstr("f.toml:2: is not TOML: "));
}

TEST_F(ConfigFileTest, TheFilesNameIsTakenOutOfTheWords) {
    std::vector<std::string> words{"serve", "--config", "a.toml", "--quiet"};
    EXPECT_EQ(*take_config_name(words), "a.toml");
    EXPECT_THAT(words, ElementsAre("serve", "--quiet"));
    words = {"--config=b.toml", "serve"};
    EXPECT_EQ(*take_config_name(words), "b.toml");
    EXPECT_THAT(words, ElementsAre("serve"));
    words = {"serve", "--config"};
    EXPECT_FALSE(take_config_name(words).ok());
    words = {"serve"};
    ::setenv("HELIX_CONFIG", "e.toml", 1);
    EXPECT_EQ(*take_config_name(words), "e.toml");
    ::unsetenv("HELIX_CONFIG");
    EXPECT_EQ(*take_config_name(words), "");
}

TEST_F(ConfigFileTest, WhatIsShownIsAFileThatSetsTheSame) {
    const std::string text =
        "level = \"lo\\\"w\"\n[serve]\nkey = ['a', 'b\\c']\nthreads = 7\nquiet = true\n";
    const auto file = parse_config(program_, text, "f.toml");
    ASSERT_TRUE(file.ok());
    const std::string shown = config_text(program_, *program_.get_subcommand("serve"), *file);
    const auto again = parse_config(program_, shown, "g.toml");
    ASSERT_TRUE(again.ok()) << again.error().message << "\n" << shown;
    ASSERT_EQ(again->settings.size(), 4U);
    for (const ConfigSetting& setting : again->settings) {
        const ConfigSetting* before = file->find(setting.option);
        ASSERT_NE(before, nullptr) << setting.key;
        EXPECT_EQ(setting.values, before->values);
    }
    EXPECT_THAT(shown, HasSubstr("# where\n# in two lines\n# listen = '127.0.0.1:1'\n"));
    EXPECT_THAT(shown, HasSubstr("threads = 7    # f.toml:4\n"));
}

// Every command of the program can be written as a file that the program takes.
TEST(ConfigText, OfEveryCommandIsAFile) {
    App app;
    add_commands(app);
    for (const CLI::App* command : app.parser.get_subcommands({})) {
        const std::string shown = config_text(app.parser, *command, {});
        const auto file = parse_config(app.parser, shown, "shown");
        ASSERT_TRUE(file.ok()) << command->get_name() << ": " << file.error().message;
        EXPECT_TRUE(file->settings.empty());
    }
}

}  // namespace
}  // namespace helix::cli::config_file_test
