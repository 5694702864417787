#include "cli/cluster_report.h"

#include <algorithm>
#include <map>

namespace helix::cli {
namespace {

using Json = nlohmann::json;

const Json& member(const Json& object, const char* name) {
    static const Json kNothing;
    if (!object.is_object()) return kNothing;
    const auto found = object.find(name);
    return found == object.end() ? kNothing : *found;
}

double number(const Json& object, const char* name) {
    const Json& value = member(object, name);
    return value.is_number() ? value.get<double>() : 0;
}

std::int64_t count(const Json& object, const char* name) {
    const Json& value = member(object, name);
    return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

std::optional<double> known(const Json& object, const char* name) {
    const Json& value = member(object, name);
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string text(const Json& object, const char* name) {
    const Json& value = member(object, name);
    return value.is_string() ? value.get<std::string>() : "";
}

std::vector<Json> list(const Json& object, const char* name) {
    const Json& value = member(object, name);
    return value.is_array() ? value.get<std::vector<Json>>() : std::vector<Json>{};
}

// The first element of a list with this number as a member; null: none.
Json with_number(const Json& object, const char* array, const char* name, std::int64_t wanted) {
    for (Json& element : list(object, array)) {
        if (member(element, name).is_number_integer() && count(element, name) == wanted) {
            return element;
        }
    }
    return {};
}

view::ShownWorker worker_report(const Json& worker, const Json& was, const Json& plan,
                                double seconds) {
    view::ShownWorker out;
    out.name = text(worker, "name");
    out.type = text(worker, "type");
    out.state = text(worker, "state");
    const std::vector<Json> layers = list(worker, "layers");
    if (layers.size() == 2 && layers[0].is_number_integer() && layers[1].is_number_integer()) {
        out.first_layer = layers[0].get<std::int32_t>();
        out.end_layer = layers[1].get<std::int32_t>();
    }
    out.kv_pages = count(worker, "kv_pages");
    out.kv_pages_used = count(worker, "kv_pages_used");
    out.requests = count(worker, "requests");
    out.slowdown = number(worker, "slowdown");
    const Json planned = with_number(plan, "nodes", "worker", count(worker, "id"));
    out.planned_tokens_per_s = known(planned, "flow_tokens_per_s");
    const double rows = number(worker, "rows") - number(was, "rows");
    const bool same = was.is_object() && count(was, "incarnation") == count(worker, "incarnation");
    if (!same || rows < 0 || seconds <= 0) return out;
    out.tokens_per_s = rows / seconds;
    out.busy = std::clamp((number(worker, "busy_s") - number(was, "busy_s")) / seconds, 0.0, 1.0);
    const double batches = number(worker, "batches") - number(was, "batches");
    if (batches > 0) out.batch_rows = rows / batches;
    return out;
}

view::ShownRequest request_report(const Json& request,
                                  const std::map<std::int64_t, std::string>& names) {
    view::ShownRequest out;
    out.id = text(request, "id");
    out.state = text(request, "state");
    out.prompt_tokens = count(request, "prompt_tokens");
    out.answer_tokens = count(request, "completion_tokens");
    out.ttft_s = known(request, "ttft_s");
    out.tokens_per_s = known(request, "tokens_per_s");
    const auto attempts = static_cast<std::int64_t>(list(request, "attempts").size());
    out.moves = std::max<std::int64_t>(0, attempts - 1) + count(request, "attempts_left_out");
    for (const Json& stage : list(request, "pipeline")) {
        const auto found = names.find(count(stage, "worker"));
        out.workers.push_back(found == names.end() ? "?" : found->second);
    }
    return out;
}

// Rows that went into pipelines: over links that begin at the coordinator.
double rows_in(const Json& cluster) {
    double rows = 0;
    for (const Json& link : list(cluster, "links")) {
        if (member(link, "from").is_number_integer() && count(link, "from") == -1) {
            rows += number(link, "rows");
        }
    }
    return rows;
}

}  // namespace

view::ShownCluster cluster_report(const std::string& server, const Json& now, const Json& before) {
    view::ShownCluster out;
    out.server = server;
    out.model = text(now, "model");
    out.layers = static_cast<std::int32_t>(count(now, "n_layers"));
    out.serving = member(now, "serving") == Json(true);
    out.running = count(now, "running");
    out.waiting = count(now, "waiting");
    out.finished = count(now, "finished");
    out.failed = count(now, "failed");
    const Json& plan = member(now, "plan");
    if (plan.is_object()) {
        out.plan = {number(plan, "max_flow_tokens_per_s"), number(plan, "gap"),
                    text(plan, "limited_by")};
    }
    const double seconds =
        before.is_object() ? number(now, "time_s") - number(before, "time_s") : 0;
    if (seconds > 0) out.tokens_per_s = std::max(0.0, rows_in(now) - rows_in(before)) / seconds;
    std::map<std::int64_t, std::string> names;
    for (const Json& worker : list(now, "workers")) {
        const std::int64_t id = count(worker, "id");
        names[id] = text(worker, "name");
        out.workers.push_back(
            worker_report(worker, with_number(before, "workers", "id", id), plan, seconds));
    }
    for (const Json& request : list(now, "requests")) {
        out.requests.push_back(request_report(request, names));
    }
    return out;
}

}  // namespace helix::cli
