#include "net/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/check.h"

namespace helix::net {
namespace {

// OpenSSL's own BIO of a socket would let a client that is gone end the process by SIGPIPE.
int socket_of(BIO* bio) {
    return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool is_passing(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int bio_write(BIO* bio, const char* from, int bytes) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = ::send(socket_of(bio), from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
    if (n < 0 && is_passing(errno)) BIO_set_retry_write(bio);
    return static_cast<int>(n);
}

int bio_read(BIO* bio, char* to, int most) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = ::recv(socket_of(bio), to, static_cast<std::size_t>(most), 0);
    if (n < 0 && is_passing(errno)) BIO_set_retry_read(bio);
    if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return static_cast<int>(n);
}

long bio_control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_method() {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
        CHECK(made != nullptr);
        BIO_meth_set_write(made, bio_write);
        BIO_meth_set_read(made, bio_read);
        BIO_meth_set_ctrl(made, bio_control);
        return made;
    }();
    return method;
}

}  // namespace

TlsSession::TlsSession(ssl_ctx_st* context, int socket) : ssl_(SSL_new(context), SSL_free) {
    BIO* bio = BIO_new(socket_method());
    if (ssl_ == nullptr || bio == nullptr) {
        BIO_free(bio);
        throw std::bad_alloc();  // as the standard library does
    }
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    SSL_set_accept_state(ssl_.get());
}

TlsSession::~TlsSession() = default;

TlsSession::Outcome TlsSession::outcome_of(int result) {
    if (result > 0) return Outcome::done;
    const int system_error = errno;
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ:
            return Outcome::wants_read;
        case SSL_ERROR_WANT_WRITE:
            return Outcome::wants_write;
        case SSL_ERROR_ZERO_RETURN:
            return Outcome::ended;
        case SSL_ERROR_SSL: {
            const char* reason = ERR_reason_error_string(ERR_peek_last_error());
            why_ = reason == nullptr ? "a TLS error" : reason;
            break;
        }
        default:
            why_ = system_error == 0 ? "the connection ended" : std::strerror(system_error);
            break;
    }
    failed_ = true;
    return Outcome::failed;
}

TlsSession::Outcome TlsSession::handshake() {
    ERR_clear_error();
    errno = 0;
    return outcome_of(SSL_do_handshake(ssl_.get()));
}

TlsSession::Outcome TlsSession::read(char* to, std::size_t most) {
    ERR_clear_error();
    errno = 0;
    bytes_ = 0;
    return outcome_of(SSL_read_ex(ssl_.get(), to, most, &bytes_));
}

TlsSession::Outcome TlsSession::write(const char* from, std::size_t bytes) {
    ERR_clear_error();
    errno = 0;
    bytes_ = 0;
    return outcome_of(SSL_write_ex(ssl_.get(), from, bytes, &bytes_));
}

bool TlsSession::has_read_ahead() const {
    return SSL_pending(ssl_.get()) > 0;
}

void TlsSession::end() {
    if (failed_ || SSL_is_init_finished(ssl_.get()) == 0) return;
    if ((SSL_get_shutdown(ssl_.get()) & SSL_SENT_SHUTDOWN) != 0) return;
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
}

}  // namespace helix::net
