#include "base/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/temp_folder.h"

namespace helix::base::file_lock_test {
namespace {

namespace fs = std::filesystem;

TEST(FileLock, IsSharedByManyOrHadByOne) {
    const TempFolder folder;
    const fs::path path = fs::path(folder.path()) / "new" / "lock";
    auto one = FileLock::share(path);
    ASSERT_TRUE(one.ok()) << one.error().message;
    auto other = FileLock::share(path);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(FileLock::try_take(path).value(), nullptr);
    one->reset();
    EXPECT_EQ(FileLock::try_take(path).value(), nullptr) << "the other still has it";
    other->reset();
    const auto alone = FileLock::try_take(path);
    ASSERT_TRUE(alone.ok());
    EXPECT_NE(*alone, nullptr);
    EXPECT_EQ(FileLock::try_take(path).value(), nullptr);
}

TEST(FileLock, AFileThatCannotBeMadeIsAnErrorThatNamesIt) {
    const auto lock = FileLock::try_take("/proc/none/lock");
    ASSERT_FALSE(lock.ok());
    EXPECT_NE(lock.error().message.find("/proc/none"), std::string::npos);
    EXPECT_FALSE(FileLock::share("/proc/none/lock").ok());
}

}  // namespace
}  // namespace helix::base::file_lock_test
