#include "api/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "api/batch_runner.h"
#include "api/context.h"
#include "api/error.h"
#include "api/heavy_work.h"
#include "api/piece_stream.h"
#include "api/protocols/kept_responses.h"
#include "api/routes.h"
#include "base/check.h"
#include "base/log.h"

namespace helix::api {
namespace {

constexpr base::Duration kCountEvery = base::from_ms(250);
constexpr base::Duration kKeepAgainAfter = base::from_seconds(1);

struct Download;

struct Ask {
    std::shared_ptr<net::HttpExchange> exchange;
    Jobs::Work work;
    std::shared_ptr<Download> download = nullptr;  // in place of work
    std::shared_ptr<RequestBudget::Share> share = nullptr;
};

BatchLimits limits_of(const ApiOptions& options, const JobOptions& jobs) {
    BatchLimits limits;
    limits.max_lines = jobs.max_lines;
    limits.max_line_bytes = options.http.max_body_bytes;
    limits.request = options.request_limits;
    return limits;
}

net::HttpResponse do_work(const Ask& ask, store::JobStore& store) {
    try {
        return ask.work(store, ask.exchange->request());
    } catch (const std::exception& e) {
        LOG_ERROR("request {}: {}", ask.exchange->request().request_id, e.what());
        return error_response(internal_error());
    }
}

}  // namespace

struct Jobs::Impl final : LineWorld {
    Impl(ApiContext& c, const JobOptions& options, std::unique_ptr<store::JobStore> s,
         std::unique_ptr<KeptResponses> kept)
        : context(c),
          store(std::move(s)),
          responses(std::move(kept)),
          runner(*store, *this, limits_of(c.options, options), options.max_in_flight) {}

    // ---- the jobs' thread
    void work();
    void send(const LineKey& key, const std::string& path, std::string body) override;
    void abandon(const LineKey& key) override;
    bool can_send(const std::string& model) override {
        const ModelEntry* entry = context.models.find(model);
        return !context.draining && entry != nullptr && entry->service->view().serving;
    }
    bool serves(const std::string& model) override { return context.models.find(model) != nullptr; }
    std::int64_t unix_time() override { return context.options.unix_time(); }
    base::TimePoint now() override { return context.options.clock(); }
    void answer(const Ask& ask, net::HttpResponse response) const;
    base::Result<std::string> next_piece(Download& download) const;
    void count();

    // ---- the HTTP server's thread
    bool push(Ask ask);
    void begin(const LineKey& key, net::HttpRequest request);
    void ended(const LineKey& key, const std::string& request_id,
               const net::HttpResponse& response);

    ApiContext& context;
    std::unique_ptr<store::JobStore> store;
    std::unique_ptr<KeptResponses> responses;
    BatchRunner runner;
    base::TimePoint counted;
    bool uncounted = true;
    std::map<LineKey, std::shared_ptr<net::HttpExchange>> running;  // the HTTP server's thread

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Ask> asks;
    std::vector<LineAnswer> answers;
    std::vector<std::function<void()>> tasks;
    bool stopping = false;
    std::thread thread;
};

namespace {

// A stored file on its way to a client.
struct Download final : PieceStream {
    Download(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
             Jobs::Impl& jobs_impl, std::string file_id)
        : PieceStream(context, exchange), jobs(jobs_impl), file(std::move(file_id)) {}

    void promise(std::int64_t file_bytes) { head.bytes = static_cast<std::uint64_t>(file_bytes); }
    bool ask() override {
        return jobs.push({exchange(), {}, std::static_pointer_cast<Download>(shared_from_this())});
    }
    ApiError error_of(const base::Error& error) const override { return from_store(error); }

