#include "api/handlers.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/batch_line.h"
#include "api/completion_request.h"
#include "api/error.h"
#include "api/field_reader.h"
#include "api/jobs.h"
#include "api/preparation.h"
#include "net/http_server.h"
#include "net/multipart.h"

namespace helix::api::handle {
namespace {

using nlohmann::json;
using store::BatchRecord;
using store::BatchStatus;
using store::FileRecord;
using store::JobStore;

constexpr std::size_t kMaxFilename = 255;
constexpr std::int64_t kDefaultBatches = 20;
constexpr std::int64_t kMostBatches = 100;
constexpr std::int64_t kMostFiles = 10'000;

net::HttpResponse refusal(const base::Error& error) {
    return error_response(from_store(error));
}

// ---- what clients see

json to_json(const FileRecord& file) {
    return {{"id", file.id},
            {"object", "file"},
            {"bytes", file.bytes},
            {"created_at", file.created_at},
            {"expires_at", nullptr},
            {"filename", file.name},
            {"purpose", file.purpose},
            {"status", "processed"},
            {"status_details", nullptr}};
}

json or_null(const std::string& text) {
    return text.empty() ? json() : json(text);
}

json to_json(const BatchRecord& batch) {
    const auto at = [&batch](BatchStatus status) {
        const std::int64_t time = batch.at[static_cast<std::size_t>(status)];
        return time == 0 ? json() : json(time);
    };
    json out = {
        {"id", batch.id},
        {"object", "batch"},
        {"endpoint", batch.endpoint},
        {"model", or_null(batch.model)},
        {"errors", nullptr},
        {"input_file_id", batch.input_file},
        {"completion_window", batch.window},
        {"status", store::to_string(batch.status)},
        {"output_file_id", or_null(batch.output_file)},
        {"error_file_id", or_null(batch.error_file)},
        {"created_at", at(BatchStatus::validating)},
        {"in_progress_at", at(BatchStatus::in_progress)},
        {"expires_at", batch.expires_at},
        {"finalizing_at", at(BatchStatus::finalizing)},
        {"completed_at", at(BatchStatus::completed)},
        {"failed_at", at(BatchStatus::failed)},
        {"expired_at", at(BatchStatus::expired)},
        {"cancelling_at", at(BatchStatus::cancelling)},
        {"cancelled_at", at(BatchStatus::cancelled)},
        {"request_counts",
         {{"total", batch.total}, {"completed", batch.completed}, {"failed", batch.failed}}},
        {"metadata", json::parse(batch.metadata)}};
    if (!batch.errors.empty()) {
        out["errors"] = {{"object", "list"}, {"data", json::parse(batch.errors)}};
    }
    return out;
}

template <typename Record>
net::HttpResponse one(const base::Result<Record>& record) {
    return record.ok() ? json_response(to_json(*record)) : refusal(record.error());
}

// records has one more than limit when there are more.
template <typename Record>
net::HttpResponse list_response(std::vector<Record> records, std::int64_t limit) {
    const bool more = static_cast<std::int64_t>(records.size()) > limit;
    if (more) records.pop_back();
    json data = json::array();
    for (const Record& record : records) data.push_back(to_json(record));
    return json_response({{"object", "list"},
                          {"first_id", records.empty() ? json() : json(records.front().id)},
                          {"last_id", records.empty() ? json() : json(records.back().id)},
                          {"has_more", more},
                          {"data", std::move(data)}});
}

std::optional<ApiError> read_list(const net::HttpRequest& request, std::int64_t standard,
                                  std::int64_t most, store::ListQuery& query) {
    query.after = net::query_value(request.query, "after");
    query.purpose = net::query_value(request.query, "purpose");
    query.limit = standard;
    const std::string limit = net::query_value(request.query, "limit");
    if (!limit.empty()) {
        const char* end = limit.data() + limit.size();
        const auto read = std::from_chars(limit.data(), end, query.limit);
        if (read.ec != std::errc() || read.ptr != end || query.limit < 1 || query.limit > most) {
            return bad_field("limit", fmt::format("'limit': expected 1 to {}", most));
        }
    }
    const std::string order = net::query_value(request.query, "order");
    if (!order.empty() && order != "asc" && order != "desc") {
        return bad_field("order", "'order': expected asc or desc");
    }
    query.oldest_first = order == "asc";
    return {};
}

// The time of a request, and how much may be kept.
struct Terms {
    std::int64_t now = 0;
    std::int64_t max_kept_bytes = 0;
};

// The refusal if there is no room for this much more.
std::optional<net::HttpResponse> no_room(const JobStore& store, const Terms& terms,
                                         std::size_t more) {
    const auto kept = store.bytes_kept();
    if (!kept.ok()) return refusal(kept.error());
    if (static_cast<std::int64_t>(more) <= terms.max_kept_bytes - *kept) return {};
    ApiError error;
    error.status = 507;
    error.message = fmt::format(
        "The files, batches and results that are kept here take {} of at most {} bytes "
        "(--kept-limit); delete files that are not needed any more.",
        *kept, terms.max_kept_bytes);
    error.type = "server_error";
    error.code = "storage_full";
    return error_response(error);
}

// ---- files

net::HttpResponse keep_file(JobStore& store, const net::HttpRequest& request, const Terms& terms) {
    const auto form = net::parse_form(request.header("content-type"), request.body_text());
    if (!form.ok()) return refusal(form.error());
    const net::FormPart* file = nullptr;
    std::optional<std::string> purpose;
    for (const net::FormPart& part : *form) {
        if (part.name == "file") file = &part;
        if (part.name == "purpose") purpose = part.content;
    }
    if (file == nullptr) return error_response(bad_field("file", "'file' is missing"));
    if (purpose != "batch") {
        return error_response(bad_field(
            "purpose", purpose ? fmt::format("'purpose': this server keeps files for batches only: "
                                             "expected batch, got '{:.40}'",
                                             *purpose)
                               : "'purpose' is missing: expected batch"));
    }
    const std::string name = file->filename.empty() ? "upload" : file->filename;
    if (name.size() > kMaxFilename) {
        return error_response(bad_field(
            "file", fmt::format("'file': its name is longer than {} bytes", kMaxFilename)));
    }
    if (auto full = no_room(store, terms, file->content.size())) return *std::move(full);
    return one(store.add_file(name, *purpose, file->content, terms.now));
}

net::HttpResponse files_response(JobStore& store, const net::HttpRequest& request) {
    store::ListQuery query;
    if (const auto error = read_list(request, kMostFiles, kMostFiles, query)) {
        return error_response(*error);
    }
    const std::int64_t limit = query.limit++;
    auto files = store.files(query);
    return files.ok() ? list_response(std::move(files).value(), limit) : refusal(files.error());
}

net::HttpResponse remove_file(JobStore& store, const std::string& id) {
    const base::Status removed = store.remove_file(id);
    if (!removed.ok()) return refusal(removed.error());
    return json_response({{"id", id}, {"object", "file"}, {"deleted", true}});
}

// ---- batches

// Reads "24h", as OpenAI has it, and other numbers of minutes, hours and days. Nothing for anything
// else, or for more than a year.
std::optional<std::int64_t> window_seconds(std::string_view text) {
    constexpr std::int64_t kYear = std::int64_t{365} * 24 * 3600;
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc() || end - read.ptr != 1 || number < 1 || number > kYear) return {};
    const char unit = *read.ptr;
    const std::int64_t seconds = unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86400 : 0;
    if (seconds == 0 || number * seconds > kYear) return {};
    return number * seconds;
}

std::optional<ApiError> read_batch(const net::HttpRequest& request, std::int64_t now,
                                   store::NewBatch& batch) {
    nlohmann::ordered_json body;
    std::int64_t bytes = 0;
    if (auto error = measure_json(request.body, RequestLimits{}, bytes)) return error;
    if (auto error = parse_json_object(request.body, body)) return error;
    FieldReader fields(body);
    fields.text(field::kInputFile, batch.input_file);
    fields.text(field::kBatchEndpoint, batch.endpoint);
    fields.text(field::kWindow, batch.window);
    if (fields.failed()) return fields.error();
    if (batch.input_file.empty()) return bad_field("input_file_id", "'input_file_id' is missing");
    if (!is_batch_endpoint(batch.endpoint)) {
        return bad_field("endpoint", fmt::format("'endpoint': expected one of {}, got '{:.100}'",
                                                 list_batch_endpoints(), batch.endpoint));
    }
    const auto window = window_seconds(batch.window);
    if (!window) {
        return bad_field("completion_window",
                         fmt::format("'completion_window': expected 24h, or another number of "
                                     "minutes (m), hours (h) or days (d), got '{:.40}'",
                                     batch.window));
    }
    batch.expires_at = now + *window;
    read_metadata(fields, RequestLimits{}, batch.metadata);
    return fields.error();
}

net::HttpResponse start_batch(JobStore& store, const net::HttpRequest& request,
                              const Terms& terms) {
    store::NewBatch batch;
    if (const auto error = read_batch(request, terms.now, batch)) return error_response(*error);
    const auto file = store.file(batch.input_file);
    if (!file.ok()) return refusal(file.error());
    if (file->purpose != "batch") {
        return error_response(
            bad_field("input_file_id", "'input_file_id': this file's purpose is not batch"));
    }
    // The results will take about as much room as the requests.
    if (auto full = no_room(store, terms, static_cast<std::size_t>(file->bytes))) {
        return *std::move(full);
    }
    return one(store.add_batch(batch, terms.now));
}

net::HttpResponse batches_response(JobStore& store, const net::HttpRequest& request) {
    store::ListQuery query;
    if (const auto error = read_list(request, kDefaultBatches, kMostBatches, query)) {
        return error_response(*error);
    }
    const std::int64_t limit = query.limit++;
    auto batches = store.batches(query);
    return batches.ok() ? list_response(std::move(batches).value(), limit)
                        : refusal(batches.error());
}

// ---- handlers

using Request = net::HttpRequest;

Terms terms_of(const ApiContext& context) {
    return {context.options.unix_time(), context.options.jobs->max_kept_bytes};
}

ApiError jobs_off() {
    return {404,
            "This server keeps no files and runs no batches: it was started without --state-dir "
            "or --state.",
            "invalid_request_error",
            "",
            "no_state_dir",
            0};
}

}  // namespace

