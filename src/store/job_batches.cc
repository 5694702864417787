// The batches of a JobStore.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "store/job_store.h"
#include "store/value_hash.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;

namespace {

constexpr const char* kBatchColumns =
    "id, input_file, endpoint, completion_window, metadata, model, errors, status, output_file, "
    "error_file, expires_at, total, completed, failed, at0, at1, at2, at3, at4, at5, at6, at7";

Error damaged_batch(std::string_view id, const std::string& how) {
    return {Errc::internal, fmt::format("The stored batch '{}' is damaged: {}.", id, how)};
}

Result<BatchRecord> batch_of(const Statement& row) {
    BatchRecord batch;
    batch.id = row.text_at(0);
    batch.input_file = row.text_at(1);
    batch.endpoint = row.text_at(2);
    batch.window = row.text_at(3);
    batch.metadata = row.text_at(4);
    batch.model = row.text_at(5);
    batch.errors = row.text_at(6);
    const std::int64_t status = row.integer_at(7);
    if (status < 0 || status >= static_cast<std::int64_t>(kBatchStatuses)) {
        return damaged_batch(batch.id, fmt::format("it has the status {}", status));
    }
    batch.status = static_cast<BatchStatus>(status);
    batch.output_file = row.text_at(8);
    batch.error_file = row.text_at(9);
    batch.expires_at = row.integer_at(10);
    batch.total = row.integer_at(11);
    batch.completed = row.integer_at(12);
    batch.failed = row.integer_at(13);
    for (std::size_t i = 0; i < kBatchStatuses; ++i) {
        batch.at[i] = row.integer_at(14 + static_cast<int>(i));
    }
    const auto is_json = [](const std::string& text) { return nlohmann::json::accept(text); };
    if (!is_json(batch.metadata)) return damaged_batch(batch.id, "its metadata is no JSON");
    if (!batch.errors.empty() && !is_json(batch.errors)) {
        return damaged_batch(batch.id, "its errors are no JSON");
    }
    return batch;
}

Error no_batch(std::string_view id) {
    return {Errc::not_found, fmt::format("No such batch: '{}'.", id)};
}

Result<std::vector<BatchRecord>> collect(Statement& select) {
    std::vector<BatchRecord> batches;
    while (true) {
        TRY(const bool row, select.step());
        if (!row) return batches;
        TRY(BatchRecord batch, batch_of(select));
        batches.push_back(std::move(batch));
    }
}

int number_of(BatchStatus status) {
    return static_cast<int>(status);
}

}  // namespace

Result<BatchRecord> JobStore::add_batch(const NewBatch& batch, std::int64_t now) {
    TRY_VOID(file(batch.input_file));
    TRY(const std::string id, new_id("batch_"));
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY(Statement insert,
        db_->prepare("INSERT INTO batches(id, input_file, endpoint, completion_window, metadata, "
                     "status, expires_at, at0) VALUES(?, ?, ?, ?, ?, 0, ?, ?)"));
    insert.text(id).text(batch.input_file).text(batch.endpoint).text(batch.window);
    TRY_VOID(insert.text(batch.metadata).integer(batch.expires_at).integer(now).run());
    TRY_VOID(transaction.commit());
    return this->batch(id);
}

Result<BatchRecord> JobStore::batch(std::string_view id) const {
    TRY(Statement select,
        db_->prepare(fmt::format("SELECT {} FROM batches WHERE id=?", kBatchColumns)));
    TRY(const bool found, select.text(id).step());
    if (!found) return no_batch(id);
    return batch_of(select);
}

Result<std::int64_t> JobStore::batch_number(std::string_view id) const {
    TRY(Statement select, db_->prepare("SELECT seq FROM batches WHERE id=?"));
    TRY(const bool found, select.text(id).step());
    if (!found) return no_batch(id);
    return select.integer_at(0);
}

Result<std::vector<BatchRecord>> JobStore::batches(const ListQuery& query) const {
    std::int64_t after = 0;
    if (!query.after.empty()) {
        TRY(after, batch_number(query.after));
    }
    const bool up = query.oldest_first;
    TRY(Statement select,
        db_->prepare(fmt::format("SELECT {} FROM batches WHERE ?=0 OR seq {} ? ORDER BY seq {} "
                                 "LIMIT ?",
                                 kBatchColumns, up ? ">" : "<", up ? "ASC" : "DESC")));
    select.integer(after).integer(after).integer(query.limit);
    return collect(select);
}

Result<std::vector<BatchRecord>> JobStore::unfinished() const {
    TRY(Statement select,
        db_->prepare(fmt::format("SELECT {} FROM batches WHERE status IN (0, 2, 3, 6) ORDER BY seq",
                                 kBatchColumns)));
    return collect(select);
}

