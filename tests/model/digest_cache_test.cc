#include "model/digest_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "model/local_weights.h"
#include "model/split_weights.h"
#include "model/synth.h"
#include "temporary_folder.h"

namespace helix::model::digest_cache_test {
namespace {

namespace fs = std::filesystem;
using test_support::TemporaryFolder;

// Counts what is read of a source.
class Watched final : public WeightSource {
  public:
    explicit Watched(std::shared_ptr<WeightSource> source) : source_(std::move(source)) {}
    const GgufFile& file() const override { return source_->file(); }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override {
        ++reads;
        return source_->tensor(name);
    }
    std::optional<base::Status> read_part(std::string_view name, std::uint64_t offset,
                                          std::span<std::byte> to) override {
        ++reads;
        return source_->read_part(name, offset, to);
    }
    void release(std::string_view name) override { source_->release(name); }
    base::Result<std::vector<base::FileStamp>> stamps() const override { return source_->stamps(); }
    std::atomic<int> reads = 0;

  private:
    std::shared_ptr<WeightSource> source_;
};

class Digests : public ::testing::Test {
  protected:
    std::string make(const std::string& name, std::uint64_t seed = 1) {
        const std::string path = folder_.file(name);
        const base::Status made = synth_model({"tiny", "q8_0", seed, path, 1});
        EXPECT_TRUE(made.ok()) << made.error().message;
        return path;
    }
    // The manifest of the file, which is what it would be without a cache, and whether the file was
    // read for it.
    std::pair<ModelManifest, bool> look(const DigestCache& cache, const std::string& path) {
        auto opened = open_weights(path);
        EXPECT_TRUE(opened.ok());
        Watched source(*opened);
        auto found = cache.manifest(source);
        const bool read = source.reads > 0;
        const auto built = build_manifest(source);
        EXPECT_TRUE(found.ok() && built.ok());
        EXPECT_EQ(found->header, built->header);
        EXPECT_EQ(found->tensors, built->tensors);
        EXPECT_EQ(found->model_hash, built->model_hash);
        return {std::move(*found), read};
    }
    bool is_read(const DigestCache& cache, const std::string& path) {
        return look(cache, path).second;
    }
    static void overwrite_end(const std::string& path, char byte) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-1, std::ios::end);
        file.put(byte);
    }
    std::vector<fs::path> entries() {
        std::vector<fs::path> all;
        if (!fs::exists(digests_)) return all;
        for (const auto& entry : fs::directory_iterator(digests_)) all.push_back(entry.path());
        return all;
    }

    TemporaryFolder folder_;
    const std::string digests_ = folder_.file("digests");
    const DigestCache cache_{digests_, base::Duration{}};
};

TEST_F(Digests, AFileIsReadOnceForAnyNumberOfStarts) {
    const std::string path = make("a.gguf");
    EXPECT_TRUE(is_read(cache_, path));
    EXPECT_FALSE(is_read(cache_, path));
    EXPECT_FALSE(is_read(DigestCache(digests_, base::Duration{}), path));
    EXPECT_EQ(entries().size(), 1U);
    EXPECT_EQ(fs::status(entries()[0]).permissions(),
              fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_TRUE(is_read(DigestCache(), path)) << "without a folder";
    EXPECT_TRUE(is_read(cache_, make("b.gguf", 2)));
    EXPECT_FALSE(is_read(cache_, path));
}

TEST_F(Digests, AFileThatWasWrittenSinceIsReadAnew) {
    const std::string path = make("a.gguf");
    const base::Hash128 before = look(cache_, path).first.model_hash;
    overwrite_end(path, '\x55');
    const auto [changed, read] = look(cache_, path);
    EXPECT_TRUE(read);
    EXPECT_NE(changed.model_hash, before);
    EXPECT_FALSE(is_read(cache_, path));
    EXPECT_EQ(entries().size(), 1U) << "in place of what it was";
}

TEST_F(Digests, AWriteIsNoticedThoughTheTimeOfItIsTakenBack) {
    const std::string path = make("a.gguf");
    const base::Hash128 before = look(cache_, path).first.model_hash;
    struct stat was = {};
    ASSERT_EQ(::stat(path.c_str(), &was), 0);
    overwrite_end(path, '\x55');
    const timespec times[2] = {was.st_atim, was.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    const auto [changed, read] = look(cache_, path);
    EXPECT_TRUE(read);
    EXPECT_NE(changed.model_hash, before);
}

TEST_F(Digests, AnotherFileOfTheSameNameIsReadAnew) {
    const std::string path = make("a.gguf");
    const base::Hash128 before = look(cache_, path).first.model_hash;
    fs::rename(make("b.gguf", 2), path);
    const auto [changed, read] = look(cache_, path);
    EXPECT_TRUE(read);
    EXPECT_NE(changed.model_hash, before);
}

TEST_F(Digests, AFileThatWasJustWrittenIsNotRemembered) {
    const DigestCache careful(digests_, base::from_seconds(3600));
    const std::string path = make("a.gguf");
    EXPECT_TRUE(is_read(careful, path));
    EXPECT_TRUE(is_read(careful, path));
    EXPECT_TRUE(entries().empty());
}

TEST_F(Digests, AnEntryThatIsDamagedIsAsIfItWereNotThere) {
    const std::string path = make("a.gguf");
    look(cache_, path);
    const auto whole = base::read_file(entries()[0].string(), 1U << 20U);
    ASSERT_TRUE(whole.ok());
    for (std::size_t at = 0; at < whole->size(); at += 37) {
        std::string damaged = *whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 1);
        std::ofstream(entries()[0], std::ios::binary) << damaged;
        EXPECT_TRUE(is_read(cache_, path)) << "byte " << at;
    }
    for (const std::size_t length : {std::size_t{0}, whole->size() / 2, whole->size() - 40}) {
        std::ofstream(entries()[0], std::ios::binary) << whole->substr(0, length);
        EXPECT_TRUE(is_read(cache_, path)) << "cut to " << length;
    }
    EXPECT_FALSE(is_read(cache_, path));
}

TEST_F(Digests, AFolderThatCannotBeWrittenKeepsNothing) {
    const std::string path = make("a.gguf");
    std::ofstream(folder_.file("file")) << "no folder";
    const DigestCache nowhere(folder_.file("file") + "/digests", base::Duration{});
    EXPECT_TRUE(is_read(nowhere, path));
    EXPECT_TRUE(is_read(nowhere, path));
}

TEST_F(Digests, OldEntriesMakeRoomForNewOnes) {
    const std::string path = make("a.gguf");
    for (int i = 0; i < 70; ++i) {
        fs::copy_file(path, folder_.file("copy.gguf"), fs::copy_options::overwrite_existing);
        fs::rename(folder_.file("copy.gguf"), folder_.file(std::to_string(i)));
        look(cache_, folder_.file(std::to_string(i)));
    }
    EXPECT_EQ(entries().size(), 64U);
    EXPECT_FALSE(is_read(cache_, folder_.file("69")));
    EXPECT_TRUE(is_read(cache_, folder_.file("0")));
}

TEST_F(Digests, TheHashIsComparedAsEver) {
    const std::string path = make("a.gguf");
    const auto [manifest, read] = look(cache_, path);
    auto source = LocalWeights::open(path);
    ASSERT_TRUE(source.ok());
    EXPECT_TRUE(cache_.check(**source, manifest.model_hash).ok());
    const base::Status other = cache_.check(**source, {1, 2});
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message.find(path), std::string::npos) << other.error().message;
}

}  // namespace
}  // namespace helix::model::digest_cache_test
