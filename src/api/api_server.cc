#include "api/api_server.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "api/completion/completion.h"
#include "api/context.h"
#include "api/error.h"
#include "api/routes.h"
#include "base/check.h"

namespace helix::api {
namespace {

base::TimePoint steady_now() {
    return {std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

std::int64_t unix_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

struct ApiServer::Impl {
    Impl(ApiOptions options, ModelRegistry models, std::shared_ptr<Guard> guard,
         std::unique_ptr<AccessLog> access_log, std::unique_ptr<net::HttpServer> server)
        : context(std::move(options), std::move(models), std::move(guard), std::move(access_log)),
          http(std::move(server)) {}

    void tick() {
        const base::TimePoint now = context.options.clock();
        context.guard->on_tick(now);
        if (context.access_log) context.access_log->on_tick(now);
        for (const auto& answer : context.active) answer->on_tick(now);
        if (context.tracer) context.tracer->on_tick(now);
        context.feed.on_tick(context);
        context.what_ifs.on_tick(context);
        if (context.history.due(now)) {
            context.history.see(now, context.options.unix_time(), context.cluster().view());
        }
    }

    // To be called on another thread than the HTTP server's.
    std::size_t answers_under_way() {
        std::promise<std::size_t> answer;
        context.post([&] { answer.set_value(context.active.size() + context.heavy.size()); });
        return answer.get_future().get();
    }
    void end_answers() {
        const auto heavy = std::exchange(context.heavy, {});
        for (const auto& request : heavy) {
            *request->dropped = true;
            context.pool.cancel(request->ticket);
            context.refuse(*request->exchange, unavailable("The server is shutting down.", 5));
        }
        const auto active = context.active;  // ends change it
        for (const auto& answer : active) answer->shut_down();
        context.feed.shut_down();
        context.what_ifs.shut_down(context);
    }

    ApiContext context;
    bool stopped = false;
    std::unique_ptr<net::HttpServer> http;  // goes first: its thread uses the context
};

namespace {

net::HttpResponse error_page(const net::HttpProblem& problem) {
    const Protocol protocol = protocol_of(problem.path);
    net::HttpResponse response =
        error_response(protocol, from_status(problem.status, problem.message), problem.request_id);
    for (auto& header : extra_headers(protocol, problem.request_id)) {
        response.headers.push_back(std::move(header));
    }
    return response;
}

constexpr std::chrono::milliseconds kDrainPoll(20);
constexpr base::Duration kLastTraces = base::from_seconds(2);  // for the collector to take them
constexpr base::Duration kLastWords = base::from_seconds(1);   // for errors to reach slow clients

base::Status make_tracer(ApiContext& context) {
    if (!context.options.tracing) return base::Ok{};
    TracingOptions tracing = *context.options.tracing;
    tracing.otlp.program_version = context.options.version;
    TRY(context.tracer, Tracer::create(std::move(tracing), base::mix64(context.options.seed + 1),
                                       context.options.clock));
    return base::Ok{};
}

// Stages' times come on the services' threads.
void watch_stages(ApiContext& context) {
    if (context.tracer == nullptr) return;
    for (const ModelEntry& model : context.models.all()) {
        model.service->watch_stages([tracer = context.tracer.get(), service = model.service,
                                     post = context.post](const core::StageTimed& times) {
            post([=] { tracer->stage_timed(service, times); });
        });
    }
}

// The server's thread must not run any more.
void stop_tracing(ApiContext& context) {
    if (context.tracer == nullptr) return;
    for (const ModelEntry& model : context.models.all()) model.service->watch_stages({});
    context.tracer->stop(kLastTraces);
}

// Files may be larger than other bodies, from clients that may send them, and are kept on disk
// while they arrive.
void allow_files(ApiOptions& options, const std::shared_ptr<Guard>& guard) {
    if (!options.jobs) return;
    constexpr std::size_t kFormBytes = std::size_t{64} << 10U;  // around the file
    const auto is_upload = [guard, clock = options.clock](const net::HttpRequest& head) {
        const bool files = head.path == "/v1/files" || head.path == "/files";
        return files && head.method == "POST" && guard->admits_client(clock(), head);
    };
    options.http.body_limit = [is_upload, usual = options.http.max_body_bytes,
                               file = options.jobs->max_file_bytes +
                                      kFormBytes](const net::HttpRequest& head) {
        return is_upload(head) ? std::max(usual, file) : usual;
    };
    options.http.max_body_files_bytes = static_cast<std::size_t>(options.jobs->max_kept_bytes);
    // They are on this machine while they arrive, wherever they are kept.
    std::string folder = options.jobs->place.folder;
    if (folder.empty()) folder = std::filesystem::temp_directory_path().string();
    options.http.body_folder = [is_upload, folder](const net::HttpRequest& head) {
        return is_upload(head) ? folder : std::string();
    };
}

}  // namespace

base::Result<std::unique_ptr<ApiServer>> ApiServer::start(ApiOptions options,
                                                          ModelRegistry models) {
    CHECK(!models.all().empty());
    if (!options.clock) options.clock = steady_now;
    if (!options.unix_time) options.unix_time = unix_now;
    if (options.http.id_seed == 0) options.http.id_seed = base::mix64(options.seed);
    TRY(std::shared_ptr<Guard> guard,
        Guard::create(options.api_keys, options.access, options.http.tls.has_value()));
    std::unique_ptr<AccessLog> access_log;
    if (!options.access.log.empty()) {
        TRY(access_log, AccessLog::open(options.access.log));
        options.http.on_refused = [log = access_log.get()](const net::HttpRefused& refused) {
            log->write(refused);
        };
    }
    allow_files(options, guard);
    // Workers that join do not know the server's certificate; what they ask is no secret, and what
    // is said at pairing protects itself.
    options.http.allows_plain = [](const net::HttpRequest& head) {
        return access_of(head.method, head.path) == Access::probe &&
               without_version(head.path).starts_with("/helix/");
    };
    TRY(auto http, net::HttpServer::listen(options.http));
    auto impl = std::make_unique<Impl>(std::move(options), std::move(models), std::move(guard),
                                       std::move(access_log), std::move(http));
    ApiContext& context = impl->context;
    context.post = impl->http->poster();
    TRY_VOID(make_tracer(context));
    context.connections = [server = impl->http.get()] { return server->connections(); };
    if (context.options.jobs) {
        TRY(context.jobs, Jobs::open(context, *context.options.jobs));
        context.jobs->start();
    }
    context.sender = std::make_unique<ModelSender>(context);
    watch_stages(context);
    impl->http->start(
        [&context](const std::shared_ptr<net::HttpExchange>& exchange) {
            route(context, exchange);
        },
        error_page, [impl = impl.get()] { impl->tick(); });
    return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ApiServer::~ApiServer() {
    stop();
}

std::uint16_t ApiServer::port() const {
    return impl_->http->port();
}

void ApiServer::drain() {
    impl_->context.draining = true;
}

void ApiServer::stop(base::Duration grace) {
    drain();
    if (impl_->stopped) return;
    impl_->stopped = true;
    if (impl_->context.jobs != nullptr) impl_->context.jobs->stop();
    impl_->context.sender->stop();
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(grace.ns);
    while (impl_->answers_under_way() > 0 && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(kDrainPoll);
    }
    impl_->http->post([impl = impl_.get()] { impl->end_answers(); });
    impl_->http->stop(std::min(grace, kLastWords));
    impl_->context.pool.stop();
    impl_->context.what_ifs.stop();
    stop_tracing(impl_->context);
    CHECK(impl_->context.active.empty());
}

}  // namespace helix::api
