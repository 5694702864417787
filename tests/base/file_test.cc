#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder.h"

namespace helix::base::file_test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
  protected:
    std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }
    static unsigned mode_of(const std::string& path) {
        struct stat status = {};
        EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
        return status.st_mode & 0777U;
    }
    TempFolder folder_;
};

// Opening a pipe that nobody writes to would wait for ever; a device has no end.
TEST_F(FileTest, WhatIsNoRegularFileIsRefusedAtOnceByName) {
    const std::string pipe = path("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const std::pair<std::string, const char*> wrong[] = {
        {pipe, "is a pipe"}, {"/dev/zero", "is a device"}, {folder_.path(), "is a folder"}};
    for (const auto& [name, what] : wrong) {
        const auto read = read_file(name, 100);
        ASSERT_FALSE(read.ok());
        EXPECT_EQ(read.error().code, Errc::invalid);
        EXPECT_THAT(read.error().message, HasSubstr(name + ": " + what));
        EXPECT_FALSE(RegularFile::open(name).ok());
    }
    EXPECT_EQ(read_file(path("none"), 100).error().code, Errc::not_found);
}

TEST_F(FileTest, AFileOverTheLimitIsRefusedWithoutBeingRead) {
    const std::string file = write("big", "12345");
    EXPECT_EQ(*read_file(file, 5), "12345");
    const auto refused = read_file(file, 4);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::too_large);
    EXPECT_THAT(refused.error().message, HasSubstr("the limit is 4"));
    fs::resize_file(file, std::uintmax_t{1} << 40U);
    EXPECT_EQ(read_file(file, 1 << 20).error().code, Errc::too_large);
}

TEST_F(FileTest, FilesWhoseSizeIsNotKnownAreReadToTheirEnd) {
    EXPECT_THAT(*read_file("/proc/self/status", 1 << 20), HasSubstr("VmRSS"));
    EXPECT_EQ(*read_file(write("empty", ""), 10), "");
    const std::string long_text(300'000, 'x');
    EXPECT_EQ(*read_file(write("long", long_text), 1 << 20), long_text);
}

TEST_F(FileTest, AFoldersEntriesComeByName) {
    const fs::path folder = path("folder");
    EXPECT_TRUE(folder_entries(folder).empty());
    fs::create_directories(folder / "b" / "inner");
    for (const char* name : {"folder/c", "folder/a"}) write(name, "");
    const std::vector<fs::path> expected = {folder / "a", folder / "b", folder / "c"};
    EXPECT_EQ(folder_entries(folder), expected);
    EXPECT_TRUE(folder_entries(folder / "a").empty());
}

TEST_F(FileTest, AFileThatIsCutWhileItIsOpenGivesAnErrorThatNamesIt) {
    const std::string name = write("cut", std::string(10'000, 'x'));
    const auto file = RegularFile::open(name);
    ASSERT_TRUE(file.ok());
    std::vector<std::byte> bytes(1000);
    EXPECT_TRUE((*file)->read(9000, bytes).ok());
    fs::resize_file(name, 9500);
    const Status cut = (*file)->read(9000, bytes);
    ASSERT_FALSE(cut.ok());
    EXPECT_THAT(cut.error().message, HasSubstr(name + ": ends at byte 9500"));
    EXPECT_EQ(*(*file)->read_some(9000, bytes), 500U);
}

TEST_F(FileTest, MemoryThatIsNotThereIsAnErrorThatNamesWhatItIsFor) {
    EXPECT_EQ(make_bytes(10, "small")->size(), 10U);
    for (const std::uint64_t bytes : {std::uint64_t{1} << 50U, ~std::uint64_t{0}}) {
        const auto none = make_bytes(bytes, "the tensor");
        ASSERT_FALSE(none.ok());
        EXPECT_EQ(none.error().code, Errc::unavailable);
        EXPECT_THAT(none.error().message, HasSubstr("the tensor: " + std::to_string(bytes)));
    }
}

TEST_F(FileTest, PrivateFoldersAndFilesAreTheirOwnersWhateverTheUmask) {
    const mode_t masks[] = {0, 0777, 0022};
    for (const mode_t mask : masks) {
        const std::string top = path("top-" + std::to_string(mask));
        const mode_t before = ::umask(mask);
        const Status folder = make_private_folder(top + "/a/b/");
        const Status file = make_private_file(top + "/a/b/file");
        ::umask(before);
        ASSERT_TRUE(folder.ok()) << folder.error().message;
        ASSERT_TRUE(file.ok()) << file.error().message;
        for (const char* part : {"", "/a", "/a/b"}) EXPECT_EQ(mode_of(top + part), 0700U);
        EXPECT_EQ(mode_of(top + "/a/b/file"), 0600U);
    }
}

TEST_F(FileTest, WhatIsThereKeepsItsPermissionsAndContent) {
    fs::permissions(folder_.path(), fs::perms::owner_all | fs::perms::group_read);
    EXPECT_TRUE(make_private_folder(folder_.path()).ok());
    EXPECT_EQ(mode_of(folder_.path()), 0740U);
    const std::string file = write("kept", "content");
    EXPECT_TRUE(make_private_file(file).ok());
    EXPECT_EQ(*read_file(file, 100), "content");
    const Status refused = make_private_folder(file + "/below");
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("cannot make this folder"));
}

}  // namespace
}  // namespace helix::base::file_test
