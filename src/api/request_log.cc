#include "api/request_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/protocol/describe.h"

namespace helix::api {
namespace {

using nlohmann::json;

json or_null(double value) {
    return value < 0 ? json() : json(value);
}

json layers_json(core::LayerRange layers) {
    return json::array({layers.begin, layers.end});
}

json pipeline_json(const core::Pipeline& pipeline) {
    json stages = json::array();
    for (const core::Stage& stage : pipeline) {
        stages.push_back({{"worker", stage.worker.value}, {"layers", layers_json(stage.layers)}});
    }
    return stages;
}

json record_json(const RequestRecord& record) {
    json attempts = json::array();
    for (const RequestRecord::Attempt& attempt : record.attempts) {
        attempts.push_back({{"at_s", attempt.at_s},
                            {"reason", core::name_of(attempt.reason)},
                            {"pipeline", pipeline_json(attempt.pipeline)}});
    }
    return {{"id", record.id},
            {"choice", record.choice},
            {"endpoint", record.endpoint},
            {"stream", record.stream},
            {"created", record.created},
            {"state", record.state},
            {"reason", record.reason.empty() ? json() : json(record.reason)},
            {"prompt_tokens", record.prompt_tokens},
            {"cached_tokens", record.cached_tokens},
            {"completion_tokens", record.completion_tokens},
            {"queue_s", or_null(record.queue_s)},
            {"ttft_s", or_null(record.ttft_s)},
            {"tokens_per_s", or_null(record.tokens_per_s)},
            {"ended_s", or_null(record.ended_s)},
            {"pipeline", pipeline_json(record.pipeline)},
            {"attempts", std::move(attempts)},
            {"attempts_left_out", record.attempts_left_out}};
}

}  // namespace

std::shared_ptr<RequestRecord> RequestLog::add() {
    records_.push_front(std::make_shared<RequestRecord>());
    if (records_.size() > capacity_) records_.pop_back();
    return capacity_ > 0 ? records_.front() : std::make_shared<RequestRecord>();
}

nlohmann::json RequestLog::to_json() const {
    json out = json::array();
    for (const auto& record : records_) out.push_back(record_json(*record));
    return out;
}

nlohmann::json RequestLog::to_object() const {
    json out = json::object();
    for (const auto& record : records_) {
        out[record->id + "/" + std::to_string(record->choice)] = record_json(*record);
    }
    return out;
}

std::vector<ServiceRequest> RequestLog::find(std::string_view id) const {
    std::vector<ServiceRequest> found;
    for (const auto& record : records_) {
        if (record->id != id) continue;
        if (std::find(found.begin(), found.end(), record->request) == found.end()) {
            found.push_back(record->request);
        }
    }
    return found;
}

}  // namespace helix::api
