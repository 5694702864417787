#include "node/kv_mover.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "node/clock.h"
#include "wire/codec.h"

namespace helix::node {

using base::Error;
using base::Ok;
using base::Result;
using base::Status;

namespace {

// Parts that libzmq holds for a link slower than it was thought to be.
constexpr int kPartsQueued = 4;
constexpr base::Duration kSendWithin = base::from_ms(10'000);
constexpr std::chrono::milliseconds kSendAgain{5};

net::TransportOptions for_kv(net::TransportOptions options) {
    options.high_water = kPartsQueued;
    return options;
}

std::chrono::nanoseconds until(base::TimePoint when) {
    return std::chrono::nanoseconds(std::max<std::int64_t>(0, (when - now()).ns));
}

}  // namespace

KvMover::KvMover(Options options, const net::Wakeup& done)
    : options_(std::move(options)), done_(done) {
    thread_ = std::thread([this] { work(); });
}

KvMover::~KvMover() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void KvMover::use(std::shared_ptr<engine::Backend> backend) {
    const std::lock_guard lock(mutex_);
    backend_ = std::move(backend);
}

void KvMover::send(core::ExportKv action, core::Peer to, double bytes_per_s) {
    CHECK(bytes_per_s > 0);
    {
        const std::lock_guard lock(mutex_);
        const bool held = action.held;
        exports_.insert(held ? exports_.begin() : exports_.end(),
                        Export{std::move(action), std::move(to), bytes_per_s});
    }
    changed_.notify_all();
}

void KvMover::receive(core::ImportKv action, net::Frame frame) {
    {
        const std::lock_guard lock(mutex_);
        imports_.push_back({std::move(action), std::move(frame)});
    }
    changed_.notify_all();
}

void KvMover::keep(std::set<std::string> endpoints) {
    {
        const std::lock_guard lock(mutex_);
        kept_ = std::move(endpoints);
    }
    changed_.notify_all();
}

void KvMover::give_up(std::string endpoint) {
    {
        const std::lock_guard lock(mutex_);
        given_up_.insert(std::move(endpoint));
    }
    changed_.notify_all();
}

std::vector<core::WorkerEvent> KvMover::take_events() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
}

void KvMover::tell(core::WorkerEvent event) {
    events_.push_back(std::move(event));
    done_.wake();
}

// ---- its thread
// -----------------------------------------------------------------------------------

void KvMover::work() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        if (work_once(lock)) continue;
        if (outgoing_.has_value()) {
            changed_.wait_for(lock, kSendAgain);
        } else if (pause_.has_value()) {
            changed_.wait_for(lock, until(pause_->until));
        } else {
            changed_.wait(lock);
        }
    }
    lock.unlock();
    sockets_.clear();  // by the thread that used them
}

bool KvMover::work_once(std::unique_lock<std::mutex>& lock) {
    if (kept_.has_value()) {
        const std::set<std::string> kept = *std::exchange(kept_, {});
        std::erase_if(sockets_, [&](const auto& entry) { return !kept.contains(entry.first); });
        return true;
    }
    if (!given_up_.empty()) {
        for (const std::string& endpoint : std::exchange(given_up_, {})) drop_exports_to(endpoint);
        return true;
    }
    const std::shared_ptr<engine::Backend> backend = backend_;
    if (backend == nullptr) {
        CHECK(imports_.empty() && exports_.empty());
        return false;
    }
    return import_next(lock, *backend) || export_next(lock, *backend);
}

void KvMover::drop_exports_to(const std::string& endpoint) {
    sockets_.erase(endpoint);
    if (outgoing_.has_value() && outgoing_->task.to.endpoint == endpoint) {
        tell(core::KvExported{outgoing_->task.action.transfer});
        outgoing_.reset();
    }
    std::erase_if(exports_, [&](const Export& one) {
        if (one.to.endpoint != endpoint) return false;
        tell(core::KvExported{one.action.transfer});
        return true;
    });
}

bool KvMover::import_next(std::unique_lock<std::mutex>& lock, engine::Backend& backend) {
    if (imports_.empty()) return false;
    Import task = std::move(imports_.front());
    imports_.pop_front();
    lock.unlock();
    const Status done = perform(task, backend);
    if (!done.ok()) LOG_ERROR("KV from a worker: {}", done.error().message);
    task.frame = {};
    lock.lock();
    tell(core::KvImported{task.action.transfer, done.ok() ? "" : done.error().message});
    return true;
}

