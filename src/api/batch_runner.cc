#include "api/batch_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "core/coordinator/coordinator.h"

namespace helix::api {

using base::Status;
using store::BatchStatus;

namespace {

constexpr base::Duration kIdle = base::from_seconds(60);
// How soon it is noticed that the cluster serves, a line may be tried again, or time is up.
constexpr base::Duration kPoll = base::from_ms(200);
constexpr base::Duration kAfterFailure = base::from_seconds(1);
constexpr base::Duration kTellTroubleEvery = base::from_seconds(30);
constexpr base::Duration kFirstRetry = base::from_ms(500);
constexpr base::Duration kLastRetry = base::from_seconds(32);
// A server error that comes this often becomes the line's answer. Only what happened while the
// cluster served counts, and no refusals because it was full.
constexpr int kMaxAttempts = 8;
constexpr std::int64_t kFetch = 256;
constexpr std::int64_t kNotRunAtOnce = 1000;

constexpr int kTooManyRequests = 429;
// How many processes may die while a line is under way; the last of them runs that line alone.
constexpr std::int64_t kMostDeaths = core::kMostDeaths;
constexpr std::int64_t kDeathsBeforeAlone = core::kDeathsBeforeAlone;

}  // namespace

void BatchRunner::wake_in(base::Duration time) {
    pause_ = std::min(pause_, time);
}

void BatchRunner::take(std::vector<LineAnswer> answers) {
    for (const LineAnswer& answer : answers) {
        const auto found = active_.find(answer.key.batch);
        if (found == active_.end()) continue;
        Active& active = found->second;
        const auto line = active.in_flight.find(answer.key.line);
        if (line == active.in_flight.end()) continue;  // abandoned meanwhile
        --in_flight_;
        if (put_back(active, answer)) {
            active.waiting.insert(active.in_flight.extract(line));
            aside_.push_back({answer.key.batch, answer.key.line});
            continue;
        }
        keep(answer.key, line->second, answer.status, answer.request_id, answer.body);
        active.retries.erase(answer.key.line);
        active.in_flight.erase(line);
    }
}

bool BatchRunner::put_back(Active& active, const LineAnswer& answer) {
    const bool full = answer.status == kTooManyRequests;
    if (!full && answer.status < 500) return false;
    if (kills_workers(answer.body)) return false;
    Retry& retry = active.retries[answer.key.line];
    const bool counts = !full && world_.can_send(active.model);
    if (counts && ++retry.attempts >= kMaxAttempts) return false;
    if (counts) {
        retry.again.failed(world_.now(), kFirstRetry, kLastRetry);
    } else {
        retry.again.not_tried(world_.now(), kFirstRetry);
    }
    LOG_DEBUG("batch {}: line {} is tried again after status {}", answer.key.batch, answer.key.line,
              answer.status);
    return true;
}

void BatchRunner::keep(const LineKey& key, const store::BatchLine& line, int status,
                       std::string_view request_id, std::string_view body) {
    store::LineResult& result = results_.emplace_back();
    result.batch = key.batch;
    result.line = key.line;
    result.outcome = status < 400 ? store::Outcome::completed : store::Outcome::failed;
    result.text = answer_line(key.batch, key.line, line.custom_id, status, request_id, body);
}

base::Duration BatchRunner::advance() {
    pause_ = kIdle;
    const Status status = try_advance();
    tell(status);
    return status.ok() ? pause_ : kAfterFailure;
}

// Trouble that stays is said now and then, and when it is over.
void BatchRunner::tell(const Status& status) {
    if (status.ok()) {
        if (!trouble_.empty()) LOG_INFO("batches go on");
        trouble_.clear();
        return;
    }
    const std::string& message = status.error().message;
    if (message == trouble_ && world_.now() - told_trouble_ < kTellTroubleEvery) return;
    LOG_ERROR("batches: {}", message);
    trouble_ = message;
    told_trouble_ = world_.now();
}

Status BatchRunner::try_advance() {
    TRY_VOID(commit());
    TRY(const auto batches, store_.unfinished());
    // Trouble with one batch must not hold up the others.
    Status first = base::Ok{};
    for (const store::BatchRecord& batch : batches) {
        const Status status = advance_batch(batch, active_[batch.id]);
        if (!status.ok() && first.ok()) first = status;
    }
    return first;
}

Status BatchRunner::commit() {
    if (!results_.empty()) TRY_VOID(store_.add_results(results_));
    results_.clear();
    if (!aside_.empty()) TRY_VOID(store_.put_aside(aside_));
    aside_.clear();
    return base::Ok{};
}

Status BatchRunner::stop() {
    const Status kept = commit();
    const Status aside = store_.put_all_aside();
    return kept.ok() ? aside : kept;
}

Status BatchRunner::advance_batch(const store::BatchRecord& batch, Active& active) {
    switch (batch.status) {
        case BatchStatus::validating:
            return validate(batch, active);
        case BatchStatus::in_progress:
            wake_in(kPoll);
            if (world_.unix_time() >= batch.expires_at) {
                return end_early(batch, active, BatchStatus::expired);
            }
            return run(batch, active);
        case BatchStatus::finalizing:
            LOG_INFO("batch {} is completed", batch.id);
            active_.erase(batch.id);
            return store_.close_batch(batch.id, BatchStatus::completed, world_.unix_time());
        case BatchStatus::cancelling:
            return end_early(batch, active, BatchStatus::cancelled);
        default:
            return base::Ok{};
    }
}

Status BatchRunner::validate(const store::BatchRecord& batch, Active& active) {
    wake_in({});
    if (active.validator == nullptr) {
        active.validator = std::make_unique<BatchValidator>(
            batch, limits_, [this](const std::string& model) { return world_.serves(model); });
    }
    const auto over = active.validator->step(store_);
    if (!over.ok() && over.error().code == base::Errc::internal) {
        const BatchProblem problem{"invalid_file", over.error().message, "", 0};
        active_.erase(batch.id);
        return store_.fail_batch(batch.id, nlohmann::json::array({to_json(problem)}).dump(), 0,
                                 world_.unix_time());
    }
    if (!over.ok()) return over.error();
    if (!*over) return base::Ok{};
    const std::unique_ptr<BatchValidator> done = std::move(active.validator);
    if (done->problems().empty()) {
        LOG_INFO("batch {} has {} requests", batch.id, done->lines().size());
        return store_.start_batch(batch.id, done->model(), done->lines(), world_.unix_time());
    }
    nlohmann::json errors = nlohmann::json::array();
    for (const BatchProblem& problem : done->problems()) errors.push_back(to_json(problem));
    active_.erase(batch.id);
    return store_.fail_batch(batch.id,
                             errors.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                             static_cast<std::int64_t>(done->lines().size()), world_.unix_time());
}

Status BatchRunner::run(const store::BatchRecord& batch, Active& active) {
    if (!batch.model.empty() && !world_.serves(batch.model)) {
        if (!active.told_of_model) {
            LOG_WARN("batch {} waits: it is for the model {}, which is not served here", batch.id,
                     batch.model);
        }
        active.told_of_model = true;
        return base::Ok{};
    }
    active.model = batch.model;
    if (world_.can_send(batch.model)) TRY_VOID(send_lines(batch, active));
    if (!active.all_fetched) TRY_VOID(fetch(batch, active));
    const bool over = active.all_fetched && active.fetched.empty() && active.in_flight.empty() &&
                      active.waiting.empty();
    if (!over) return base::Ok{};
    wake_in({});
    // A line that could not be sent has an answer that is not committed yet.
    TRY_VOID(commit());
    return store_.finalize_batch(batch.id, world_.unix_time());
}

Status BatchRunner::fetch(const store::BatchRecord& batch, Active& active) const {
    if (!active.fetched.empty()) return base::Ok{};
    TRY(const auto lines, store_.open_lines(batch.id, active.last_fetched, kFetch));
    active.fetched.assign(lines.begin(), lines.end());
    if (!lines.empty()) active.last_fetched = lines.back().line;
    active.all_fetched = static_cast<std::int64_t>(lines.size()) < kFetch;
    return base::Ok{};
}

// Nothing runs beside a line that was under way when processes died.
bool BatchRunner::may_send(const store::BatchLine& line, std::size_t chosen) const {
    const bool others = in_flight_ > 0 || chosen > 0;
    if (alone_ && others) return false;
    const bool suspect = line.deaths >= kDeathsBeforeAlone && line.deaths < kMostDeaths;
    if (suspect && others) return false;
    return in_flight_ + static_cast<std::int32_t>(chosen) < max_in_flight_;
}

Status BatchRunner::choose(const store::BatchRecord& batch, Active& active,
                           std::vector<store::BatchLine>& chosen) {
    if (in_flight_ == 0) alone_ = false;
    const auto take = [&](const store::BatchLine& line) {
        alone_ = line.deaths >= kDeathsBeforeAlone && line.deaths < kMostDeaths;
        chosen.push_back(line);
    };
    for (auto next = active.waiting.begin(); next != active.waiting.end();) {
        if (!active.retries[next->first].again.may_try(world_.now())) {
            ++next;
            continue;
        }
        if (!may_send(next->second, chosen.size())) return base::Ok{};
        take(next->second);
        next = active.waiting.erase(next);
    }
    while (true) {
        if (active.fetched.empty() && !active.all_fetched) TRY_VOID(fetch(batch, active));
        if (active.fetched.empty()) return base::Ok{};
        if (!may_send(active.fetched.front(), chosen.size())) return base::Ok{};
        take(active.fetched.front());
        active.fetched.pop_front();
    }
}

Status BatchRunner::send_lines(const store::BatchRecord& batch, Active& active) {
    std::vector<store::BatchLine> chosen;
    Status status = choose(batch, active, chosen);
    std::vector<store::LineOfBatch> begun;
    for (const store::BatchLine& line : chosen) begun.push_back({batch.id, line.line});
    if (status.ok() && !begun.empty()) status = store_.begin_lines(begun);
    for (store::BatchLine& line : chosen) {
        if (status.ok()) {
            status = send(batch, active, std::move(line));
        } else {
            active.waiting.emplace(line.line, std::move(line));
        }
    }
    return status;
}

Status BatchRunner::send(const store::BatchRecord& batch, Active& active, store::BatchLine line) {
    const LineKey key{batch.id, line.line};
    const auto text = store_.read(batch.input_file, line.offset, line.bytes);
    if (!text.ok() && text.error().code == base::Errc::internal) {
        const ApiError damaged = from_store(text.error());
        keep(key, line, damaged.status, "", error_json(damaged));
        return base::Ok{};
    }
    if (!text.ok()) {
        active.waiting.emplace(line.line, std::move(line));
        return text.error();
    }
    LineRequest request;
    request.head.custom_id = line.custom_id;
    std::optional<ApiError> error;
    if (line.deaths >= kMostDeaths) error = kills_server_error();
    if (!error) error = read_line(*text, limits_.request, request);
    if (!error) error = prepare_line(batch.id, request);
    if (error) {
        keep(key, line, error->status, "", error_json(*error));
        return base::Ok{};
    }
    ++in_flight_;
    active.in_flight.emplace(line.line, std::move(line));
    world_.send(key, batch.endpoint, request.body.dump());
    return base::Ok{};
}

Status BatchRunner::end_early(const store::BatchRecord& batch, Active& active, BatchStatus status) {
    for (const auto& [line, sent] : active.in_flight) world_.abandon({batch.id, line});
    in_flight_ -= static_cast<std::int32_t>(active.in_flight.size());
    active_.erase(batch.id);
    const bool expired = status == BatchStatus::expired;
    while (true) {
        TRY(const auto open, store_.open_lines(batch.id, 0, kNotRunAtOnce));
        if (open.empty()) break;
        std::vector<store::LineResult> results;
        for (const store::BatchLine& line : open) {
            store::LineResult& result = results.emplace_back();
            result.batch = batch.id;
            result.line = line.line;
            result.outcome = store::Outcome::not_run;
            result.text = not_run_line(
                batch.id, line.line, line.custom_id, expired ? "batch_expired" : "batch_cancelled",
                expired ? "The batch's completion window ended before this request had run."
                        : "The batch was cancelled before this request had run.");
        }
        TRY(const std::int64_t kept, store_.add_results(results));
        if (kept == 0) {
            return base::Error{base::Errc::internal, "The stored batch '" + batch.id +
                                                         "' is damaged: it takes no results."};
        }
    }
    LOG_INFO("batch {} is {}", batch.id, store::to_string(status));
    return store_.close_batch(batch.id, status, world_.unix_time());
}

}  // namespace helix::api
