#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/database.h"

// Files and batches (OpenAI's terms), kept in one database. Contents are in the database, in
// pieces, so that one commit decides about a file and all that is said of it, and no crash leaves
// one without the other. The two result files of a batch are views of its lines' results; they are
// never written a second time.

namespace helix::store {

struct FileRecord {
    std::string id;
    std::string name;
    std::string purpose;
    std::int64_t bytes = 0;
    std::int64_t created_at = 0;  // Unix seconds, as all times here
};

// Written to the database as numbers: never renumber.
enum class BatchStatus : std::uint8_t {
    validating = 0,
    failed = 1,
    in_progress = 2,
    finalizing = 3,
    completed = 4,
    expired = 5,
    cancelling = 6,
    cancelled = 7,
};
constexpr std::size_t kBatchStatuses = 8;
const char* to_string(BatchStatus status);
// Whether a batch is over: nothing of it will change any more.
bool is_over(BatchStatus status);

struct BatchRecord {
    std::string id;
    std::string input_file;
    std::string endpoint;  // "/v1/chat/completions"
    std::string window;    // "24h", as it was asked for
    std::string metadata;  // a JSON object, or "null"
    std::string
        model;  // the model that its lines name; "" = they name none, or it is not validated yet
    std::string errors;  // a JSON array; "" = none
    BatchStatus status = BatchStatus::validating;
    std::string output_file;  // "" = none (yet)
    std::string error_file;
    std::int64_t expires_at = 0;
    std::array<std::int64_t, kBatchStatuses> at{};  // when it reached each status; 0 = it did not
    std::int64_t total = 0;
    std::int64_t completed = 0;
    std::int64_t failed = 0;
};

struct NewBatch {
    std::string input_file;
    std::string endpoint;
    std::string window;
    std::string metadata;
    std::int64_t expires_at = 0;
};

// A request of a batch: a line of its input file. Lines are numbered from 1, empty ones counted.
struct BatchLine {
    std::int64_t line = 0;
    std::string custom_id;
    std::int64_t offset = 0;  // in the input file
    std::int64_t bytes = 0;   // without the line end
    std::int64_t deaths = 0;  // how many processes died while it was under way
};

struct LineOfBatch {
    std::string batch;
    std::int64_t line = 0;
};

enum class Outcome : std::uint8_t {
    completed = 0,  // in the output file
    failed = 1,     // it ran; in the error file
    not_run = 2,    // cancelled or expired; in the error file
};

struct LineResult {
    std::string batch;
    std::int64_t line = 0;
    Outcome outcome = Outcome::completed;
    std::string text;  // the line of the result file, without its end
};

// What a list shows: newest first unless oldest_first, and with `after` what follows the record of
// this id.
struct ListQuery {
    std::string after;
    std::string purpose;  // of files; "" = any
    std::int64_t limit = 20;
    bool oldest_first = false;
};

// How far a file's content was read.
struct ContentPlace {
    std::int64_t next =
        0;  // in an uploaded file the next byte, in a result file the last line that was read
};

// Counts over all batches that were ever made.
struct JobCounts {
    std::array<std::int64_t, kBatchStatuses> batches{};
    std::int64_t lines_completed = 0;
    std::int64_t lines_failed = 0;  // in error files
    std::int64_t lines_open = 0;    // without a result, of batches that are not over
};

// Promises: what a call has returned as done is kept through any crash; a call that was cut short
// by one has done all or nothing; a line of a batch has at most one result; contents are given out
// only as they were stored. One thread at a time.
//
// Error internal: what is stored was damaged; it names the file or batch, and trying again does not
// help.
class JobStore {
  public:
    // Opens helix.db in the folder, or what is shared; all is made, for its owner only, when it is
    // not there. Errors: another process has it, or it is away (unavailable), another coordinator
    // has taken over (denied), it is none of ours, or it is of a newer version (invalid).
    static base::Result<std::unique_ptr<JobStore>> open(const Place& place);