    Jobs::Impl& jobs;
    std::string file;
    std::int64_t bytes = -1;  // in all; known with the first piece
    std::int64_t read = 0;    // bytes that were read
    store::ContentPlace place;
};

}  // namespace

void Jobs::Impl::work() {
    base::Duration pause;
    std::unique_lock lock(mutex);
    while (true) {
        changed.wait_for(lock, std::chrono::nanoseconds(pause.ns), [this] {
            return stopping || !asks.empty() || !answers.empty() || !tasks.empty();
        });
        std::deque<Ask> new_asks = std::exchange(asks, {});
        std::vector<LineAnswer> new_answers = std::exchange(answers, {});
        const auto new_tasks = std::exchange(tasks, {});
        const bool last = stopping;
        lock.unlock();
        uncounted = uncounted || !new_asks.empty() || !new_answers.empty();
        runner.take(std::move(new_answers));
        for (const auto& task : new_tasks) task();
        for (const Ask& ask : new_asks) {
            if (ask.download != nullptr) {
                ask.download->give(next_piece(*ask.download));
            } else {
                answer(ask, do_work(ask, *store));
            }
        }
        if (last) break;
        pause = runner.advance();
        if (!responses->flush()) pause = std::min(pause, kKeepAgainAfter);
        uncounted = uncounted || pause < kCountEvery;  // more is being done
        count();
        if (uncounted) pause = std::min(pause, kCountEvery);
        lock.lock();
    }
    const base::Status kept = runner.stop();
    if (!kept.ok()) LOG_ERROR("batches: {}", kept.error().message);
}

// Counts for the metrics, now and then.
void Jobs::Impl::count() {
    if (!uncounted || (counted.ns != 0 && now() - counted < kCountEvery)) return;
    uncounted = false;
    counted = now();
    auto counts = store->counts();
    if (!counts.ok()) {
        // The runner says so when the database is away.
        if (counts.error().code == base::Errc::unavailable) return;
        LOG_WARN("batches: {}", counts.error().message);
        return;
    }
    context.post([c = &context, jobs = Metrics::Jobs{*counts, runner.in_flight()}] {
        c->metrics.jobs = jobs;
    });
}

base::Result<std::string> Jobs::Impl::next_piece(Download& download) const {
    if (download.bytes < 0) {
        TRY(download.bytes, store->content_bytes(download.file));
        download.promise(download.bytes);
    }
    TRY(std::string piece, store->read_on(download.file, download.place,
                                          static_cast<std::int64_t>(download.piece_bytes())));
    download.read += std::ssize(piece);
    const bool too_long = download.read > download.bytes;
    const bool too_short = piece.empty() && download.read < download.bytes;
    if (!too_long && !too_short) return piece;
    return base::Error{
        base::Errc::internal,
        fmt::format("The stored file '{}' has changed while it was read.", download.file)};
}

void Jobs::Impl::answer(const Ask& ask, net::HttpResponse response) const {
    context.post([c = &context, exchange = ask.exchange, response = std::move(response)] {
        // Whoever has the answer may send the next file at once, so this one takes no more room.
        exchange->take_body_share().reset();
        c->respond(*exchange, response);
    });
}

void Jobs::Impl::send(const LineKey& key, const std::string& path, std::string body) {
    net::HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = std::move(body);
    context.post(
        [this, key, request = std::move(request)]() mutable { begin(key, std::move(request)); });
}

void Jobs::Impl::begin(const LineKey& key, net::HttpRequest request) {
    request.request_id = fmt::format("req_{:016x}", context.random.next());
    const std::string id = request.request_id;
    const auto exchange = std::make_shared<net::HttpExchange>(
        std::move(request),
        [this, key, id](const net::HttpResponse& response) { ended(key, id, response); });
    running[key] = exchange;
    route_trusted(context, exchange);
}

void Jobs::Impl::ended(const LineKey& key, const std::string& request_id,
                       const net::HttpResponse& response) {
    running.erase(key);
    const std::lock_guard lock(mutex);
    answers.push_back({key, response.status, request_id, response.body});
    changed.notify_all();
}

void Jobs::Impl::abandon(const LineKey& key) {
    context.post([this, key] {
        const auto found = running.find(key);
        if (found == running.end()) return;
        const auto exchange = found->second;
        running.erase(found);
        exchange->abandon();
    });
}

base::Result<std::unique_ptr<Jobs>> Jobs::open(ApiContext& context, JobOptions options) {
    TRY(auto store, store::JobStore::open(options.place));
    TRY(auto kept, KeptResponses::open(options.place));
    return std::unique_ptr<Jobs>(
        new Jobs(std::make_unique<Impl>(context, options, std::move(store), std::move(kept))));
}

Jobs::Jobs(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Jobs::~Jobs() {
    CHECK(!impl_->thread.joinable());
}

void Jobs::start() {
    impl_->thread = std::thread([impl = impl_.get()] { impl->work(); });
}

// False if it is too late and nobody will take it.
bool Jobs::Impl::push(Ask ask) {
    const std::lock_guard lock(mutex);
    if (stopping) return false;
    asks.push_back(std::move(ask));
    changed.notify_all();
    return true;
}

void Jobs::ask(const std::shared_ptr<net::HttpExchange>& exchange, Work work) {
    const auto bytes = static_cast<std::int64_t>(exchange->request().body.size());
    ApiContext& context = impl_->context;
    auto share = context.budget.open(client_of(context, exchange->request()), bytes);
    if (!share.ok()) {
        context.respond(*exchange, error_response(from_error(share.error())));
        return;
    }
    if (impl_->push({exchange, std::move(work), nullptr, std::move(*share)})) return;
    context.respond(*exchange, error_response(unavailable("The server is shutting down.", 5)));
}

void Jobs::download(const std::shared_ptr<net::HttpExchange>& exchange, const std::string& file) {
    auto download = std::make_shared<Download>(impl_->context, exchange, *impl_, file);
    if (impl_->push({exchange, {}, std::move(download)})) return;
    impl_->context.respond(*exchange,
                           error_response(unavailable("The server is shutting down.", 5)));
}

void Jobs::later(std::function<void()> task) {
    const std::lock_guard lock(impl_->mutex);
    impl_->tasks.push_back(std::move(task));
    impl_->changed.notify_all();
}

KeptResponses& Jobs::responses() {
    return *impl_->responses;
}

void Jobs::stop() {
    if (!impl_->thread.joinable()) return;
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->stopping = true;
        impl_->changed.notify_all();
    }
    impl_->thread.join();
    // From here on no line is sent; those that were are with the HTTP server's thread.
    std::promise<void> given_back;
    impl_->context.post([&] {
        for (const auto& [key, exchange] : std::exchange(impl_->running, {})) exchange->abandon();
        given_back.set_value();
    });
    given_back.get_future().wait();
}

}  // namespace helix::api
