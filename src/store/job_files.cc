// The files of a JobStore: uploads in pieces, results of batches as views.

#include <fmt/format.h>

#include <algorithm>

#include "store/job_store.h"
#include "store/value_hash.h"

namespace helix::store {

using base::Errc;
using base::Error;
using base::Result;
using base::Status;

namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;
constexpr std::int64_t kContentPiece = std::int64_t{1} << 20;
// Lines of a result file that are looked at together.
constexpr std::int64_t kResultsAtOnce = 64;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;  // no file has so many
constexpr const char* kFileColumns = "id, name, purpose, bytes, created_at";

FileRecord file_of(const Statement& row) {
    FileRecord file;
    file.id = row.text_at(0);
    file.name = row.text_at(1);
    file.purpose = row.text_at(2);
    file.bytes = row.integer_at(3);
    file.created_at = row.integer_at(4);
    return file;
}

Error no_file(std::string_view id) {
    return {Errc::not_found, fmt::format("No such file: '{}'.", id)};
}

Error damaged_file(std::string_view id, const std::string& how) {
    return {Errc::internal, fmt::format("The stored file '{}' is damaged: {}.", id, how)};
}

std::string hash_of_piece(std::int64_t file, std::int64_t piece, std::string_view data) {
    return ValueHash().number(file).number(piece).text(data).bytes();
}

}  // namespace

Status JobStore::write_pieces(std::int64_t file, std::string_view content) const {
    TRY(Statement insert,
        db_->prepare("INSERT INTO pieces(file, piece, data, hash) VALUES(?, ?, ?, ?)"));
    for (std::int64_t piece = 0; !content.empty(); ++piece) {
        const std::string_view data = content.substr(0, kPieceBytes);
        const std::string hash = hash_of_piece(file, piece, data);
        TRY_VOID(insert.integer(file).integer(piece).blob(data).blob(hash).run());
        content.remove_prefix(data.size());
    }
    return base::Ok{};
}

Result<FileRecord> JobStore::add_file(std::string_view name, std::string_view purpose,
                                      std::string_view content, std::int64_t now) {
    FileRecord file;
    TRY(file.id, new_id("file-"));
    file.name = name;
    file.purpose = purpose;
    file.bytes = static_cast<std::int64_t>(content.size());
    file.created_at = now;
    TRY(Transaction transaction, Transaction::begin(*db_));
    TRY(Statement insert,
        db_->prepare("INSERT INTO files(id, name, purpose, bytes, created_at) VALUES(?,?,?,?,?) "
                     "RETURNING seq"));
    insert.text(file.id).text(name).text(purpose).integer(file.bytes).integer(file.created_at);
    TRY(const bool made, insert.step());
    if (!made) return Error{Errc::io, db_->path() + ": took a file and gave no number"};
    const std::int64_t number = insert.integer_at(0);
    insert.reset();
    TRY_VOID(write_pieces(number, content));
    TRY_VOID(transaction.commit());
    return file;
}

Result<FileRecord> JobStore::file(std::string_view id) const {
    TRY(Statement select,
        db_->prepare(fmt::format("SELECT {} FROM files WHERE id=? AND removed=0", kFileColumns)));
    TRY(const bool found, select.text(id).step());
    if (!found) return no_file(id);
    return file_of(select);
}

Result<std::vector<FileRecord>> JobStore::files(const ListQuery& query) const {
    std::int64_t after = 0;
    if (!query.after.empty()) {
        TRY(Statement find, db_->prepare("SELECT seq FROM files WHERE id=?"));
        TRY(const bool found, find.text(query.after).step());
        if (!found) return no_file(query.after);
        after = find.integer_at(0);
    }
    const bool up = query.oldest_first;
    TRY(Statement select,
        db_->prepare(fmt::format("SELECT {} FROM files WHERE removed=0 AND (?='' OR purpose=?) "
                                 "AND (?=0 OR seq {} ?) ORDER BY seq {} LIMIT ?",
                                 kFileColumns, up ? ">" : "<", up ? "ASC" : "DESC")));
    select.text(query.purpose).text(query.purpose).integer(after).integer(after);
    select.integer(query.limit);
    std::vector<FileRecord> files;
    while (true) {
        TRY(const bool row, select.step());
        if (!row) return files;
        files.push_back(file_of(select));
    }
}

Status JobStore::remove_file(std::string_view id) {
    TRY_VOID(file(id));
    TRY(Transaction transaction, Transaction::begin(*db_));
    // The results that a result file shows.
    TRY(Statement results,
        db_->prepare(
            "DELETE FROM results WHERE batch=(SELECT batch FROM files WHERE id=?) AND "
            "CASE WHEN outcome<>0 THEN 1 ELSE 0 END=(SELECT errors FROM files WHERE id=?)"));
    TRY_VOID(results.text(id).text(id).run());
    TRY(Statement mark, db_->prepare("UPDATE files SET removed=1 WHERE id=?"));
    TRY_VOID(mark.text(id).run());
    TRY_VOID(free_removed_files());
    TRY_VOID(transaction.commit());
    return db_->give_room_back();
}

Status JobStore::free_removed_files() const {
    return db_->execute(
        "DELETE FROM files WHERE removed<>0 AND NOT EXISTS(SELECT 1 FROM batches "
        "WHERE input_file=files.id AND status IN (0, 2, 3, 6))");
}

Result<std::string> JobStore::content(std::string_view id) const {
    TRY(const std::int64_t bytes, content_bytes(id));
    ContentPlace place;
    std::string content;
    while (true) {
        TRY(const std::string piece, read_on(id, place, kContentPiece));
        if (piece.empty()) break;
        content += piece;
    }
    if (std::ssize(content) != bytes) return damaged_file(id, "a part of it is missing");
    return content;
}

