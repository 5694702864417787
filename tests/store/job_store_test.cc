#include "store/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/temp_folder.h"
#include "store/engines.h"
#include "store/sqlite.h"

namespace helix::store::job_store_test {
namespace {

using base::Errc;
using ::testing::HasSubstr;

class JobStoreTest : public EngineTest {
  protected:
    void SetUp() override {
        EngineTest::SetUp();
        if (!IsSkipped()) open();
    }
    void open() {
        store_.reset();
        auto opened = JobStore::open(next_place());
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        store_ = std::move(opened).value();
    }
    FileRecord upload(std::string_view content, std::string_view name = "in.jsonl") {
        auto file = store_->add_file(name, "batch", content, 100);
        EXPECT_TRUE(file.ok());
        return file.ok() ? *file : FileRecord{};
    }
    std::string new_batch(const std::string& file) {
        NewBatch batch;
        batch.input_file = file;
        batch.endpoint = "/v1/completions";
        batch.window = "24h";
        batch.metadata = "null";
        batch.expires_at = 5000;
        auto added = store_->add_batch(batch, 200);
        EXPECT_TRUE(added.ok()) << added.error().message;
        return added.ok() ? added->id : "";
    }
    // A batch that runs, with lines 1 to n.
    std::string running_batch(int n) {
        const std::string id = new_batch(upload("content").id);
        std::vector<BatchLine> lines;
        for (int i = 1; i <= n; ++i) lines.push_back({i, "id-" + std::to_string(i), i * 10, 9});
        EXPECT_TRUE(store_->start_batch(id, "model", lines, 300).ok());
        return id;
    }
    BatchRecord batch(const std::string& id) {
        auto found = store_->batch(id);
        EXPECT_TRUE(found.ok());
        return found.ok() ? *found : BatchRecord{};
    }