Status JobStore::set_status(std::string_view id, BatchStatus from, BatchStatus to,
                            std::int64_t now) const {
    TRY(Statement update,
        db_->prepare(fmt::format("UPDATE batches SET status={0}, at{0}=? WHERE id=? AND status={1}",
                                 number_of(to), number_of(from))));
    TRY_VOID(update.integer(now).text(id).run());
    TRY(const std::int64_t changed, db_->changed());
    if (changed == 1) return base::Ok{};
    TRY(const BatchRecord found, batch(id));
    return base::invalid(fmt::format("Batch '{}' is {}: it cannot become {}.", id,
                                     to_string(found.status), to_string(to)));
}

Status JobStore::start_batch(std::string_view id, std::string_view model,
                             const std::vector<BatchLine>& lines, std::int64_t now) {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY_VOID(set_status(id, BatchStatus::validating, BatchStatus::in_progress, now));
    TRY(const std::int64_t number, batch_number(id));
    TRY(Statement insert, db_->prepare("INSERT INTO lines VALUES(?, ?, ?, ?, ?)"));
    for (const BatchLine& line : lines) {
        insert.integer(number).integer(line.line).text(line.custom_id).integer(line.offset);
        TRY_VOID(insert.integer(line.bytes).run());
    }
    TRY(Statement update, db_->prepare("UPDATE batches SET model=?, total=? WHERE seq=?"));
    update.text(model).integer(static_cast<std::int64_t>(lines.size())).integer(number);
    TRY_VOID(update.run());
    return transaction.commit();
}

Status JobStore::fail_batch(std::string_view id, std::string_view errors, std::int64_t total,
                            std::int64_t now) {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY_VOID(set_status(id, BatchStatus::validating, BatchStatus::failed, now));
    TRY(Statement update, db_->prepare("UPDATE batches SET errors=?, total=? WHERE id=?"));
    TRY_VOID(update.text(errors).integer(total).text(id).run());
    TRY_VOID(free_removed_files());
    return transaction.commit();
}

Result<BatchRecord> JobStore::cancel_batch(std::string_view id, std::int64_t now) {
    TRY(const BatchRecord found, batch(id));
    const bool fresh = found.status == BatchStatus::validating;
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY_VOID(set_status(id, fresh ? BatchStatus::validating : BatchStatus::in_progress,
                        BatchStatus::cancelling, now));
    TRY_VOID(transaction.commit());
    return batch(id);
}

Status JobStore::finalize_batch(std::string_view id, std::int64_t now) {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY_VOID(set_status(id, BatchStatus::in_progress, BatchStatus::finalizing, now));
    return transaction.commit();
}

Status JobStore::close_batch(std::string_view id, BatchStatus status, std::int64_t now) {
    CHECK(is_over(status) && status != BatchStatus::failed);
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY(const std::int64_t number, batch_number(id));
    TRY(const BatchRecord found, batch(id));
    if (is_over(found.status)) {
        return base::invalid(fmt::format("Batch '{}' is {} already.", id, to_string(found.status)));
    }
    TRY(const auto open, open_lines(id, 0, 1));
    if (!open.empty()) return damaged_batch(id, "a line has no result");
    TRY(const std::string output, add_result_file(found, number, false, now));
    TRY(const std::string errors, add_result_file(found, number, true, now));
    TRY_VOID(set_status(id, found.status, status, now));
    TRY(Statement update,
        db_->prepare("UPDATE batches SET output_file=?, error_file=? WHERE seq=?"));
    TRY_VOID(update.text(output).text(errors).integer(number).run());
    TRY_VOID(free_removed_files());
    return transaction.commit();
}

Result<std::vector<BatchLine>> JobStore::open_lines(std::string_view batch, std::int64_t after,
                                                    std::int64_t limit) const {
    TRY(const std::int64_t number, batch_number(batch));
    TRY(Statement select,
        db_->prepare("SELECT line, custom_id, \"offset\", bytes, (SELECT deaths FROM runs WHERE "
                     "runs.batch=lines.batch AND runs.line=lines.line) FROM lines "
                     "WHERE batch=? AND line>? AND NOT EXISTS(SELECT 1 FROM results WHERE "
                     "results.batch=lines.batch AND "
                     "results.line=lines.line) ORDER BY line LIMIT ?"));
    select.integer(number).integer(after).integer(limit);
    std::vector<BatchLine> lines;
    while (true) {
        TRY(const bool row, select.step());
        if (!row) return lines;
        BatchLine& line = lines.emplace_back();
        line.line = select.integer_at(0);
        line.custom_id = select.text_at(1);
        line.offset = select.integer_at(2);
        line.bytes = select.integer_at(3);
        line.deaths = select.integer_at(4);  // of what is not there: 0
    }
}

