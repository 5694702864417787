#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "net/key.h"

namespace helix::net::zmq_key_test {
namespace {

namespace fs = std::filesystem;

class KeyFiles : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "helix-key-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
    }
    void TearDown() override { fs::remove_all(dir_); }
    std::string path(const char* name) const { return (dir_ / name).string(); }

    fs::path dir_;
};

TEST_F(KeyFiles, AWorkersKeyNamesItsCoordinatorAndIsOnItsList) {
    const auto coordinator = new_coordinator_key(path("c.key"));
    ASSERT_TRUE(coordinator.ok()) << coordinator.error().message;
    const auto worker = new_worker_key(path("c.key"), "den", path("den.key"));
    ASSERT_TRUE(worker.ok()) << worker.error().message;
    const auto read = read_worker_key(path("den.key"));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->name, "den");
    EXPECT_EQ(read->coordinator_public_key, coordinator->pair.public_key);
    EXPECT_EQ(read->pair.secret_key, worker->pair.secret_key);
    const auto list = read_allow_list(coordinator->allow_path);
    ASSERT_TRUE(list.ok());
    ASSERT_EQ(list->size(), 1U);
    EXPECT_EQ((*list)[0].name, "den");
    EXPECT_EQ((*list)[0].public_key, read->pair.public_key);
    struct stat info = {};
    ASSERT_EQ(::stat(path("den.key").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

// A key that is handed on as text is on the list, and no file of it stays here.
TEST_F(KeyFiles, AKeyIsListedWithoutAFileOfIt) {
    const auto coordinator = new_coordinator_key(path("c.key"));
    ASSERT_TRUE(coordinator.ok()) << coordinator.error().message;
    const auto listed = list_new_worker(path("c.key"), "den");
    ASSERT_TRUE(listed.ok()) << listed.error().message;
    for (const auto& entry : fs::directory_iterator(dir_)) {
        EXPECT_TRUE(entry.path().filename().string().starts_with("c.key")) << entry.path();
    }
    const auto list = read_allow_list(coordinator->allow_path);
    ASSERT_TRUE(list.ok());
    ASSERT_EQ(list->size(), 1U);
    EXPECT_EQ((*list)[0].public_key, listed->pair.public_key);
    std::ofstream(path("moved.key")) << key_file_text(*listed);
    ASSERT_EQ(::chmod(path("moved.key").c_str(), 0600), 0);
    const auto read = read_worker_key(path("moved.key"));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->name, "den");
    EXPECT_EQ(read->pair.secret_key, listed->pair.secret_key);
    EXPECT_EQ(read->coordinator_public_key, coordinator->pair.public_key);
    EXPECT_FALSE(list_new_worker(path("c.key"), "den").ok()) << "once";
}

TEST_F(KeyFiles, NothingIsOverwritten) {
    ASSERT_TRUE(new_coordinator_key(path("c.key")).ok());
    EXPECT_FALSE(new_coordinator_key(path("c.key")).ok());
    ASSERT_TRUE(new_worker_key(path("c.key"), "den", path("den.key")).ok());
    EXPECT_FALSE(new_worker_key(path("c.key"), "den", path("other.key")).ok());
    EXPECT_FALSE(new_worker_key(path("c.key"), "attic", path("den.key")).ok());
    EXPECT_FALSE(new_worker_key(path("c.key"), "two words", path("two.key")).ok());
}

TEST_F(KeyFiles, BadFilesAreErrorsThatNameThem) {
    ASSERT_TRUE(new_coordinator_key(path("c.key")).ok());
    const auto wrong_kind = read_worker_key(path("c.key"));
    ASSERT_FALSE(wrong_kind.ok());
    EXPECT_NE(wrong_kind.error().message.find("c.key"), std::string::npos);
    ASSERT_EQ(::chmod(path("c.key").c_str(), 0644), 0);
    const auto open = read_coordinator_key(path("c.key"));
    ASSERT_FALSE(open.ok());
    EXPECT_NE(open.error().message.find("chmod 600"), std::string::npos);
    EXPECT_FALSE(read_coordinator_key(path("absent.key")).ok());
    std::ofstream(path("list")) << "den notakey\n";
    const auto list = read_allow_list(path("list"));
    ASSERT_FALSE(list.ok());
    EXPECT_NE(list.error().message.find(":1:"), std::string::npos);
    const auto absent = read_allow_list(path("no-list"));
    ASSERT_TRUE(absent.ok());
    EXPECT_TRUE(absent->empty());
}

TEST_F(KeyFiles, WhatOthersMayWriteIsRefusedWithTheCommandThatMendsIt) {
    ASSERT_TRUE(new_coordinator_key(path("c.key")).ok());
    ASSERT_TRUE(new_worker_key(path("c.key"), "den", path("den.key")).ok());
    const std::string list = path("c.key.allow");
    for (const mode_t mode : {mode_t{0620}, mode_t{0602}, mode_t{0666}}) {
        ASSERT_EQ(::chmod(list.c_str(), mode), 0);
        const auto refused = read_allow_list(list);
        ASSERT_FALSE(refused.ok()) << mode;
        EXPECT_NE(refused.error().message.find("chmod go-w " + list), std::string::npos)
            << refused.error().message;
    }
    ASSERT_EQ(::chmod(list.c_str(), 0644), 0);
    EXPECT_TRUE(read_allow_list(list).ok()) << "names and public keys are no secret";
    ASSERT_EQ(::chmod(dir_.c_str(), 0777), 0);
    const auto open_folder = read_allow_list(list);
    ASSERT_FALSE(open_folder.ok());
    EXPECT_NE(open_folder.error().message.find("chmod o-w " + dir_.string()), std::string::npos);
    EXPECT_FALSE(read_coordinator_key(path("c.key")).ok());
    EXPECT_FALSE(read_worker_key(path("den.key")).ok());
}

TEST_F(KeyFiles, ARevokedWorkerIsOffTheListAndTheOthersStay) {
    ASSERT_TRUE(new_coordinator_key(path("c.key")).ok());
    const std::string list = path("c.key.allow");
    ASSERT_TRUE(new_worker_key(path("c.key"), "den", path("den.key")).ok());
    ASSERT_TRUE(new_worker_key(path("c.key"), "attic", path("attic.key")).ok());
    ASSERT_TRUE(revoke_worker_key(path("c.key"), "den").ok());
    const auto left = read_allow_list(list);
    ASSERT_TRUE(left.ok());
    ASSERT_EQ(left->size(), 1U);
    EXPECT_EQ((*left)[0].name, "attic");
    EXPECT_FALSE(revoke_worker_key(path("c.key"), "den").ok()) << "it is not there any more";
    EXPECT_TRUE(new_worker_key(path("c.key"), "den", path("den2.key")).ok());
}

TEST_F(KeyFiles, AKeyIsOneWorkers) {
    const KeyPair pair = make_key_pair();
    std::ofstream(path("list")) << "den " << pair.public_key << "\nattic " << pair.public_key
                                << "\n";
    const auto list = read_allow_list(path("list"));
    ASSERT_FALSE(list.ok());
    EXPECT_NE(list.error().message.find("den and attic"), std::string::npos);
}

TEST_F(KeyFiles, AKeyMayBeForAllNamesWithOneBeginning) {
    ASSERT_TRUE(new_coordinator_key(path("c.key")).ok());
    ASSERT_TRUE(new_worker_key(path("c.key"), "cloud-*", path("cloud.key")).ok());
    EXPECT_EQ(read_worker_key(path("cloud.key"))->name, "cloud-*");
    EXPECT_EQ((*read_allow_list(path("c.key.allow")))[0].name, "cloud-*");
    EXPECT_TRUE(is_key_for("cloud-*", "cloud-7"));
    for (const char* other : {"cloud-", "cloud", "den", "xcloud-7", "cloud-7 8", "cloud-*"}) {
        EXPECT_FALSE(is_key_for("cloud-*", other)) << other;
    }
    EXPECT_TRUE(is_key_for("den", "den"));
    EXPECT_FALSE(is_key_for("den", "denn"));
    EXPECT_FALSE(is_key_for("", "den"));
    EXPECT_FALSE(is_key_for("", ""));
    for (const char* bad : {"*", "a*b", "a b*", "**"}) {
        EXPECT_FALSE(check_key_name(bad).ok()) << bad;
    }
}

TEST_F(KeyFiles, KeysAndTheListAreOursAloneWhateverTheUmask) {
    const mode_t before = ::umask(0);
    const bool made = new_coordinator_key(path("c.key")).ok() &&
                      new_worker_key(path("c.key"), "den", path("den.key")).ok();
    ::umask(before);
    ASSERT_TRUE(made);
    for (const char* name : {"c.key", "den.key", "c.key.allow"}) {
        struct stat info = {};
        ASSERT_EQ(::stat(path(name).c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777U, 0600U) << name;
    }
}

TEST_F(KeyFiles, AKeyThatTheWorkerMadeIsListedUnderAFreeNameAndOnce) {
    const auto coordinator = new_coordinator_key(path("c.key"));
    ASSERT_TRUE(coordinator.ok());
    const std::string den = make_key_pair().public_key;
    ASSERT_TRUE(list_worker(path("c.key"), "den", den).ok());
    const std::string other = make_key_pair().public_key;
    const auto clash = list_worker(path("c.key"), "den", other);
    ASSERT_FALSE(clash.ok());
    EXPECT_NE(clash.error().message.find("helix key revoke den"), std::string::npos);
    EXPECT_EQ(clash.error().message.find(dir_.string()), std::string::npos)
        << "strangers are not told paths";
    EXPECT_FALSE(list_worker(path("c.key"), "attic", den).ok()) << "a key is one worker's";
    EXPECT_FALSE(list_worker(path("c.key"), "attic", coordinator->pair.public_key).ok());
    for (const char* name : {"", "a b", "x*", "x\ny", "../x"}) {
        EXPECT_FALSE(list_worker(path("c.key"), name, other).ok()) << name;
    }
    for (const std::string& key : {std::string(), other + "x", other.substr(1), "\n" + other}) {
        EXPECT_FALSE(list_worker(path("c.key"), "attic", key).ok()) << key;
    }
    const auto list = read_allow_list(coordinator->allow_path);
    ASSERT_TRUE(list.ok());
    ASSERT_EQ(list->size(), 1U);
    EXPECT_EQ(list->front().public_key, den);
}

TEST(KeyFingerprint, HasSixteenDigitsThatTellKeysApart) {
    const std::string one = make_key_pair().public_key;
    EXPECT_EQ(key_fingerprint(one).size(), 16U);
    EXPECT_EQ(key_fingerprint(one), key_fingerprint(one));
    EXPECT_NE(key_fingerprint(one), key_fingerprint(make_key_pair().public_key));
}

TEST(KeyNeeded, OnlyOnAddressesThatOtherMachinesReach) {
    for (const char* host : {"127.0.0.1", "127.3.4.5", "localhost", "::1"}) {
        EXPECT_TRUE(check_key_needed(host, false, false).ok()) << host;
    }
    for (const char* host : {"0.0.0.0", "*", "192.0.2.7", "example.org"}) {
        const auto status = check_key_needed(host, false, false);
        ASSERT_FALSE(status.ok()) << host;
        EXPECT_NE(status.error().message.find("helix key new"), std::string::npos);
        EXPECT_TRUE(check_key_needed(host, true, false).ok());
        EXPECT_TRUE(check_key_needed(host, false, true).ok());
    }
}

}  // namespace
}  // namespace helix::net::zmq_key_test
