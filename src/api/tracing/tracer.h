#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/service.h"
#include "api/tracing/otlp_exporter.h"
#include "api/tracing/request_trace.h"
#include "base/random.h"
#include "base/result.h"
#include "net/http_server.h"

namespace helix::api {

struct TracingOptions {
    OtlpOptions otlp;
    // The share of the requests without a valid traceparent that are traced. Those with one are
    // traced if their caller is (its sampled bit).
    double sample = 1;
    std::function<std::int64_t()> unix_ns;  // empty = the system's clock
};

// Traces the requests of an HTTP server and has an OtlpExporter send their spans. Everything is
// called on the server's thread, but for counts() and stop().
class Tracer {
  public:
    // clock is that of the server and of the services; seed: of ids and of what is sampled.
    static base::Result<std::unique_ptr<Tracer>> create(TracingOptions options, std::uint64_t seed,
                                                        std::function<base::TimePoint()> clock);

    // A request has come, to the route of this path. Its trace ends with the exchange.
    void begin(net::HttpExchange& exchange, std::string_view route);
    // The trace of the request; null if it is not traced, or has ended.
    std::shared_ptr<RequestTrace> find(const net::HttpExchange& exchange) const;
    // The choice's prompt is this request to the service; what its stages say belongs to it.
    void submitted(Service* service, core::RequestId id, std::shared_ptr<RequestTrace> trace,
                   std::size_t choice);
    void stage_timed(Service* service, const core::StageTimed& times);
    // Its stages, with the names of their workers.
    std::vector<RequestTrace::Stage> stages_of(Service* service, const core::Pipeline& pipeline);
    // To be called several times a second: sends traces whose stages have said their times, or
    // should have.
    void on_tick(base::TimePoint now);

    // Any thread.
    OtlpCounts counts() const { return exporter_->counts(); }
    // Sends what there is, for up to grace. The server's thread must not run any more.
    void stop(base::Duration grace);

  private:
    using ServedAs = std::pair<Service*, core::RequestId>;
    struct Submitted {
        std::shared_ptr<RequestTrace> trace;
        std::size_t choice = 0;
    };

    Tracer(TracingOptions options, std::unique_ptr<OtlpExporter> exporter, std::uint64_t seed,
           std::function<base::TimePoint()> clock);
    void end(const net::HttpExchange& exchange);
    void send(const std::shared_ptr<RequestTrace>& trace);

    TracingOptions options_;
    std::function<base::TimePoint()> clock_;
    base::Random random_;
    std::map<const net::HttpExchange*, std::shared_ptr<RequestTrace>> open_;
    std::map<ServedAs, Submitted> submitted_;
    std::map<const RequestTrace*, std::vector<ServedAs>> served_as_;  // the same, by trace
    std::deque<std::shared_ptr<RequestTrace>> over_;                  // their exchanges have ended
    std::map<std::pair<Service*, core::WorkerId>, std::string> names_;
    std::unique_ptr<OtlpExporter> exporter_;
};

// What a choice of an answer tells its trace; tells nobody where it has none.
class ChoiceTrace {
  public:
    ChoiceTrace() = default;
    ChoiceTrace(Tracer& tracer, std::shared_ptr<RequestTrace> trace, std::size_t choice,
                bool for_prompt)
        : tracer_(&tracer), trace_(std::move(trace)), choice_(choice), for_prompt_(for_prompt) {}

    void submitted(Service* service, core::RequestId id);
    void attempt(std::uint32_t number, core::RouteReason reason);
    void routed(base::TimePoint at, Service* service, const core::Pipeline& pipeline);
    void ended(const RequestTrace::ChoiceEnd& end);
    bool on() const { return trace_ != nullptr; }

  private:
    Tracer* tracer_ = nullptr;
    std::shared_ptr<RequestTrace> trace_;  // null: none
    std::size_t choice_ = 0;
    bool for_prompt_ = false;  // it tells what all choices of its prompt have in common
};

}  // namespace helix::api
