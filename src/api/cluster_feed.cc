#include "api/cluster_feed.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/cluster_state.h"
#include "api/context.h"
#include "api/error.h"
#include "core/protocol/describe.h"
#include "net/multipart.h"
#include "net/sse.h"

namespace helix::api {
namespace {

using nlohmann::json;

constexpr base::Duration kFeedEvery = base::from_ms(500);
constexpr std::size_t kMostMovesAtOnce = 32;
const std::string kNoNews;
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
            // An object is told without members that are not there, like the whole.
            patch[name] = value.is_object() ? merge_patch_between(json::object(), value) : value;
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
    const bool requests = net::query_value(exchange->request().query, "requests") == "1";
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
    if (requests && !wants_requests()) requests_ = context.log.to_object();
    readers_.push_back({exchange, context.options.clock(), requests});
    exchange->write(std::string(kComeBack) + whole_state(requests));
}

bool ClusterFeed::wants_requests() const {
    return std::any_of(readers_.begin(), readers_.end(),
                       [](const Reader& it) { return it.requests; });
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
    tell(context, news, wants_requests() ? requests_news(context) : "");
}

std::string ClusterFeed::requests_news(ApiContext& context) {
    json requests = context.log.to_object();
    const json patch = merge_patch_between(requests_, requests);
    requests_ = std::move(requests);
    return patch.empty() ? "" : feed_event("requests_change", patch);
}

std::string ClusterFeed::workers_news(const core::ClusterView& view) {
    std::string news;
    for (const ClusterEvent& event : watch_.see(view)) {
        news += feed_event(event.what, event_json(event));
    }
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

std::string ClusterFeed::whole_state(bool requests) const {
    std::string whole = feed_event("cluster", merge_patch_between(json::object(), state_));
    if (requests) whole += feed_event("requests", merge_patch_between(json::object(), requests_));
    return whole;
}

void ClusterFeed::tell(ApiContext& context, const std::string& news,
                       const std::string& requests_news) {
    for (Reader& reader : readers_) {
        const std::string& more = reader.requests ? requests_news : kNoNews;
        if (reader.exchange->queued_bytes() > 0) {
            reader.behind = reader.behind || !news.empty() || !more.empty();
            continue;
        }
        const std::string text =
            std::exchange(reader.behind, false) ? whole_state(reader.requests) : news + more;
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