    // ---- files; not_found names the id
    base::Result<FileRecord> add_file(std::string_view name, std::string_view purpose,
                                      std::string_view content, std::int64_t now);
    base::Result<FileRecord> file(std::string_view id) const;
    base::Result<std::vector<FileRecord>> files(const ListQuery& query) const;
    // Removes a file. What a batch still reads goes when that batch is over, and nobody else sees
    // it meanwhile.
    base::Status remove_file(std::string_view id);
    base::Result<std::string> content(std::string_view id) const;
    // How long the content is that is there, which is what read_on() will give in all. Works for a
    // removed file, too.
    base::Result<std::int64_t> content_bytes(std::string_view id) const;
    // The content from this place on, about as many bytes as asked for, but whole lines of a result
    // file; "" at its end.
    base::Result<std::string> read_on(std::string_view id, ContentPlace& place,
                                      std::int64_t bytes) const;
    // Bytes of an uploaded file, even of one that was removed; fewer at its end.
    base::Result<std::string> read(std::string_view id, std::int64_t offset,
                                   std::int64_t bytes) const;

    // ---- batches
    base::Result<BatchRecord> add_batch(const NewBatch& batch, std::int64_t now);
    base::Result<BatchRecord> batch(std::string_view id) const;
    base::Result<std::vector<BatchRecord>> batches(const ListQuery& query) const;
    // The batches that are not over, oldest first.
    base::Result<std::vector<BatchRecord>> unfinished() const;
    // validating -> in_progress. The lines' custom ids must differ.
    base::Status start_batch(std::string_view id, std::string_view model,
                             const std::vector<BatchLine>& lines, std::int64_t now);
    // validating -> failed.
    base::Status fail_batch(std::string_view id, std::string_view errors, std::int64_t total,
                            std::int64_t now);
    // validating, in_progress -> cancelling. Error invalid when the batch is over or nearly so.
    base::Result<BatchRecord> cancel_batch(std::string_view id, std::int64_t now);
    // in_progress -> finalizing.
    base::Status finalize_batch(std::string_view id, std::int64_t now);
    // Ends a batch as completed, expired or cancelled, and makes its result files. Every line must
    // have a result.
    base::Status close_batch(std::string_view id, BatchStatus status, std::int64_t now);

    // The lines without a result that follow this one, in order.
    base::Result<std::vector<BatchLine>> open_lines(std::string_view batch, std::int64_t after,
                                                    std::int64_t limit) const;
    base::Result<JobCounts> counts() const;
    // What all that is kept takes on disk, or how long it is where that cannot be said; what was
    // deleted does not count.
    base::Result<std::int64_t> bytes_kept() const;
    // Notes that these lines are under way until they have a result or are put aside. If this
    // process dies before, that counts against each of them (BatchLine::deaths).
    base::Status begin_lines(const std::vector<LineOfBatch>& lines);
    base::Status put_aside(const std::vector<LineOfBatch>& lines);
    // Notes that nothing is under way any more: this process ends in good order.
    base::Status put_all_aside();
    // Adds all results or none, in one transaction. Results of lines that have one already are
    // dropped. Returns how many were added.
    base::Result<std::int64_t> add_results(const std::vector<LineResult>& results);

  private:
    explicit JobStore(std::unique_ptr<Database> database) : db_(std::move(database)) {}
    static base::Result<std::string> new_id(std::string_view prefix);
    base::Result<std::int64_t> batch_number(std::string_view id) const;
    base::Status set_status(std::string_view id, BatchStatus from, BatchStatus to,
                            std::int64_t now) const;
    base::Status write_pieces(std::int64_t file, std::string_view content) const;
    base::Result<std::string> add_result_file(const BatchRecord& batch, std::int64_t number,
                                              bool errors, std::int64_t now) const;
    // Where the content of a file lies, removed or not.
    struct ContentOf {
        std::int64_t file = 0;
        std::optional<std::int64_t> batch;  // of a result file
        bool errors = false;
        std::int64_t bytes = 0;  // that were stored
    };
    base::Result<ContentOf> content_of(std::string_view id) const;
    base::Result<std::string> read_results(std::string_view id, std::int64_t batch, bool errors,
                                           ContentPlace& place, std::int64_t bytes) const;
    static std::string hash_of_result(std::int64_t batch, std::int64_t line, std::int64_t outcome,
                                      std::string_view text);
    base::Result<std::optional<std::int64_t>> number_of_running(std::string_view id) const;
    base::Status free_removed_files() const;
    base::Status set_under_way(const std::vector<LineOfBatch>& lines, bool under_way);

    std::unique_ptr<Database> db_;
};

}  // namespace helix::store
