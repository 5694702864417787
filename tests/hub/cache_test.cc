#include "hub/cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/file_lock.h"
#include "base/temp_folder.h"

namespace helix::hub::cache_test {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'a');
const std::string kOther(40, 'b');

class CacheTest : public ::testing::Test {
  protected:
    // As another program has pulled it.
    void put(const std::string& path, const std::string& content, const std::string& etag,
             const std::string& commit = kCommit) {
        const fs::path repository = root_ / "models--den--Tiny";
        const fs::path at = repository / "snapshots" / commit / path;
        fs::create_directories(repository / "blobs");
        fs::create_directories(repository / "refs");
        fs::create_directories(at.parent_path());
        std::ofstream(repository / "blobs" / etag) << content;
        std::ofstream(repository / "refs" / "main") << kCommit;
        fs::create_symlink(fs::absolute(repository / "blobs" / etag), at);
    }
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const CachedModel& model : cache_.list()) found.push_back(model.name);
        return found;
    }
    CachedModel find(const std::string& name) const {
        auto model = cache_.find(*parse_model_name(name));
        return model.ok() ? *model : CachedModel{};
    }

    TempFolder folder_;
    fs::path root_ = folder_.path();
    Cache cache_{root_};
};

TEST_F(CacheTest, FindsWhatOtherProgramsHavePulled) {
    put("Tiny-Q4_K_M.gguf", "12345", "e1");
    put("Tiny-F16.gguf", "123", "e2");
    put("README.md", "x", "e3");
    EXPECT_EQ(names(), (std::vector<std::string>{"den/Tiny:F16", "den/Tiny:Q4_K_M"}));
    EXPECT_EQ(find("den/Tiny").path,
              root_ / "models--den--Tiny/snapshots" / kCommit / "Tiny-Q4_K_M.gguf");
    EXPECT_EQ(find("den/Tiny:f16").bytes, 3U);
    EXPECT_EQ(find("den/Tiny@" + kCommit + ":F16").bytes, 3U);
    EXPECT_EQ(find("den/Tiny@v1").bytes, 0U);
    EXPECT_EQ(find("den/Tinier").bytes, 0U);
}

TEST_F(CacheTest, WhatIsNotWholeIsNotThere) {
    put("t-Q8_0-00001-of-00002.gguf", "1", "e1");
    EXPECT_TRUE(names().empty());
    put("t-Q8_0-00002-of-00002.gguf", "2", "e2");
    EXPECT_EQ(names(), std::vector<std::string>{"den/Tiny:Q8_0"});
    fs::remove(root_ / "models--den--Tiny/blobs/e2");  // a link that leads nowhere
    EXPECT_TRUE(names().empty());
    EXPECT_FALSE(cache_.find(*parse_model_name("den/Tiny:Q8_0")).ok());
}

TEST_F(CacheTest, OlderSnapshotsAreNamedByTheirCommit) {
    put("Tiny-Q8_0.gguf", "1", "e1");
    put("Tiny-Q8_0.gguf", "22", "e2", kOther);
    EXPECT_EQ(names(), (std::vector<std::string>{"den/Tiny:Q8_0", "den/Tiny@" + kOther + ":Q8_0"}));
    EXPECT_EQ(find("den/Tiny@" + kOther + ":Q8_0").bytes, 2U);
}

TEST_F(CacheTest, RemovesAModelAndWhatNobodyElseNeeds) {
    put("Tiny-Q8_0.gguf", "12345", "e1");
    put("Tiny-F16.gguf", "123", "e2");
    put("Tiny-F16.gguf", "123", "e2", kOther);
    EXPECT_EQ(*cache_.remove("den/Tiny:Q8_0"), 5U);
    EXPECT_FALSE(fs::exists(root_ / "models--den--Tiny/blobs/e1"));
    EXPECT_EQ(*cache_.remove("den/Tiny:F16"), 0U);  // the other snapshot has it, too
    EXPECT_EQ(names(), std::vector<std::string>{"den/Tiny@" + kOther + ":F16"});
    EXPECT_EQ(cache_.remove("den/Tiny:Q8_0").error().code, base::Errc::not_found);
    std::ofstream(root_ / "models--den--Tiny/blobs/e9.helix-part") << "1234567";
    EXPECT_EQ(*cache_.remove("den/Tiny"), 3U + 7U + kCommit.size());
    EXPECT_FALSE(fs::exists(root_ / "models--den--Tiny"));
    EXPECT_EQ(cache_.remove("den/Tiny").error().code, base::Errc::not_found);
    EXPECT_EQ(cache_.remove("nonsense").error().code, base::Errc::invalid);
}

TEST_F(CacheTest, AnUnknownNameIsToldWhatIsNear) {
    put("Tiny-Q8_0.gguf", "12345", "e1");
    EXPECT_NE(cache_.remove("den/Tinx:Q8_0").error().message.find("den/Tiny:Q8_0"),
              std::string::npos);
}

TEST_F(CacheTest, WhatIsBeingPulledIsNotRemoved) {
    put("Tiny-Q8_0.gguf", "12345", "e1");
    const auto lock = base::FileLock::try_take(cache_.lock(*parse_model_name("den/Tiny"), "e1"));
    ASSERT_TRUE(lock.ok() && *lock != nullptr);
    EXPECT_EQ(cache_.remove("den/Tiny").error().code, base::Errc::unavailable);
    EXPECT_TRUE(*base::FileLock::try_take(cache_.lock(*parse_model_name("den/Tiny"), "e1")) ==
                nullptr);
}

TEST_F(CacheTest, NeverRemovesOutsideItsFolder) {
    const TempFolder elsewhere;
    std::ofstream(elsewhere.path() + "/Tiny-Q8_0.gguf") << "12345";
    const fs::path snapshot = root_ / "models--den--Tiny/snapshots" / kCommit;
    fs::create_directories(snapshot);
    fs::create_directories(root_ / "models--den--Tiny/refs");
    std::ofstream(root_ / "models--den--Tiny/refs/main") << kCommit << "\n";
    fs::create_symlink(elsewhere.path() + "/Tiny-Q8_0.gguf", snapshot / "Tiny-Q8_0.gguf");
    EXPECT_EQ(*cache_.remove("den/Tiny:Q8_0"), 0U);
    EXPECT_TRUE(fs::exists(elsewhere.path() + "/Tiny-Q8_0.gguf"));
    EXPECT_TRUE(names().empty());
}

TEST_F(CacheTest, LinksAreMadeOverOldOnes) {
    const ModelName name = *parse_model_name("den/Tiny");
    fs::create_directories(cache_.repository(name) / "blobs");
    std::ofstream(cache_.blob(name, "e1")) << "one";
    std::ofstream(cache_.blob(name, "e2")) << "two";
    ASSERT_TRUE(cache_.link(name, kCommit, "a/b/x-Q8_0.gguf", "e1").ok());
    ASSERT_TRUE(cache_.link(name, kCommit, "a/b/x-Q8_0.gguf", "e2").ok());
    ASSERT_TRUE(cache_.write_ref(name, kCommit).ok());
    const fs::path at = cache_.snapshot(name, kCommit) / "a/b/x-Q8_0.gguf";
    EXPECT_EQ(fs::read_symlink(at), "../../../../blobs/e2");
    EXPECT_EQ(names(), std::vector<std::string>{"den/Tiny:Q8_0"});
}

}  // namespace
}  // namespace helix::hub::cache_test