Result<JobStore::ContentOf> JobStore::content_of(std::string_view id) const {
    TRY(Statement select, db_->prepare("SELECT seq, batch, errors, bytes FROM files WHERE id=?"));
    TRY(const bool found, select.text(id).step());
    if (!found) return no_file(id);
    ContentOf content;
    content.file = select.integer_at(0);
    if (!select.null_at(1)) content.batch = select.integer_at(1);
    content.errors = select.integer_at(2) != 0;
    content.bytes = select.integer_at(3);
    return content;
}

Result<std::int64_t> JobStore::content_bytes(std::string_view id) const {
    TRY(const ContentOf content, content_of(id));
    TRY(Statement size,
        db_->prepare(content.batch
                         ? "SELECT coalesce(sum(length(CAST(text AS BLOB)) + 1), 0) FROM "
                           "results WHERE batch=? AND CASE WHEN outcome<>0 THEN 1 ELSE 0 END=?"
                         : "SELECT coalesce(sum(length(data)), 0) FROM pieces WHERE "
                           "file=?"));
    size.integer(content.batch.value_or(content.file));
    if (content.batch) size.integer(content.errors ? 1 : 0);
    TRY(const bool row, size.step());
    const std::int64_t there = row ? size.integer_at(0) : 0;
    if (there == content.bytes) return there;
    return damaged_file(
        id, fmt::format("{} bytes are there, it was stored with {}", there, content.bytes));
}

Result<std::string> JobStore::read_on(std::string_view id, ContentPlace& place,
                                      std::int64_t bytes) const {
    TRY_VOID(file(id));
    TRY(const ContentOf content, content_of(id));
    if (content.batch) return read_results(id, *content.batch, content.errors, place, bytes);
    TRY(std::string piece, read(id, place.next, bytes));
    place.next += static_cast<std::int64_t>(piece.size());
    return piece;
}

Result<std::string> JobStore::read(std::string_view id, std::int64_t offset,
                                   std::int64_t bytes) const {
    if (offset < 0 || bytes < 0 || offset > kMostBytes || bytes > kMostBytes) {
        return damaged_file(id, fmt::format("{} bytes at {} of it are asked for", bytes, offset));
    }
    const auto piece_bytes = static_cast<std::int64_t>(kPieceBytes);
    const std::int64_t first = offset / piece_bytes;
    const std::int64_t last = (offset + bytes) / piece_bytes;
    TRY(Statement select,
        db_->prepare("SELECT data, piece, hash, file FROM pieces WHERE file=(SELECT seq FROM files "
                     "WHERE id=?) AND piece BETWEEN ? AND ? ORDER BY piece"));
    select.text(id).integer(first).integer(last);
    std::string content;
    auto skip = static_cast<std::size_t>(offset % piece_bytes);
    std::int64_t expected = first;
    while (content.size() < static_cast<std::size_t>(bytes)) {
        TRY(const bool row, select.step());
        if (!row) break;
        const std::string_view data = select.blob_at(0);
        if (select.integer_at(1) != expected ||
            select.blob_at(2) != hash_of_piece(select.integer_at(3), expected, data)) {
            return damaged_file(id, fmt::format("piece {} of it is not what was stored", expected));
        }
        ++expected;
        const std::size_t wanted = static_cast<std::size_t>(bytes) - content.size();
        if (skip < data.size()) content += data.substr(skip, wanted);
        skip = 0;
    }
    return content;
}

Result<std::string> JobStore::read_results(std::string_view id, std::int64_t batch, bool errors,
                                           ContentPlace& place, std::int64_t bytes) const {
    TRY(Statement select,
        db_->prepare("SELECT text, line, hash, outcome FROM results WHERE batch=? AND CASE WHEN "
                     "outcome<>0 THEN 1 ELSE 0 END=? AND line>? ORDER BY line LIMIT ?"));
    std::string content;
    while (std::ssize(content) < bytes) {
        select.reset();
        select.integer(batch).integer(errors ? 1 : 0).integer(place.next).integer(kResultsAtOnce);
        std::int64_t seen = 0;
        for (; std::ssize(content) < bytes; ++seen) {
            TRY(const bool row, select.step());
            if (!row) break;
            const std::int64_t line = select.integer_at(1);
            const std::string_view text = select.blob_at(0);
            if (select.blob_at(2) != hash_of_result(batch, line, select.integer_at(3), text)) {
                return damaged_file(
                    id, fmt::format("the result of line {} is not what was stored", line));
            }
            content += text;
            content += '\n';
            place.next = line;
        }
        if (seen < kResultsAtOnce) break;
    }
    return content;
}

// The id of the new file; "" when it would be empty.
Result<std::string> JobStore::add_result_file(const BatchRecord& batch, std::int64_t number,
                                              bool errors, std::int64_t now) const {
    TRY(Statement size,
        db_->prepare("SELECT count(*), coalesce(sum(length(CAST(text AS BLOB)) + 1), 0) FROM "
                     "results WHERE batch=? AND CASE WHEN outcome<>0 THEN 1 ELSE 0 END=?"));
    TRY(const bool row, size.integer(number).integer(errors ? 1 : 0).step());
    if (!row || size.integer_at(0) == 0) return std::string();
    TRY(std::string id, new_id("file-"));
    const std::string name = batch.id + (errors ? "_error.jsonl" : "_output.jsonl");
    TRY(Statement insert, db_->prepare("INSERT INTO files(id, name, purpose, bytes, created_at, "
                                       "batch, errors) VALUES(?, ?, 'batch_output', ?, ?, ?, ?)"));
    insert.text(id).text(name).integer(size.integer_at(1)).integer(now).integer(number);
    TRY_VOID(insert.integer(errors ? 1 : 0).run());
    return id;
}

}  // namespace helix::store