Status JobStore::set_under_way(const std::vector<LineOfBatch>& lines, bool under_way) {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY(Statement set,
        db_->prepare("INSERT INTO runs(batch, line, under_way) SELECT seq, ?, ? FROM "
                     "batches WHERE id=? ON CONFLICT(batch, line) DO UPDATE SET "
                     "under_way=excluded.under_way"));
    for (const LineOfBatch& one : lines) {
        TRY_VOID(set.integer(one.line).integer(under_way ? 1 : 0).text(one.batch).run());
    }
    return transaction.commit();
}

Status JobStore::begin_lines(const std::vector<LineOfBatch>& lines) {
    return set_under_way(lines, true);
}

Status JobStore::put_aside(const std::vector<LineOfBatch>& lines) {
    return set_under_way(lines, false);
}

Status JobStore::put_all_aside() {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY_VOID(db_->execute("UPDATE runs SET under_way=0 WHERE under_way=1"));
    return transaction.commit();
}

Result<JobCounts> JobStore::counts() const {
    TRY(Statement select,
        db_->prepare("SELECT status, count(*), CAST(sum(completed) AS INTEGER), CAST(sum(failed) "
                     "AS INTEGER), CAST(sum(total) AS INTEGER) FROM batches GROUP BY status"));
    JobCounts counts;
    while (true) {
        TRY(const bool row, select.step());
        if (!row) return counts;
        const std::int64_t number = select.integer_at(0);
        if (number < 0 || number >= static_cast<std::int64_t>(kBatchStatuses)) continue;
        const auto status = static_cast<std::size_t>(number);
        counts.batches[status] = select.integer_at(1);
        counts.lines_completed += select.integer_at(2);
        counts.lines_failed += select.integer_at(3);
        if (is_over(static_cast<BatchStatus>(status))) continue;
        counts.lines_open += select.integer_at(4) - select.integer_at(2) - select.integer_at(3);
    }
}

Result<std::int64_t> JobStore::bytes_kept() const {
    TRY(const std::optional<std::int64_t> taken, db_->bytes_taken());
    if (taken.has_value()) return *taken;
    // Results of batches that are over are in the sizes of their result files.
    return db_->number(
        "SELECT CAST((SELECT coalesce(sum(bytes), 0) FROM files) + (SELECT coalesce(sum(length("
        "text)), 0) FROM results WHERE batch IN (SELECT seq FROM batches WHERE status IN "
        "(0, 2, 3, 6))) AS INTEGER)");
}

std::string JobStore::hash_of_result(std::int64_t batch, std::int64_t line, std::int64_t outcome,
                                     std::string_view text) {
    return ValueHash().number(batch).number(line).number(outcome).text(text).bytes();
}

// The number of a batch whose lines may have results now; none otherwise.
Result<std::optional<std::int64_t>> JobStore::number_of_running(std::string_view id) const {
    TRY(Statement select, db_->prepare("SELECT seq FROM batches WHERE id=? AND status IN (2, 6)"));
    TRY(const bool found, select.text(id).step());
    return found ? std::optional(select.integer_at(0)) : std::nullopt;
}

Result<std::int64_t> JobStore::add_results(const std::vector<LineResult>& results) {
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY(Statement insert,
        db_->prepare("INSERT INTO results(batch, line, outcome, text, hash) "
                     "VALUES(?, ?, ?, ?, ?) ON CONFLICT(batch, line) DO NOTHING"));
    TRY(Statement ended, db_->prepare("DELETE FROM runs WHERE batch=? AND line=?"));
    std::map<std::string_view, std::optional<std::int64_t>> numbers;
    struct Added {
        std::int64_t completed = 0;
        std::int64_t failed = 0;
    };
    std::map<std::int64_t, Added> added;
    std::int64_t kept = 0;
    for (const LineResult& result : results) {
        if (!numbers.contains(result.batch)) {
            TRY(numbers[result.batch], number_of_running(result.batch));
        }
        const std::optional<std::int64_t> number = numbers[result.batch];
        if (!number.has_value()) continue;
        const int outcome = static_cast<int>(result.outcome);
        const std::string hash = hash_of_result(*number, result.line, outcome, result.text);
        insert.integer(*number).integer(result.line).integer(outcome).text(result.text).blob(hash);
        TRY_VOID(insert.run());
        TRY(const std::int64_t inserted, db_->changed());
        if (inserted == 0) continue;
        ++kept;
        TRY_VOID(ended.integer(*number).integer(result.line).run());
        added[*number].completed += result.outcome == Outcome::completed ? 1 : 0;
        added[*number].failed += result.outcome == Outcome::failed ? 1 : 0;
    }
    TRY(Statement count,
        db_->prepare("UPDATE batches SET completed=completed+?, failed=failed+? WHERE seq=?"));
    for (const auto& [number, sums] : added) {
        TRY_VOID(count.integer(sums.completed).integer(sums.failed).integer(number).run());
    }
    TRY_VOID(transaction.commit());
    return kept;
}

}  // namespace helix::store