    std::unique_ptr<JobStore> store_;
};
HELIX_BOTH_ENGINES(JobStoreTest);

TEST_P(JobStoreTest, AFileComesBackByteForByteAlsoInParts) {
    std::string content;
    base::Random random(3);
    for (int i = 0; i < 700'000; ++i) content += static_cast<char>(random.below(256));
    const FileRecord file = upload(content);
    EXPECT_EQ(file.bytes, 700'000);
    EXPECT_TRUE(file.id.starts_with("file-"));
    open();
    EXPECT_TRUE(*store_->content(file.id) == content);
    for (int i = 0; i < 200; ++i) {
        const std::int64_t offset = random.between(0, 700'000);
        const std::int64_t bytes = random.between(0, 300'000);
        const std::string expected =
            content.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
        EXPECT_TRUE(*store_->read(file.id, offset, bytes) == expected) << offset << " " << bytes;
    }
    // Around the pieces' borders.
    for (const std::int64_t at : {262'143, 262'144, 262'145, 524'288}) {
        EXPECT_EQ(*store_->read(file.id, at, 2), content.substr(static_cast<std::size_t>(at), 2));
    }
    EXPECT_EQ(*store_->content(upload("").id), "");
}

TEST_P(JobStoreTest, ListsAreNewestFirstAndGoOnBehindAnId) {
    std::vector<std::string> ids;
    for (int i = 0; i < 5; ++i) ids.push_back(upload("x", "f" + std::to_string(i)).id);
    ListQuery query;
    query.limit = 2;
    auto page = *store_->files(query);
    ASSERT_EQ(page.size(), 2U);
    EXPECT_EQ(page[0].name, "f4");
    query.after = page[1].id;
    page = *store_->files(query);
    ASSERT_EQ(page.size(), 2U);
    EXPECT_EQ(page[0].name, "f2");
    query.after.clear();
    query.oldest_first = true;
    EXPECT_EQ((*store_->files(query))[0].name, "f0");
    query.purpose = "other";
    EXPECT_TRUE(store_->files(query)->empty());
    query.after = "file-none";
    EXPECT_EQ(store_->files(query).error().code, Errc::not_found);
}

TEST_P(JobStoreTest, ABatchGoesItsWayAndItsResultFilesShowEachLineOnce) {
    const std::string id = running_batch(3);
    EXPECT_EQ(batch(id).at[0], 200);
    EXPECT_EQ(batch(id).at[static_cast<std::size_t>(BatchStatus::in_progress)], 300);
    EXPECT_EQ(*store_->add_results({{id, 3, Outcome::completed, "three"}}), 1);
    // A second result of a line does not count.
    EXPECT_EQ(*store_->add_results({{id, 3, Outcome::failed, "again"},
                                    {id, 1, Outcome::completed, "one"},
                                    {id, 2, Outcome::failed, "two"}}),
              2);
    EXPECT_TRUE(store_->open_lines(id, 0, 10)->empty());
    ASSERT_TRUE(store_->finalize_batch(id, 400).ok());
    open();
    EXPECT_EQ(store_->unfinished()->size(), 1U);
    ASSERT_TRUE(store_->close_batch(id, BatchStatus::completed, 500).ok());
    const BatchRecord done = batch(id);
    EXPECT_EQ(done.status, BatchStatus::completed);
    EXPECT_EQ(done.total, 3);
    EXPECT_EQ(done.completed, 2);
    EXPECT_EQ(done.failed, 1);
    EXPECT_EQ(*store_->content(done.output_file), "one\nthree\n");
    EXPECT_EQ(*store_->content(done.error_file), "two\n");
    EXPECT_EQ(store_->file(done.output_file)->bytes, 10);
    EXPECT_EQ(store_->file(done.output_file)->purpose, "batch_output");
    EXPECT_TRUE(store_->unfinished()->empty());
    // Nothing is added to a batch that is over.
    EXPECT_EQ(*store_->add_results({{id, 1, Outcome::completed, "late"}}), 0);
}

TEST_P(JobStoreTest, OpenLinesAreThoseWithoutAResultInOrder) {
    const std::string id = running_batch(6);
    ASSERT_TRUE(store_->add_results({{id, 2, Outcome::completed, "x"}}).ok());
    auto lines = *store_->open_lines(id, 0, 3);
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(lines[0].line, 1);
    EXPECT_EQ(lines[1].line, 3);
    EXPECT_EQ(lines[1].custom_id, "id-3");
    EXPECT_EQ(lines[1].offset, 30);
    lines = *store_->open_lines(id, lines.back().line, 10);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].line, 5);
}

TEST_P(JobStoreTest, ADeathCountsAgainstWhatWasUnderWayAndAGoodEndAgainstNothing) {
    const std::string id = running_batch(4);
    const auto deaths = [&] {
        std::vector<std::int64_t> counts;
        const auto lines = store_->open_lines(id, 0, 10);
        EXPECT_TRUE(lines.ok());
        for (const BatchLine& line : *lines) counts.push_back(line.deaths);
        return counts;
    };
    ASSERT_TRUE(store_->begin_lines({{id, 1}, {id, 2}, {id, 3}}).ok());
    EXPECT_EQ(deaths(), (std::vector<std::int64_t>{0, 0, 0, 0}));
    ASSERT_TRUE(store_->put_aside({{id, 2}}).ok());
    open();  // nobody came to say that they had ended
    EXPECT_EQ(deaths(), (std::vector<std::int64_t>{1, 0, 1, 0}));
    open();  // nothing was under way
    EXPECT_EQ(deaths(), (std::vector<std::int64_t>{1, 0, 1, 0}));
    ASSERT_TRUE(store_->begin_lines({{id, 1}, {id, 4}}).ok());
    ASSERT_TRUE(store_->put_all_aside().ok());
    open();
    EXPECT_EQ(deaths(), (std::vector<std::int64_t>{1, 0, 1, 0}));
    ASSERT_TRUE(store_->begin_lines({{id, 1}, {id, 3}}).ok());
    ASSERT_TRUE(store_->add_results({{id, 3, Outcome::completed, "{}"}}).ok());
    open();
    EXPECT_EQ(deaths(), (std::vector<std::int64_t>{2, 0, 0}));
}

TEST_P(JobStoreTest, ABatchIsCancelledWhileItRunsAndNotAfterwards) {
    const std::string id = running_batch(2);
    ASSERT_TRUE(store_->add_results({{id, 1, Outcome::completed, "x"}}).ok());
    EXPECT_EQ(store_->cancel_batch(id, 400)->status, BatchStatus::cancelling);
    EXPECT_FALSE(store_->cancel_batch(id, 401).ok());
    ASSERT_TRUE(store_->add_results({{id, 2, Outcome::not_run, "cancelled"}}).ok());
    ASSERT_TRUE(store_->close_batch(id, BatchStatus::cancelled, 402).ok());
    const BatchRecord over = batch(id);
    EXPECT_EQ(over.completed, 1);
    EXPECT_EQ(over.failed, 0);
    EXPECT_EQ(*store_->content(over.error_file), "cancelled\n");
    const auto refused = store_->cancel_batch(id, 500);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::invalid);
    EXPECT_THAT(refused.error().message, HasSubstr("is cancelled"));
}

TEST_P(JobStoreTest, ARemovedInputStaysReadableUntilItsBatchIsOver) {
    const std::string file = upload("content").id;
    const std::string id = new_batch(file);
    ASSERT_TRUE(store_->remove_file(file).ok());
    EXPECT_EQ(store_->file(file).error().code, Errc::not_found);
    EXPECT_EQ(store_->remove_file(file).error().code, Errc::not_found);
    EXPECT_TRUE(store_->files({})->empty());
    EXPECT_EQ(*store_->read(file, 0, 100), "content");
    ASSERT_TRUE(store_->fail_batch(id, "[]", 0, 300).ok());
    EXPECT_EQ(*store_->read(file, 0, 100), "");
}

TEST_P(JobStoreTest, RemovingAResultFileRemovesWhatItShows) {
    const std::string id = running_batch(2);
    ASSERT_TRUE(
        store_->add_results({{id, 1, Outcome::completed, "good"}, {id, 2, Outcome::failed, "bad"}})
            .ok());
    ASSERT_TRUE(store_->finalize_batch(id, 400).ok());
    ASSERT_TRUE(store_->close_batch(id, BatchStatus::completed, 500).ok());
    ASSERT_TRUE(store_->remove_file(batch(id).output_file).ok());
    EXPECT_EQ(store_->content(batch(id).output_file).error().code, Errc::not_found);
    EXPECT_EQ(*store_->content(batch(id).error_file), "bad\n");
}

TEST(JobStoreInAFolder, ASecondProcessIsToldThatItIsInUse) {
    const TempFolder folder;
    const auto first = JobStore::open(folder.path());
    ASSERT_TRUE(first.ok()) << first.error().message;
    const auto second = JobStore::open(folder.path());
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Errc::unavailable);
    EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

TEST_P(JobStoreTest, AContentIsReadPieceByPiece) {
    std::string content;
    for (int i = 0; content.size() < 700'000; ++i) content += std::to_string(i * 7919) + "\n";
    const std::string file = upload(content).id;
    const std::string batch_id = running_batch(5);
    const std::string long_line(500, 'x');
    std::vector<LineResult> results;
    for (int i = 1; i <= 5; ++i) {
        const Outcome outcome = i == 3 ? Outcome::failed : Outcome::completed;
        results.push_back({batch_id, i, outcome, std::to_string(i) + long_line});
    }
    ASSERT_TRUE(store_->add_results(results).ok());
    ASSERT_TRUE(store_->finalize_batch(batch_id, 400).ok());
    ASSERT_TRUE(store_->close_batch(batch_id, BatchStatus::completed, 500).ok());
    for (const std::string& id : {file, batch(batch_id).output_file}) {
        const std::string whole = *store_->content(id);
        EXPECT_EQ(whole.size(), static_cast<std::size_t>(store_->file(id)->bytes));
        ContentPlace place;
        std::string read;
        for (int pieces = 0;; ++pieces) {
            const auto piece = store_->read_on(id, place, 100'000 + pieces);
            ASSERT_TRUE(piece.ok());
            if (piece->empty()) break;
            read += *piece;
        }
        EXPECT_TRUE(read == whole);
    }
    ContentPlace place;
    const std::string output = batch(batch_id).output_file;
    EXPECT_EQ(*store_->read_on(output, place, 1), "1" + long_line + "\n");
    EXPECT_EQ(*store_->read_on(output, place, 502), "2" + long_line + "\n");
    ASSERT_TRUE(store_->remove_file(output).ok());
    EXPECT_EQ(store_->read_on(output, place, 1).error().code, Errc::not_found);
}

TEST_P(JobStoreTest, BatchesAndTheirLinesAreCounted) {
    const std::string done = running_batch(2);
    running_batch(4);
    ASSERT_TRUE(
        store_
            ->add_results({{done, 1, Outcome::completed, "one"}, {done, 2, Outcome::failed, "two"}})
            .ok());
    ASSERT_TRUE(store_->finalize_batch(done, 400).ok());
    ASSERT_TRUE(store_->close_batch(done, BatchStatus::completed, 500).ok());
    const auto counts = store_->counts();
    ASSERT_TRUE(counts.ok());
    EXPECT_EQ(counts->batches[static_cast<std::size_t>(BatchStatus::completed)], 1);
    EXPECT_EQ(counts->batches[static_cast<std::size_t>(BatchStatus::in_progress)], 1);
    EXPECT_EQ(counts->lines_completed, 1);
    EXPECT_EQ(counts->lines_failed, 1);
    EXPECT_EQ(counts->lines_open, 4);
}

TEST(JobStoreInAFolder, ADatabaseOfAnotherKindIsRefusedByName) {
    const TempFolder folder;
    ASSERT_TRUE(JobStore::open(folder.path()).ok());
    const std::string path = folder.path() + "/helix.db";
    {
        auto database = open_sqlite(path);
        ASSERT_TRUE(database.ok());
        ASSERT_TRUE((*database)->execute("PRAGMA user_version=9").ok());
    }
    auto opened = JobStore::open(folder.path());
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("newer Helix"));
    {
        auto database = open_sqlite(path);
        ASSERT_TRUE((*database)->execute("PRAGMA application_id=7").ok());
    }
    opened = JobStore::open(folder.path());
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("another program"));
    std::filesystem::remove(path);
    std::ofstream(path) << std::string(5000, 'x');
    opened = JobStore::open(folder.path());
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("is not a SQLite database"));
    EXPECT_THAT(opened.error().message, HasSubstr(path));
}

TEST(JobStoreInAFolder, AFolderThatCannotBeMadeIsNamed) {
    const auto opened = JobStore::open("/proc/helix/state");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("/proc/helix/state"));
}

TEST_P(JobStoreTest, TwoLinesOfOneBatchCannotShareACustomId) {
    const std::string id = new_batch(upload("x").id);
    EXPECT_FALSE(store_->start_batch(id, "", {{1, "a", 0, 1}, {2, "a", 1, 1}}, 300).ok());
    EXPECT_EQ(batch(id).status, BatchStatus::validating);
    EXPECT_TRUE(store_->start_batch(id, "", {{1, "a", 0, 1}, {2, "b", 1, 1}}, 300).ok());
}

}  // namespace
}  // namespace helix::store::job_store_test
