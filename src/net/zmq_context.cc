#include "net/zmq_context.h"

#include <zmq.h>

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/log_budget.h"

namespace helix::net {

// Answers libzmq's questions "may this key connect?" (ZAP 1.0, RFC 27) on a thread of its own.
class ZmqContext::ZapHandler {
  public:
    explicit ZapHandler(void* context) : context_(context) {}

    ~ZapHandler() {
        if (thread_.joinable()) thread_.join();  // zmq_ctx_shutdown has ended its wait
    }

    base::Status start() {
        socket_ = zmq_socket(context_, ZMQ_REP);
        const int linger_ms = 0;
        if (socket_ == nullptr ||
            zmq_setsockopt(socket_, ZMQ_LINGER, &linger_ms, sizeof linger_ms) != 0 ||
            zmq_bind(socket_, "inproc://zeromq.zap.01") != 0) {
            const int error = zmq_errno();
            if (socket_ != nullptr) zmq_close(socket_);
            return base::Error{base::Errc::internal,
                               fmt::format("cannot start the key check: {}", zmq_strerror(error))};
        }
        thread_ = std::thread([this] { serve(); });
        return base::Ok{};
    }

    void set(const std::string& domain, Allowed allowed) {
        put(allowed_, domain, std::move(allowed));
    }
    void set(const std::string& domain, Guard guard) { put(guards_, domain, std::move(guard)); }

  private:
    // version, request id, domain, address, identity, mechanism, credentials...
    static constexpr std::size_t kNullFrames = 6;
    static constexpr std::size_t kCurveFrames = 7;

    template <typename Function>
    void put(std::map<std::string, Function>& functions, const std::string& domain,
             Function function) {
        const std::lock_guard lock(mutex_);
        if (function) {
            functions[domain] = std::move(function);
        } else {
            functions.erase(domain);
        }
    }

    bool receive(std::vector<std::string>& frames) {
        frames.clear();
        while (true) {
            zmq_msg_t message;
            zmq_msg_init(&message);
            if (zmq_msg_recv(&message, socket_, 0) < 0) {
                zmq_msg_close(&message);
                return false;
            }
            frames.emplace_back(static_cast<const char*>(zmq_msg_data(&message)),
                                zmq_msg_size(&message));
            const bool more = zmq_msg_more(&message) != 0;
            zmq_msg_close(&message);
            if (!more) return true;
        }
    }

    struct Verdict {
        bool allowed = false;
        std::string from;
        std::string key = {};  // "" = none was shown
    };

    Verdict judge(const std::vector<std::string>& frames) {
        const std::lock_guard lock(mutex_);
        Verdict verdict{false, frames[3]};
        const auto guard = guards_.find(frames[2]);
        if (guard != guards_.end()) {
            const std::optional<std::string> from = guard->second(frames[3]);
            if (!from) return verdict;
            verdict.from = *from;
        }
        if (frames.size() == kNullFrames && frames[5] == "NULL") {
            // libzmq asks this only of sockets without keys.
            verdict.allowed = guard != guards_.end();
            return verdict;
        }
        if (frames.size() != kCurveFrames || frames[5] != "CURVE" || frames[6].size() != 32)
            return verdict;
        std::array<char, 41> text = {};
        std::array<std::uint8_t, 32> raw = {};
        for (std::size_t i = 0; i < raw.size(); ++i)
            raw[i] = static_cast<std::uint8_t>(frames[6][i]);
        zmq_z85_encode(text.data(), raw.data(), raw.size());
        verdict.key = text.data();
        const auto found = allowed_.find(frames[2]);
        verdict.allowed = found != allowed_.end() && found->second(verdict.key);
        return verdict;
    }

    void answer(const std::string& request_id, bool allowed, const std::string& key) {
        const std::array<std::string, 6> frames = {
            "1.0", request_id, allowed ? "200" : "400", allowed ? "" : "key is not on the list",
            key,   ""};
        for (std::size_t i = 0; i < frames.size(); ++i) {
            const int flags = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
            zmq_send(socket_, frames[i].data(), frames[i].size(), flags);
        }
    }

    void serve() {
        std::vector<std::string> frames;
        base::LogBudget log(30);
        while (receive(frames)) {
            if (frames.size() < kNullFrames) continue;
            const Verdict verdict = judge(frames);
            const base::TimePoint now = {
                std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch())
                    .count()};
            if (!verdict.allowed && log.take(now)) {
                LOG_WARN("refused a connection from {}: its key {} is not on the list",
                         verdict.from, verdict.key.empty() ? "is missing or" : verdict.key);
            }
            if (const std::string more = log.take_summary(now); !more.empty()) {
                LOG_WARN("refused connections without a listed key, {}", more);
            }
            answer(frames[1], verdict.allowed, verdict.key);
        }
        zmq_close(socket_);
    }

    void* context_;
    void* socket_ = nullptr;
    std::thread thread_;
    std::mutex mutex_;
    std::map<std::string, Allowed> allowed_;
    std::map<std::string, Guard> guards_;
};

base::Result<std::shared_ptr<ZmqContext>> ZmqContext::create() {
    std::shared_ptr<ZmqContext> context(new ZmqContext);
    context->context_ = zmq_ctx_new();
    if (context->context_ == nullptr) {
        return base::Error{base::Errc::internal, "cannot create a ZeroMQ context"};
    }
    zmq_ctx_set(context->context_, ZMQ_MAX_SOCKETS, 16384);
    context->zap_ = std::make_unique<ZapHandler>(context->context_);
    TRY_VOID(context->zap_->start());
    return context;
}

ZmqContext::~ZmqContext() {
    if (context_ == nullptr) return;
    zmq_ctx_shutdown(context_);
    zap_.reset();
    zmq_ctx_term(context_);
}

void ZmqContext::allow(const std::string& domain, Allowed allowed) {
    zap_->set(domain, std::move(allowed));
}

void ZmqContext::forget(const std::string& domain) {
    zap_->set(domain, Allowed());
}

void ZmqContext::guard(const std::string& domain, Guard guard) {
    zap_->set(domain, std::move(guard));
}

}  // namespace helix::net
