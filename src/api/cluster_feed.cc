#include "api/cluster_feed.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/cluster_state.h"
#include "api/context.h"
#include "api/error.h"
#include "api/nodes.h"
#include "core/protocol/describe.h"
#include "net/sse.h"

namespace helix::api {
namespace {

using nlohmann::json;

constexpr base::Duration kFeedEvery = base::from_ms(500);
constexpr std::size_t kMostMovesAtOnce = 32;
// Browsers come back after this time when a feed has ended.
constexpr std::string_view kComeBack = "retry: 1000\n\n";

std::string feed_event(std::string_view name, const json& data) {
    // Names come from outside and need not be UTF-8.
    return fmt::format("event: {}\ndata: {}\n\n", name,
                       data.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string ends_key(const json& link) {
    return fmt::format("{}>{}", link["from"].get<std::int32_t>(), link["to"].get<std::int32_t>());
}

// The state with objects in place of lists, so that a change names what it changes.
json by_keys(json state) {
    json workers = json::object();
    for (json& worker : state["workers"]) {
        std::string key = std::to_string(worker["id"].get<std::uint32_t>());
        workers[std::move(key)] = std::move(worker);
    }
    state["workers"] = std::move(workers);
    json flows = json::object();
    for (const json& flow : state["flows"]) flows[ends_key(flow)] = flow["tokens_per_s"];
    state["flows"] = std::move(flows);
    json links = json::object();
    for (const json& link : state["links"]) links[ends_key(link)] = link["rows"];
    state["links"] = std::move(links);
    return state;
}

json worker_ids(const core::Pipeline& pipeline) {
    json ids = json::array();
    for (const core::Stage& stage : pipeline) ids.push_back(stage.worker.value);
    return ids;
}

bool is_leaving(std::string_view state) {
    return state == "removing" || state == "removed";
}

}  // namespace

nlohmann::json merge_patch_between(const nlohmann::json& before, const nlohmann::json& after) {
    json patch = json::object();
    for (const auto& [name, value] : after.items()) {
        const auto old = before.find(name);
        const bool was_there = old != before.end() && !old->is_null();
        if (value.is_null()) {
            if (was_there) patch[name] = nullptr;
        } else if (was_there && old->is_object() && value.is_object()) {
            json changed = merge_patch_between(*old, value);
            if (!changed.empty()) patch[name] = std::move(changed);
        } else if (!was_there || *old != value) {
            patch[name] = value;
        }
    }
    for (const auto& [name, value] : before.items()) {
        if (!after.contains(name) && !value.is_null()) patch[name] = nullptr;
    }
    return patch;
}

ClusterFeed::~ClusterFeed() = default;

void ClusterFeed::add(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange) {
    drop_gone();
    if (readers_.size() >= context.options.limits.max_event_readers) {
        return context.refuse(*exchange, unavailable("Too many read /helix/events.", 5));
    }
    if (exchange->request().method == "HEAD") {
        net::HttpResponse head;
        head.content_type = net::kSseContentType;
        return context.respond(*exchange, head);
    }
    if (readers_.empty()) {
        state_ = json();
        moves_.clear();
        moves_left_out_ = 0;
        look(context);
    }
    exchange->begin_stream(200, net::kSseContentType,
                           {{"cache-control", "no-store"}, {"x-accel-buffering", "no"}});
    exchange->on_gone([this, one = exchange.get()] {
        std::erase_if(readers_, [one](const Reader& it) { return it.exchange.get() == one; });
    });
    readers_.push_back({exchange, context.options.clock()});
    exchange->write(std::string(kComeBack) + whole_state());
}

void ClusterFeed::moved(const std::string& request, const core::Pipeline& from,
                        const core::RequestRouted& routed) {
    if (readers_.empty() || from.empty() || from == routed.pipeline) return;
    if (moves_.size() == kMostMovesAtOnce) {
        ++moves_left_out_;
        return;
    }
    moves_.push_back({{"request", request},
                      {"reason", core::name_of(routed.reason)},
                      {"from", worker_ids(from)},
                      {"to", worker_ids(routed.pipeline)}});
}

void ClusterFeed::on_tick(ApiContext& context) {
    drop_gone();
    if (readers_.empty()) return;
    if (context.options.clock() - looked_ >= kFeedEvery) look(context);
    ping(context);
}

// What happened comes before the state that follows from it, so that a reader still knows who is
// gone.
void ClusterFeed::look(ApiContext& context) {
    looked_ = context.options.clock();
    const core::ClusterView view = context.cluster().view();
    const bool first = state_.is_null();
    std::string news = moves_news();
    if (first || view.taken != taken_) {
        taken_ = view.taken;
        const ModelInfo& model = context.models.first().info;
        json state = by_keys(
            cluster_state(view, context.cluster().plan_figures(), {model.name, model.n_layers}));
        const std::string happened = workers_news(view);
        if (!first) {
            json patch = merge_patch_between(state_, state);
            news += happened;
            // That time goes by is no change.
            if (patch.size() > 1 || (patch.size() == 1 && !patch.contains("time_s"))) {
                news += feed_event("change", patch);
            }
        }
        state_ = std::move(state);
    }
    tell(context, news);
}

std::string ClusterFeed::workers_news(const core::ClusterView& view) {
    std::string news;
    std::map<core::WorkerId, Known> now;
    for (const core::WorkerView& worker : view.workers) {
        now[worker.worker] = {worker.node.name, node_state(worker), worker.incarnation};
    }
    const auto say = [&news](const char* event, core::WorkerId id, const Known& worker) {
        news += feed_event(event, {{"worker", id.value}, {"name", worker.name}});
    };
    for (const auto& [id, worker] : workers_) {
        const auto here = now.find(id);
        if (here != now.end() && here->second.incarnation == worker.incarnation) continue;
        say(is_leaving(worker.state) ? "removed" : "lost", id, worker);
    }
    for (const auto& [id, worker] : now) {
        const auto before = workers_.find(id);
        const bool joined =
            before == workers_.end() || before->second.incarnation != worker.incarnation;
        if (joined) say("joined", id, worker);
        const std::string was = joined ? "idle" : before->second.state;
        if (was == worker.state) continue;
        const bool empties = worker.state == "draining" || worker.state == "removing";
        const bool emptied = worker.state == "drained" || worker.state == "removed";
        const bool was_closed = was == "draining" || was == "removing" || was == "drained";
        if (empties) say("draining", id, worker);
        if (emptied) say("drained", id, worker);
        if (was_closed && !empties && !emptied) say("undrained", id, worker);
    }
    workers_ = std::move(now);
    if (view.epoch != epoch_) news += feed_event("placement", {{"epoch", view.epoch}});
    epoch_ = view.epoch;
    return news;
}

std::string ClusterFeed::moves_news() {
    std::string news;
    for (const json& move : moves_) news += feed_event("moved", move);
    if (moves_left_out_ > 0) news += feed_event("moved", {{"more", moves_left_out_}});
    moves_.clear();
    moves_left_out_ = 0;
    return news;
}

std::string ClusterFeed::whole_state() const {
    return feed_event("cluster", merge_patch_between(json::object(), state_));
}

void ClusterFeed::tell(ApiContext& context, const std::string& news) {
    std::string whole;  // made once, for those that are behind
    for (Reader& reader : readers_) {
        if (reader.exchange->queued_bytes() > 0) {
            reader.behind = reader.behind || !news.empty();
            continue;
        }
        if (reader.behind && whole.empty()) whole = whole_state();
        const std::string& text = std::exchange(reader.behind, false) ? whole : news;
        if (text.empty()) continue;
        reader.written = context.options.clock();
        reader.exchange->write(text);
    }
}

void ClusterFeed::ping(ApiContext& context) {
    const base::TimePoint now = context.options.clock();
    for (Reader& reader : readers_) {
        if (now - reader.written < context.options.ping_interval) continue;
        reader.written = now;
        if (reader.exchange->queued_bytes() == 0) reader.exchange->write(net::kSsePing);
    }
}

void ClusterFeed::drop_gone() {
    std::erase_if(readers_, [](const Reader& it) { return !it.exchange->open(); });
}

void ClusterFeed::shut_down() {
    const auto readers = std::exchange(readers_, {});
    for (const Reader& it : readers) it.exchange->end_stream();
}

}  // namespace helix::api
