#include "net/secret_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/file.h"
#include "base/temp_folder.h"
#include "net/private_file.h"

namespace helix::net::secret_keys_test {
namespace {

class SecretKeysTest : public ::testing::Test {
  protected:
    std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
    std::string file(const std::string& text) const {
        EXPECT_TRUE(replace_private(path("keys"), text).ok());
        return path("keys");
    }
    TempFolder folder_;
};

TEST_F(SecretKeysTest, KeysAreFoundByWhatTheyAreAndLogsNameThemWithoutShowingThem) {
    const std::string keys = file("# who may come\nops  correct-horse\n\nbattery-staple\n");
    const auto secrets = SecretKeys::load({{"given"}, {keys}});
    ASSERT_TRUE(secrets.ok()) << secrets.error().message;
    EXPECT_TRUE(secrets->configured());
    EXPECT_EQ(secrets->find("correct-horse")->label, "ops");
    const auto found = secrets->find("battery-staple");
    ASSERT_TRUE(found);
    const std::string* label = &found->label;
    EXPECT_TRUE(label->starts_with("key-")) << *label;
    EXPECT_EQ(label->find("battery"), std::string::npos);
    EXPECT_TRUE(secrets->find("given"));
    for (const char* wrong : {"", "ops", "give", "given2", "correct-hors", "# who may come"}) {
        EXPECT_FALSE(secrets->find(wrong)) << wrong;
    }
    EXPECT_FALSE(SecretKeys().configured());
    EXPECT_FALSE(SecretKeys().find(""));
}

TEST_F(SecretKeysTest, NumbersMayStandBehindAKeyOfAFile) {
    const auto load = [this](const std::string& text) {
        return SecretKeys::load({{}, {file(text)}, {"pace", "at_once"}});
    };
    const auto secrets = load("ops horse at_once=4 pace=60\nbattery pace=7\nstaple\nc3RhcGxl==\n");
    ASSERT_TRUE(secrets.ok()) << secrets.error().message;
    using Numbers = std::vector<std::pair<std::string, std::int64_t>>;
    EXPECT_EQ(secrets->find("horse")->label, "ops");
    EXPECT_EQ(secrets->find("horse")->numbers, (Numbers{{"pace", 60}, {"at_once", 4}}));
    EXPECT_EQ(secrets->find("battery")->numbers, (Numbers{{"pace", 7}}));
    EXPECT_TRUE(secrets->find("staple")->numbers.empty());
    EXPECT_TRUE(secrets->find("c3RhcGxl==")) << "a key may have such signs itself";
    for (const char* bad : {"ops horse paec=5", "horse paec=5", "ops horse pace=0",
                            "ops horse pace=-1", "ops horse pace=1.5", "ops horse pace=100000001",
                            "ops horse pace=5 more", "ops horse pace=99999999999999999999"}) {
        const auto refused = load(bad);
        ASSERT_FALSE(refused.ok()) << bad;
        EXPECT_NE(
            refused.error().message.find(":1: expected \"KEY\" or \"NAME KEY\", and behind it "
                                         "pace=N, at_once=N (1 to 100000000)"),
            std::string::npos)
            << refused.error().message;
        EXPECT_EQ(refused.error().message.find("horse"), std::string::npos) << "it shows no key";
    }
}

TEST_F(SecretKeysTest, AChoiceMayStandBehindAKeyAndAnUnknownOneIsNamedWithFileAndLine) {
    const auto load = [this](const std::string& text) {
        return SecretKeys::load({{}, {file(text)}, {"pace"}, {{"role", {"view", "chat"}}}});
    };
    const auto secrets = load("wall horse role=view pace=3\nbattery role=chat\nstaple\nrole=x\n");
    ASSERT_TRUE(secrets.ok()) << secrets.error().message;
    using Choices = std::vector<std::pair<std::string, std::string>>;
    EXPECT_EQ(secrets->find("horse")->label, "wall");
    EXPECT_EQ(secrets->find("horse")->choices, (Choices{{"role", "view"}}));
    EXPECT_EQ(secrets->find("horse")->numbers.size(), 1U);
    EXPECT_EQ(secrets->find("battery")->choices, (Choices{{"role", "chat"}}));
    EXPECT_TRUE(secrets->find("staple")->choices.empty());
    EXPECT_TRUE(secrets->find("role=x")) << "alone it is a key as it always was";
    for (const char* bad : {"one\nops horse role=boss\n", "one\nhorse role=\n",
                            "one\nops horse role=VIEW pace=5\n"}) {
        const auto refused = load(bad);
        ASSERT_FALSE(refused.ok()) << bad;
        EXPECT_EQ(refused.error().message,
                  path("keys") + ":2: the role of a key here is view or chat");
    }
    const auto unfit = load("a b c\n");
    ASSERT_FALSE(unfit.ok());
    EXPECT_NE(unfit.error().message.find(
                  ":1: expected \"KEY\" or \"NAME KEY\", and behind it pace=N (1 to 100000000), "
                  "role=view|chat"),
              std::string::npos)
        << unfit.error().message;
}

TEST(SecretHash, ARandomSecretIsLongAndNeverTheSameAndItsHashFindsAKey) {
    const std::string one = random_secret();
    EXPECT_EQ(one.size(), 64U);
    EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(one, random_secret());
    const auto secrets = SecretKeys::load({{one}, {}});
    ASSERT_TRUE(secrets.ok());
    EXPECT_TRUE(secrets->find(hash_secret(one)));
    EXPECT_FALSE(secrets->find(hash_secret(one + "0")));
    EXPECT_FALSE(SecretKeys().find(hash_secret(one)));
}

TEST_F(SecretKeysTest, AChangedFileIsReadAnewOnceItStandsStill) {
    const std::string keys = file("old\n");
    auto secrets = SecretKeys::load({{}, {keys}});
    ASSERT_TRUE(secrets.ok());
    file("new\n");
    EXPECT_TRUE(secrets->refresh().ok());
    EXPECT_TRUE(secrets->find("old")) << "it may be half written";
    EXPECT_TRUE(secrets->refresh().ok());
    EXPECT_FALSE(secrets->find("old"));
    EXPECT_TRUE(secrets->find("new"));
    file("");
    EXPECT_TRUE(secrets->refresh().ok());
    EXPECT_TRUE(secrets->refresh().ok());
    EXPECT_FALSE(secrets->find("new"));
    EXPECT_TRUE(secrets->configured()) << "an empty file lets nobody in, rather than everybody";
}

TEST_F(SecretKeysTest, AFileThatCannotBeUsedAnyMoreKeepsTheKeysThatItHad) {
    const std::string keys = file("old\n");
    auto secrets = SecretKeys::load({{}, {keys}});
    ASSERT_TRUE(secrets.ok());
    ASSERT_EQ(::chmod(keys.c_str(), 0666), 0);
    EXPECT_TRUE(secrets->refresh().ok());
    const auto refused = secrets->refresh();
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("chmod go-w"), std::string::npos);
    EXPECT_TRUE(secrets->refresh().ok()) << "said once";
    EXPECT_TRUE(secrets->find("old"));
}

TEST_F(SecretKeysTest, FilesThatHelpNobodyAreRefusedAtTheStart) {
    EXPECT_FALSE(SecretKeys::load({{}, {path("absent")}}).ok());
    EXPECT_FALSE(SecretKeys::load({{}, {file("# nothing\n")}}).ok());
    EXPECT_FALSE(SecretKeys::load({{}, {file("a b c\n")}}).ok());
    EXPECT_FALSE(SecretKeys::load({{}, {file("na\x1bme secret\n")}}).ok());
    EXPECT_FALSE(SecretKeys::load({{""}, {}}).ok());
    EXPECT_FALSE(SecretKeys::load({{"with blank"}, {}}).ok());
    ASSERT_EQ(::chmod(file("secret\n").c_str(), 0620), 0);
    const auto writable = SecretKeys::load({{}, {path("keys")}});
    ASSERT_FALSE(writable.ok());
    EXPECT_NE(writable.error().message.find("chmod go-w " + path("keys")), std::string::npos);
}

TEST_F(SecretKeysTest, WhatWeCreateIsOursAloneWhateverTheUmask) {
    for (const mode_t mask : {mode_t{0}, mode_t{0777}}) {
        const mode_t before = ::umask(mask);
        const std::string folder = path("folder" + std::to_string(mask));
        const bool made = base::make_private_folder(folder).ok() &&
                          create_private(folder + "/a", "x").ok() &&
                          replace_private(folder + "/b", "x").ok();
        ::umask(before);
        ASSERT_TRUE(made);
        const auto mode = [](const std::string& what) {
            struct stat info = {};
            EXPECT_EQ(::stat(what.c_str(), &info), 0) << what;
            return info.st_mode & 0777U;
        };
        EXPECT_EQ(mode(folder), 0700U);
        EXPECT_EQ(mode(folder + "/a"), 0600U);
        EXPECT_EQ(mode(folder + "/b"), 0600U);
    }
}

}  // namespace
}  // namespace helix::net::secret_keys_test