void upload_file(ApiContext& context, const Exchange& exchange, Words) {
    context.jobs->ask(exchange, [terms = terms_of(context)](JobStore& store, const Request& r) {
        return keep_file(store, r, terms);
    });
}

void list_files(ApiContext& context, const Exchange& exchange, Words) {
    context.jobs->ask(exchange, files_response);
}

void get_file(ApiContext& context, const Exchange& exchange, Words words) {
    context.jobs->ask(exchange, [id = std::string(words[0])](JobStore& store, const Request&) {
        return one(store.file(id));
    });
}

void delete_file(ApiContext& context, const Exchange& exchange, Words words) {
    context.jobs->ask(exchange, [id = std::string(words[0])](JobStore& store, const Request&) {
        return remove_file(store, id);
    });
}

void download_file(ApiContext& context, const Exchange& exchange, Words words) {
    context.jobs->download(exchange, std::string(words[0]));
}

void create_batch(ApiContext& context, const Exchange& exchange, Words) {
    context.jobs->ask(exchange, [terms = terms_of(context)](JobStore& store, const Request& r) {
        return start_batch(store, r, terms);
    });
}

void list_batches(ApiContext& context, const Exchange& exchange, Words) {
    context.jobs->ask(exchange, batches_response);
}

void get_batch(ApiContext& context, const Exchange& exchange, Words words) {
    context.jobs->ask(exchange, [id = std::string(words[0])](JobStore& store, const Request&) {
        return one(store.batch(id));
    });
}

void cancel_batch(ApiContext& context, const Exchange& exchange, Words words) {
    context.jobs->ask(exchange, [id = std::string(words[0]), now = context.options.unix_time()](
                                    JobStore& store, const Request&) {
        return one(store.cancel_batch(id, now));
    });
}

void jobs_are_off(ApiContext& context, const Exchange& exchange) {
    context.respond(*exchange, error_response(jobs_off()));
}

}  // namespace helix::api::handle
