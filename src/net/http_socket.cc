#include "net/http_socket.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>

namespace helix::net {

namespace asio = boost::asio;

bool HttpSocket::begins_plain() {
    char first = 0;
    const ssize_t n = ::recv(socket_.native_handle(), &first, 1, MSG_PEEK);
    const bool plain = n == 1 && first >= 'A' && first <= 'Z';
    if (plain) tls_ = nullptr;
    return plain;
}

std::size_t HttpSocket::take(TlsSession::Outcome outcome, Error& error) {
    error = {};
    switch (outcome) {
        case TlsSession::Outcome::done:
            break;
        case TlsSession::Outcome::wants_read:
            wait_ = Socket::wait_read;
            error = asio::error::would_block;
            break;
        case TlsSession::Outcome::wants_write:
            wait_ = Socket::wait_write;
            error = asio::error::would_block;
            break;
        case TlsSession::Outcome::ended:
            error = asio::error::eof;
            break;
        case TlsSession::Outcome::failed:
            error = asio::error::connection_aborted;
            break;
    }
    return tls_->bytes();
}

void HttpSocket::handshake(Error& error) {
    take(tls_->handshake(), error);
}

std::size_t HttpSocket::read_some(char* to, std::size_t most, Error& error) {
    if (tls_ != nullptr) return take(tls_->read(to, most), error);
    wait_ = Socket::wait_read;
    return socket_.read_some(asio::buffer(to, most), error);
}

std::size_t HttpSocket::write_some(const char* from, std::size_t bytes, Error& error) {
    if (tls_ != nullptr) return take(tls_->write(from, bytes), error);
    wait_ = Socket::wait_write;
    return socket_.write_some(asio::buffer(from, bytes), error);
}

void HttpSocket::end_sending() {
    if (tls_ != nullptr) tls_->end();
    Error ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace helix::net
