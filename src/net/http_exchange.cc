#include <boost/asio/post.hpp>
#include <utility>

#include "base/check.h"
#include "net/http_connection.h"

namespace helix::net {

namespace asio = boost::asio;

std::size_t HttpExchange::queued_bytes() const {
    return open() && connection_ != nullptr ? connection_->out_.size() - connection_->sent_ : 0;
}

void HttpExchange::respond(const HttpResponse& response) {
    if (!open()) return;
    CHECK(!started_);
    started_ = true;
    status_ = response.status;
    if (request_.method != "HEAD") body_bytes_ = response.body.size();
    if (connection_ == nullptr) {
        finish();
        std::exchange(answer_, nullptr)(response);
        return;
    }
    ResponseHead head = connection_->head_for(*this, response.status, response.content_type);
    connection_->keep_alive_ = head.keep_alive;
    headers_.insert(headers_.end(), response.headers.begin(), response.headers.end());
    head.headers = &headers_;
    head.content_length = response.body.size();
    std::string text = format_head(head);
    if (request_.method != "HEAD") text += response.body;
    finish();
    connection_->send(text);
}

void HttpExchange::begin_stream(int status, std::string_view content_type,
                                const HttpHeaders& headers, std::optional<std::uint64_t> length) {
    if (!open()) return;
    CHECK(!started_ && connection_ != nullptr);
    started_ = true;
    status_ = status;
    chunked_ = !connection_->http_1_0_ && !length;
    ResponseHead head = connection_->head_for(*this, status, content_type);
    connection_->keep_alive_ = head.keep_alive && (chunked_ || length);
    headers_.insert(headers_.end(), headers.begin(), headers.end());
    head.headers = &headers_;
    head.framing = chunked_ ? Framing::chunked : Framing::close;
    if (length) {
        head.framing = Framing::length;
        head.content_length = *length;
        left_ = request_.method == "HEAD" ? 0 : *length;
    }
    connection_->send(format_head(head));
}

void HttpExchange::write(std::string_view data) {
    if (!open() || data.empty()) return;
    CHECK(started_);
    body_bytes_ += data.size();
    if (left_) {
        CHECK(data.size() <= *left_);
        *left_ -= data.size();
    }
    if (!chunked_) return connection_->send(data);
    std::string chunk;
    chunk.reserve(data.size() + 16);
    append_chunk(chunk, data);
    size_begun_ = false;
    connection_->send(chunk);
}

void HttpExchange::end_stream() {
    if (!open()) return;
    CHECK(started_);
    if (left_.value_or(0) > 0) return connection_->close();
    finish();
    if (chunked_) connection_->send("0\r\n\r\n");
    if (connection_ != nullptr) connection_->wake();
}

void HttpExchange::on_drained(std::function<void()> callback) {
    if (!open()) return;
    CHECK(connection_ != nullptr);
    if (queued_bytes() > 0) {
        drained_ = std::move(callback);
    } else {
        asio::post(connection_->loop_.io, std::move(callback));
    }
}

void HttpExchange::finish() {
    done_ = true;
    gone_ = nullptr;
    drained_ = nullptr;
    if (connection_ != nullptr) connection_->wake();
    tell_end();
}

void HttpExchange::count(std::string_view name, std::int64_t more) {
    if (counted_) counted_(name, more);
    for (auto& [known, value] : counts_) {
        if (known == name) {
            value += more;
            return;
        }
    }
    counts_.emplace_back(name, more);
}

void HttpExchange::tell_end() {
    const auto callbacks = std::exchange(ended_, {});
    for (const auto& ended : callbacks) ended(*this);
}

void HttpExchange::abandon() {
    CHECK(connection_ == nullptr);
    answer_ = nullptr;
    tell_end();
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
}

}  // namespace helix::net
