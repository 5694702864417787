// Databases that a disk, or somebody, has changed: an error that names the file or the batch, never
// anything but what was stored, and never the end of the process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/random.h"
#include "base/temp_folder.h"
#include "store/engines.h"
#include "store/job_store.h"
#include "store/placement_store.h"

namespace helix::store::damaged_file_test {
namespace {

using base::Errc;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string read_all(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_all(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// One byte changed, or the end cut off, at many places of a file.
template <typename Try>
void with_each_damage(const std::string& path, std::uint64_t seed, Try&& attempt) {
    const std::string whole = read_all(path);
    base::Random random(seed);
    for (int i = 0; i < 150; ++i) {
        std::string bytes = whole;
        const auto at = static_cast<std::size_t>(random.below(bytes.size()));
        const bool cut = i % 3 == 0;
        if (cut) {
            bytes.resize(i % 2 == 0 ? at : at / 4096 * 4096);
        } else {
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        }
        for (const char* rest : {"-wal", "-journal", "-shm"}) fs::remove(path + rest);
        write_all(path, bytes);
        SCOPED_TRACE(testing::Message() << (cut ? "cut to " : "bit changed at ") << at);
        attempt();
    }
}

class DamagedJobsTest : public EngineTest {
  protected:
    void SetUp() override {
        EngineTest::SetUp();
        if (!IsSkipped()) fill();
    }
    void fill() {
        content_.assign(600'000, 'c');
        for (std::size_t i = 0; i < content_.size(); i += 7) content_[i] = static_cast<char>(i);
        auto store = JobStore::open(next_place());
        ASSERT_TRUE(store.ok()) << store.error().message;
        file_ = (*store)->add_file("in", "batch", content_, 1)->id;
        NewBatch batch;
        batch.input_file = file_;
        batch.metadata = "{}";
        batch_ = (*store)->add_batch(batch, 2)->id;
        const std::vector<BatchLine> lines = {{1, "a", 0, 10}, {2, "b", 10, 10}};
        EXPECT_TRUE((*store)->start_batch(batch_, "m", lines, 3).ok());
        EXPECT_EQ(*(*store)->add_results({{batch_, 1, Outcome::completed, "one"},
                                          {batch_, 2, Outcome::completed, "two"}}),
                  2);
        EXPECT_TRUE((*store)->finalize_batch(batch_, 4).ok());
        EXPECT_TRUE((*store)->close_batch(batch_, BatchStatus::completed, 5).ok());
        output_ = (*store)->batch(batch_)->output_file;
    }
    std::string path() const { return folder_.path() + "/state/helix.db"; }
    base::Error content_error(const std::string& id) {
        const auto store = JobStore::open(next_place());
        EXPECT_TRUE(store.ok()) << store.error().message;
        const auto content = (*store)->content(id);
        EXPECT_FALSE(content.ok());
        return content.ok() ? base::Error{} : content.error();
    }

    std::string content_;
    std::string file_;
    std::string batch_;
    std::string output_;
};
HELIX_BOTH_ENGINES(DamagedJobsTest);
// What only a file can be.
class DamagedJobsFileTest : public DamagedJobsTest {};
INSTANTIATE_TEST_SUITE_P(In, DamagedJobsFileTest, ::testing::Values(Engine::sqlite), engine_name);

TEST_P(DamagedJobsTest, AContentThatIsNotWhatWasStoredGivesAnErrorThatNamesTheFile) {
    const std::pair<std::string, const char*> damages[] = {
        {"UPDATE files SET bytes=bytes-1", "600000 bytes are there, it was stored with 599999"},
        {"UPDATE files SET bytes=bytes+2", "was stored with 600001"},
        {"UPDATE files SET bytes=600000 WHERE batch IS NULL; UPDATE pieces SET data=" +
             zeros_like("data") + " WHERE piece=1",
         "piece 1 of it is not what was stored"},
        {"UPDATE pieces SET hash=" + bytes("00") + " WHERE piece=0", "piece 0"},
        {"DELETE FROM pieces WHERE piece=1", "bytes are there"}};
    for (const auto& [sql, message] : damages) {
        change(sql);
        const base::Error error = content_error(file_);
        EXPECT_EQ(error.code, Errc::internal);
        EXPECT_THAT(error.message, HasSubstr("'" + file_ + "' is damaged"));
        EXPECT_THAT(error.message, HasSubstr(message));
    }
}

TEST_P(DamagedJobsTest, AResultThatIsNotWhatWasStoredGivesAnErrorThatNamesTheResultFile) {
    change("UPDATE results SET text='onE' WHERE line=1");
    EXPECT_THAT(content_error(output_).message,
                HasSubstr("'" + output_ + "' is damaged: the result of line 1"));
    change("DELETE FROM results WHERE line=1");
    EXPECT_THAT(content_error(output_).message, HasSubstr("4 bytes are there"));
}

TEST_P(DamagedJobsTest, PlacesInTheInputThatCannotBeAreRefused) {
    const auto store = JobStore::open(next_place());
    EXPECT_EQ((*store)->read(file_, -1, 10).error().code, Errc::internal);
    EXPECT_EQ((*store)->read(file_, 0, -1).error().code, Errc::internal);
    EXPECT_EQ((*store)->read(file_, INT64_MAX, INT64_MAX).error().code, Errc::internal);
    EXPECT_EQ((*store)->read(file_, 0, std::int64_t{1} << 40)->size(), content_.size());
}

TEST_P(DamagedJobsTest, ABatchThatMakesNoSenseIsNamed) {
    for (const char* sql : {"UPDATE batches SET status=17", "UPDATE batches SET status=-1",
                            "UPDATE batches SET status=4, metadata='{'"}) {
        change(sql);
        const auto store = JobStore::open(next_place());
        const auto found = (*store)->batch(batch_);
        ASSERT_FALSE(found.ok()) << sql;
        EXPECT_THAT(found.error().message, HasSubstr("batch '" + batch_ + "' is damaged"));
        EXPECT_FALSE((*store)->batches({}).ok());
        EXPECT_TRUE((*store)->counts().ok());
    }
}

TEST_P(DamagedJobsTest, ABatchWithoutAllResultsIsNotClosed) {
    change("UPDATE batches SET status=3; DELETE FROM results WHERE line=2");
    const auto store = JobStore::open(next_place());
    const auto closed = (*store)->close_batch(batch_, BatchStatus::completed, 9);
    ASSERT_FALSE(closed.ok());
    EXPECT_THAT(closed.error().message, HasSubstr("a line has no result"));
}

TEST_P(DamagedJobsFileTest, ADatabaseOfTheFirstVersionIsGivenChecksums) {
    change(
        "ALTER TABLE pieces DROP COLUMN hash; ALTER TABLE results DROP COLUMN hash; DROP TABLE "
        "runs;"
        "PRAGMA user_version=1");
    {
        const auto store = JobStore::open(next_place());
        ASSERT_TRUE(store.ok()) << store.error().message;
        EXPECT_TRUE(*(*store)->content(file_) == content_);
        EXPECT_EQ(*(*store)->content(output_), "one\ntwo\n");
        EXPECT_EQ((*store)->add_file("new", "batch", "abc", 9)->bytes, 3);
    }
    change("UPDATE pieces SET data=x'00' WHERE data=x'616263'");
    change("UPDATE pieces SET data=zeroblob(length(data)) WHERE piece=2");
    EXPECT_THAT(content_error(file_).message, HasSubstr("piece 2"));
}

TEST_P(DamagedJobsFileTest, ASchemaThatComputesIsRefused) {
    change(
        "ALTER TABLE pieces RENAME TO p; CREATE VIEW pieces AS WITH RECURSIVE n(i) AS (SELECT 1 "
        "UNION ALL SELECT i+1 FROM n) SELECT i AS file, i AS piece, 'x' AS data FROM n");
    const auto opened = JobStore::open(next_place());
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("helix.db: has views"));
}

TEST_P(DamagedJobsFileTest, WhateverIsDamagedWhatIsReadIsWhatWasStored) {
    int refused = 0;
    with_each_damage(path(), 7, [&] {
        const auto store = JobStore::open(next_place());
        if (!store.ok()) {
            ++refused;
            EXPECT_THAT(store.error().message, HasSubstr("helix.db"));
            return;
        }
        const auto content = (*store)->content(file_);
        const auto output = (*store)->content(output_);
        EXPECT_TRUE(!content.ok() || *content == content_);
        EXPECT_TRUE(!output.ok() || *output == "one\ntwo\n");
        refused += !content.ok() || !output.ok() ? 1 : 0;
        for (const bool up : {false, true}) {
            (void)(*store)->files({"", "", 10, up});
            (void)(*store)->batches({"", "", 10, up});
        }
        (void)(*store)->unfinished();
        (void)(*store)->counts();
        (void)(*store)->open_lines(batch_, 0, 10);
        (void)(*store)->remove_file(output_);
    });
    EXPECT_GT(refused, 30);
}

TEST(DamagedPlacementTest, WhateverIsDamagedItIsReadOrRefusedByName) {
    const TempFolder folder;
    PlacementRecord record;
    record.model = std::string(3000, 'm');
    for (int i = 0; i < 200; ++i) {
        record.holders.push_back({"worker-" + std::to_string(i), i, i + 1, 1 << 20});
        record.flows.push_back({"", "worker-" + std::to_string(i), 1.5});
    }
    {
        const auto store = PlacementStore::open(folder.path());
        ASSERT_TRUE(store.ok() && (*store)->save(record).ok());
    }
    int refused = 0;
    with_each_damage(folder.path() + "/placement.db", 9, [&] {
        const auto store = PlacementStore::open(folder.path());
        if (!store.ok()) {
            ++refused;
            EXPECT_THAT(store.error().message, HasSubstr("placement.db"));
            return;
        }
        (void)(*store)->load();
        (void)(*store)->load_drains();
        (void)(*store)->save_drains({{"den", true}});
    });
    EXPECT_GT(refused, 30);
}

TEST(StateFilesTest, DatabasesAreTheirOwnersWhateverTheUmask) {
    const TempFolder folder;
    const std::string state = folder.path() + "/above/state";
    const mode_t before = ::umask(0);
    auto jobs = JobStore::open(state);
    auto placement = PlacementStore::open(state);
    ::umask(before);
    ASSERT_TRUE(jobs.ok() && placement.ok());
    ASSERT_TRUE((*jobs)->add_file("in", "batch", "x", 1).ok());
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
        const auto mode = entry.status().permissions() & fs::perms::all;
        EXPECT_EQ(mode, entry.is_directory() ? fs::perms::owner_all
                                             : fs::perms::owner_read | fs::perms::owner_write)
            << entry.path();
    }
    EXPECT_TRUE(fs::exists(state + "/helix.db-wal"));
}

TEST(StateFilesTest, ADeviceInPlaceOfADatabaseIsRefused) {
    const TempFolder folder;
    ASSERT_EQ(::mkfifo((folder.path() + "/helix.db").c_str(), 0600), 0);
    const auto opened = JobStore::open(folder.path());
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("helix.db: is a pipe"));
}

}  // namespace
}  // namespace helix::store::damaged_file_test
