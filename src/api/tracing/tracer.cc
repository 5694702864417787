#include "api/tracing/tracer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "api/tracing/trace_context.h"

namespace helix::api {
namespace {

// Stages say their times when they hear that a request is over. One that does not say them within
// this time is lost, or has computed nothing.
constexpr base::Duration kStagePatience = base::from_ms(1000);
constexpr std::size_t kMostNames = 100'000;

std::int64_t system_unix_ns() {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// gen_ai.operation.name; of a route that the conventions have none for, the route's last word.
std::string operation_of(std::string_view route) {
    using Named = std::pair<std::string_view, std::string_view>;
    constexpr std::array<Named, 9> kOperations = {{{"/chat/completions", "chat"},
                                                   {"/responses", "chat"},
                                                   {"/messages", "chat"},
                                                   {"/api/chat", "chat"},
                                                   {"/completions", "text_completion"},
                                                   {"/api/generate", "text_completion"},
                                                   {"/embeddings", "embeddings"},
                                                   {"/api/embed", "embeddings"},
                                                   {"/api/embeddings", "embeddings"}}};
    for (const auto& [path, operation] : kOperations) {
        if (path == route) return std::string(operation);
    }
    return std::string(route.substr(route.rfind('/') + 1));
}

}  // namespace

base::Result<std::unique_ptr<Tracer>> Tracer::create(TracingOptions options, std::uint64_t seed,
                                                     std::function<base::TimePoint()> clock) {
    if (!options.unix_ns) options.unix_ns = system_unix_ns;
    TRY(auto exporter, OtlpExporter::create(options.otlp));
    return std::unique_ptr<Tracer>(
        new Tracer(std::move(options), std::move(exporter), seed, std::move(clock)));
}

Tracer::Tracer(TracingOptions options, std::unique_ptr<OtlpExporter> exporter, std::uint64_t seed,
               std::function<base::TimePoint()> clock)
    : options_(std::move(options)),
      clock_(std::move(clock)),
      random_(seed),
      exporter_(std::move(exporter)) {}

void Tracer::begin(net::HttpExchange& exchange, std::string_view route) {
    const net::HttpRequest& request = exchange.request();
    const auto parent = trace_parent_of(request.headers);
    if (parent ? !parent->sampled : !random_.chance(options_.sample)) return;
    RequestTrace::Origin origin;
    if (parent) {
        origin.trace = parent->trace;
        origin.parent = parent->parent;
        origin.trace_state = trace_state_of(request.headers);
    } else {
        while (origin.trace == TraceId{}) origin.trace = {random_.next(), random_.next()};
    }
    origin.operation = operation_of(route);
    origin.method = request.method;
    origin.route = route;
    origin.request_id = request.request_id;
    origin.began = clock_();
    origin.unix_offset_ns = options_.unix_ns() - origin.began.ns;
    open_[&exchange] =
        std::make_shared<RequestTrace>(std::move(origin), base::Random(random_.next()));
    exchange.on_end([this](const net::HttpExchange& ended) { end(ended); });
}

std::shared_ptr<RequestTrace> Tracer::find(const net::HttpExchange& exchange) const {
    const auto found = open_.find(&exchange);
    return found == open_.end() ? nullptr : found->second;
}

void Tracer::end(const net::HttpExchange& exchange) {
    const auto found = open_.find(&exchange);
    if (found == open_.end()) return;
    found->second->http_ended({clock_(), exchange.status(), exchange.complete()});
    over_.push_back(std::move(found->second));
    open_.erase(found);
}

void Tracer::submitted(Service* service, core::RequestId id, std::shared_ptr<RequestTrace> trace,
                       std::size_t choice) {
    served_as_[trace.get()].emplace_back(service, id);
    submitted_[{service, id}] = {std::move(trace), choice};
}

void Tracer::stage_timed(Service* service, const core::StageTimed& times) {
    const auto found = submitted_.find({service, times.id});
    if (found != submitted_.end()) found->second.trace->stage_timed(found->second.choice, times);
}

std::vector<RequestTrace::Stage> Tracer::stages_of(Service* service,
                                                   const core::Pipeline& pipeline) {
    const auto known = [&](const core::Stage& stage) {
        return names_.contains({service, stage.worker});
    };
    if (!std::all_of(pipeline.begin(), pipeline.end(), known)) {
        if (names_.size() > kMostNames) names_.clear();
        for (const core::WorkerView& worker : service->view().workers) {
            names_[{service, worker.worker}] = worker.node.name;
        }
    }
    std::vector<RequestTrace::Stage> stages;
    for (const core::Stage& stage : pipeline) {
        const auto name = names_.find({service, stage.worker});
        stages.push_back(
            {stage.worker, name == names_.end() ? std::string() : name->second, stage.layers});
    }
    return stages;
}

void Tracer::send(const std::shared_ptr<RequestTrace>& trace) {
    const auto served = served_as_.find(trace.get());
    if (served != served_as_.end()) {
        for (const ServedAs& one : served->second) submitted_.erase(one);
        served_as_.erase(served);
    }
    exporter_->add(trace->spans());
}

void Tracer::on_tick(base::TimePoint now) {
    std::erase_if(over_, [&](const std::shared_ptr<RequestTrace>& trace) {
        if (!trace->ended()) return false;  // its answer hears of the end in a moment
        if (!trace->stages_are_timed() && now - trace->ended_at() < kStagePatience) return false;
        send(trace);
        return true;
    });
}

void Tracer::stop(base::Duration grace) {
    for (const auto& trace : over_) {
        if (trace->ended()) send(trace);
    }
    over_.clear();
    exporter_->stop(grace);
}

void ChoiceTrace::submitted(Service* service, core::RequestId id) {
    if (trace_ && for_prompt_) tracer_->submitted(service, id, trace_, choice_);
}

void ChoiceTrace::attempt(std::uint32_t number, core::RouteReason reason) {
    if (trace_ && for_prompt_) trace_->attempt(choice_, number, reason);
}

void ChoiceTrace::routed(base::TimePoint at, Service* service, const core::Pipeline& pipeline) {
    if (trace_ && for_prompt_) trace_->routed(choice_, at, tracer_->stages_of(service, pipeline));
}

void ChoiceTrace::ended(const RequestTrace::ChoiceEnd& end) {
    if (trace_) trace_->choice_ended(choice_, end);
}

}  // namespace helix::api
