#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <string>

#include "http_test_client.h"

namespace helix::net {

// A TestClient that speaks TLS, and believes every certificate.
class TlsTestClient : public TestClient {
  public:
    struct Options {
        int most_version = TLS1_3_VERSION;
        std::string protocols = {};  // as ALPN writes them; "" = offers none
        int receive_buffer = 0;
    };

    explicit TlsTestClient(std::uint16_t port) : TlsTestClient(port, Options()) {}
    TlsTestClient(std::uint16_t port, const Options& options)
        : TestClient(port, options.receive_buffer),
          context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
        const timeval limit = {30, 0};
        ::setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        SSL_CTX_set_security_level(context_.get(), 0);
        SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
        SSL_CTX_set_max_proto_version(context_.get(), options.most_version);
        ssl_ = {SSL_new(context_.get()), SSL_free};
        const auto* offered = reinterpret_cast<const unsigned char*>(options.protocols.data());
        SSL_set_alpn_protos(ssl_.get(), offered, static_cast<unsigned>(options.protocols.size()));
        SSL_set_fd(ssl_.get(), fd());
        secure_ = SSL_connect(ssl_.get()) == 1;
    }

    // Whether the handshake went well.
    bool secure() const { return secure_; }
    std::string version() const { return SSL_get_version(ssl_.get()); }
    std::string protocol() const {
        const unsigned char* picked = nullptr;
        unsigned bytes = 0;
        SSL_get0_alpn_selected(ssl_.get(), &picked, &bytes);
        return {reinterpret_cast<const char*>(picked), bytes};
    }
    // Whom the server's certificate is for.
    std::string server_name() const {
        const std::unique_ptr<X509, void (*)(X509*)> shown(SSL_get1_peer_certificate(ssl_.get()),
                                                           X509_free);
        if (shown == nullptr) return {};
        std::array<char, 256> name = {};
        X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name.data(),
                                  static_cast<int>(name.size()));
        return name.data();
    }
    // Says that it sends nothing more, in TLS only.
    void end_tls() { SSL_shutdown(ssl_.get()); }
    // Whether the server said that it sends nothing more, in place of just leaving.
    bool ended_properly() const { return ended_properly_; }

  protected:
    ssize_t transmit(const char* from, std::size_t bytes) override {
        return secure_ ? SSL_write(ssl_.get(), from, static_cast<int>(bytes)) : -1;
    }
    ssize_t receive(char* to, std::size_t most) override {
        if (!secure_) return -1;
        const int n = SSL_read(ssl_.get(), to, static_cast<int>(most));
        if (n <= 0) ended_properly_ = SSL_get_error(ssl_.get(), n) == SSL_ERROR_ZERO_RETURN;
        ERR_clear_error();
        return n;
    }
    bool has_read_ahead() const override { return SSL_pending(ssl_.get()) > 0; }

  private:
    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
    std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, SSL_free};
    bool secure_ = false;
    bool ended_properly_ = false;
};

}  // namespace helix::net