bool KvMover::export_next(std::unique_lock<std::mutex>& lock, engine::Backend& backend) {
    if (pause_.has_value() && now() >= pause_->until) {
        tell(core::KvExported{pause_->transfer});
        pause_.reset();
        return true;
    }
    if (!outgoing_.has_value()) {
        if (exports_.empty()) return false;
        outgoing_ = Outgoing{std::move(exports_.front()), {}, {}, now()};
        exports_.pop_front();
    }
    lock.unlock();
    Status done = Ok{};
    if (outgoing_->header.bytes.empty()) done = read(*outgoing_, backend);
    if (done.ok()) done = send(*outgoing_);
    lock.lock();
    const bool full = !done.ok() && done.error().code == base::Errc::overloaded;
    if (full && now() - outgoing_->began < kSendWithin) return false;
    const Export& task = outgoing_->task;
    // The receiver misses a part, and the coordinator hears nothing of it for too long.
    if (!done.ok()) LOG_WARN("KV to worker {}: {}", task.to.worker.value, done.error().message);
    const double bytes = static_cast<double>(task.action.pages.size()) * backend.kv_travel_bytes();
    if (task.action.held) {
        tell(core::KvExported{task.action.transfer});
    } else {
        CHECK(!pause_.has_value());
        pause_ = Pause{task.action.transfer,
                       outgoing_->began + base::from_seconds(bytes / task.bytes_per_s)};
    }
    outgoing_.reset();
    return true;
}

Status KvMover::read(Outgoing& outgoing, engine::Backend& backend) {
    const core::ExportKv& action = outgoing.task.action;
    const auto each = static_cast<std::size_t>(backend.kv_page_bytes());
    const auto bytes = std::make_shared<std::vector<std::byte>>(action.pages.size() * each);
    TRY_VOID(backend.read_pages(action.pages, *bytes));
    outgoing.header = net::Frame::of(wire::encode(action.message));
    outgoing.payload = {bytes, std::span<const std::byte>(*bytes)};
    return Ok{};
}

Status KvMover::send(const Outgoing& outgoing) {
    const core::Peer& peer = outgoing.task.to;
    TRY(net::DealerSocket * socket, socket_to(peer));
    bool broke = false;
    for (const net::LinkEvent& event : socket->take_events()) {
        if (event.kind == net::LinkEventKind::connected) continue;
        LOG_WARN("the link for KV to worker {} broke: {}", peer.worker.value, event.detail);
        broke = true;
    }
    if (broke) {  // the other side wants to be greeted on each connection
        sockets_.erase(peer.endpoint);
        TRY(socket, socket_to(peer));
    }
    return socket->send(outgoing.header, outgoing.payload);
}

Status KvMover::perform(const Import& task, engine::Backend& backend) {
    const core::ImportKv& action = task.action;
    const auto each = static_cast<std::size_t>(backend.kv_page_bytes());
    const std::span<const std::byte> bytes = task.frame.bytes;
    if (bytes.size() != action.frame_pages * each) {
        return base::invalid(fmt::format("{} bytes came for {} pages of KV of {} bytes",
                                         bytes.size(), action.frame_pages, each));
    }
    CHECK(action.content.size() == action.pages.size());
    for (std::size_t i = 0; i < action.pages.size(); ++i) {
        CHECK(action.content[i] < action.frame_pages);
        TRY_VOID(backend.write_pages(std::span(action.pages).subspan(i, 1),
                                     bytes.subspan(action.content[i] * each, each)));
    }
    return Ok{};
}

Result<net::DealerSocket*> KvMover::socket_to(const core::Peer& peer) {
    std::unique_ptr<net::DealerSocket>& socket = sockets_[peer.endpoint];
    if (socket == nullptr) {
        TRY(socket, net::DealerSocket::connect(options_.context, peer.endpoint, options_.keys,
                                               peer.public_key, for_kv(options_.transport)));
        TRY_VOID(socket->send(net::Frame::of(wire::encode(
            wire::PeerHello{wire::kProtocolVersion, options_.self, options_.incarnation}))));
    }
    return socket.get();
}

}  // namespace helix::node
