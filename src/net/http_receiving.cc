#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "net/http_connection.h"

// How a connection receives a request: its head, its body, and what is refused of them.

namespace helix::net {
namespace {

constexpr double kLeastRate = 1e6;  // bytes a second at which large bodies have to come

HttpParserLimits parser_limits(const HttpServerOptions& options) {
    HttpParserLimits limits;
    limits.max_header_bytes = options.max_header_bytes;
    return limits;
}

}  // namespace

// A request on its way in.
struct HttpConnection::Arriving {
    explicit Arriving(HttpConnection& c)
        : connection(c), parser(parser_limits(c.loop_.options), c.peer_) {
        connection.arriving_ = this;
    }
    ~Arriving() { connection.arriving_ = nullptr; }
    Arriving(const Arriving&) = delete;
    Arriving& operator=(const Arriving&) = delete;

    HttpConnection& connection;
    HttpParser parser;
    std::string body;
    std::shared_ptr<MemoryBudget::Share> share;  // what the body takes; null until there is one
    std::shared_ptr<SpooledBody> file;           // if not null it takes the body
    bool has_head = false;
    bool done = false;
};

std::optional<HttpConnection::Refusal> HttpConnection::on_head(Arriving& in) {
    const HttpRequest& head = in.parser.head();
    const std::uint64_t limit = body_limit(head);
    const std::uint64_t length = in.parser.content_length().value_or(0);
    in.has_head = true;
    const auto& allows_plain = loop_.options.allows_plain;
    if (plain_ && !(allows_plain && allows_plain(head))) {
        return Refusal{400, "this port speaks HTTPS: write https:// in place of http://"};
    }
    in.parser.allow_body(limit);
    if (length <= limit) {
        auto file = body_file(head);
        if (!file.ok()) return Refusal{500, file.error().message};
        in.file = std::move(file).value();
    }
    if (in.file == nullptr) {
        in.parser.allow_body(std::min<std::uint64_t>(limit, loop_.longest_body_bytes()));
    }
    enter(Phase::body, loop_.options.body_timeout +
                           base::from_seconds(static_cast<double>(length) / kLeastRate));
    body_received_ = 0;
    body_mark_ = 0;
    body_mark_at_ = phase_since_;
    return {};
}

std::optional<HttpConnection::Refusal> HttpConnection::keep_piece(Arriving& in) {
    const std::string_view piece = in.parser.piece();
    body_received_ += piece.size();
    if (in.file != nullptr) {
        // The file is in the page cache, so this copies what one read brought and does not wait.
        if (in.share == nullptr) {
            in.share = std::make_shared<MemoryBudget::Share>(loop_.body_files);
        }
        if (!in.share->grow_to(body_received_, false)) {
            return Refusal{507, fmt::format("the uploads that are here fill the {} bytes that they "
                                            "may take on disk; try again later",
                                            loop_.body_files->limit_bytes())};
        }
        const base::Status kept = in.file->append(piece);
        if (!kept.ok()) return Refusal{500, kept.error().message};
        return {};
    }
    if (in.share == nullptr) {
        in.share = std::make_shared<MemoryBudget::Share>(loop_.bodies_of(peer_));
    }
    const std::size_t needed = in.body.size() + piece.size();
    if (needed > in.body.capacity()) {
        // The string reserves what the share was charged for: twice as much each time, or all that
        // is announced.
        const std::optional<std::uint64_t> announced = in.parser.content_length();
        const std::uint64_t most = announced.value_or(2 * in.body.capacity());
        const bool large = announced.value_or(needed) > kShortBodyBytes;
        std::size_t bytes = std::max<std::size_t>(needed, std::min(2 * in.body.capacity(), most));
        if (!in.share->grow_to(bytes, large)) bytes = needed;
        if (!in.share->grow_to(bytes, large)) {
            const MemoryBudget& yours = in.share->budget();
            const bool all = !yours.lacks(bytes - in.share->bytes(), large);
            return Refusal{429, fmt::format("the requests {} fill the {} bytes of memory for their "
                                            "bodies; try again later",
                                            all ? "that are here" : "from your address",
                                            (all ? *loop_.bodies : yours).limit_bytes())};
        }
        std::string larger;  // a string that grows takes more than it is asked for
        larger.reserve(bytes);
        larger += in.body;
        in.body = std::move(larger);
    }
    in.body += piece;
    return {};
}

std::optional<HttpConnection::Refusal> HttpConnection::parse_received(Arriving& in) {
    if (phase_ == Phase::idle) enter(Phase::header, loop_.options.header_timeout);
    std::string_view data = in_;
    std::optional<Refusal> refusal;
    for (bool more = true; more && !refusal;) {
        switch (in.parser.step(data)) {
            case HttpParser::Step::more:
                more = false;
                break;
            case HttpParser::Step::head:
                refusal = on_head(in);
                break;
            case HttpParser::Step::body:
                refusal = keep_piece(in);
                break;
            case HttpParser::Step::done:
                in.done = true;
                more = false;
                break;
            case HttpParser::Step::refused:
                refusal = in.parser.refusal();
                break;
        }
    }
    in_.erase(0, in_.size() - data.size());
    if (in_.empty()) empty(in_);
    wake();  // there is room to read on
    return refusal;
}

HttpConnection::Awaitable<bool> HttpConnection::read_request(HttpRequest& request) {
    Arriving in(*this);
    bool continued = false;
    while (!in.done) {
        if (!in_.empty()) {
            std::optional<Refusal> refusal = parse_received(in);
            if (refusal) {
                tell_refused(refusal->status, refusal->why);
                in.body = {};  // others may use its memory while the refusal is on its way
                in.share.reset();
                in.file.reset();
                co_await refuse(refusal->status, std::move(refusal->why), asked());
                co_return false;
            }
            if (in.done) break;
            if (in.has_head && !continued && in.parser.expects_continue()) {
                continued = true;
                send("HTTP/1.1 100 Continue\r\n\r\n");
            }
        }
        if (read_closed_ || closed_) co_return false;
        co_await wait_for_wake();
        // A time-out is being answered, or we are stopping.
        if (closed_ || phase_ == Phase::linger) co_return false;
    }
    if (in.file != nullptr) {
        const base::Status sealed = in.file->seal();
        if (!sealed.ok()) {
            std::string why = sealed.error().message;
            tell_refused(500, why);
            co_await refuse(500, std::move(why), asked());
            co_return false;
        }
    }
    http_1_0_ = in.parser.http_1_0();
    keep_alive_ = in.parser.keep_alive();
    request = in.parser.take_head();
    request.body = std::move(in.body);
    request.body_share = std::move(in.share);
    request.body_file = std::move(in.file);
    const std::string_view given = request.header("x-request-id");
    request.request_id = is_plain_word(given) ? std::string(given) : new_request_id();
    co_return true;
}

std::uint64_t HttpConnection::body_limit(const HttpRequest& head) const {
    return loop_.options.body_limit ? loop_.options.body_limit(head) : loop_.options.max_body_bytes;
}

base::Result<std::shared_ptr<SpooledBody>> HttpConnection::body_file(
    const HttpRequest& head) const {
    if (!loop_.options.body_folder) return std::shared_ptr<SpooledBody>();
    const std::string folder = loop_.options.body_folder(head);
    if (folder.empty()) return std::shared_ptr<SpooledBody>();
    return SpooledBody::create(folder);
}

void HttpConnection::tell_refused(int status, std::string_view message) const {
    if (!loop_.options.on_refused) return;
    const HttpRequest request = asked();
    const HttpRefused what{peer_, request.method, request.path, status, message};
    loop_.options.on_refused(what);
}

HttpRequest HttpConnection::asked() const {
    HttpRequest request;
    if (arriving_ == nullptr || !arriving_->has_head) return request;
    request.method = arriving_->parser.head().method;
    request.path = arriving_->parser.head().path;
    return request;
}

bool HttpConnection::too_slow(Clock::time_point now) {
    const HttpServerOptions& o = loop_.options;
    if (now - body_mark_at_ < std::chrono::nanoseconds(o.body_progress_interval.ns)) return false;
    if (body_received_ - body_mark_ < o.body_progress_bytes) return true;
    body_mark_ = body_received_;
    body_mark_at_ = now;
    return false;
}

}  // namespace helix::net
