#include "net/tls_context.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/escape.h"
#include "base/file.h"

namespace helix::net {
namespace {

using base::Result;

constexpr std::uint64_t kMostPemBytes = 1U << 20U;
// Of TLS 1.2, where a client cannot do 1.3: only those that keep what was said secret when the key
// is stolen later, and that notice changes.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr std::string_view kProtocol = "\x08http/1.1";  // as ALPN writes it

using Bio = std::unique_ptr<BIO, int (*)(BIO*)>;
using Certificate = std::unique_ptr<X509, void (*)(X509*)>;
using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;

// The text of a file, wiped when it is done with.
class PemText {
  public:
    static Result<PemText> read(const std::string& path) {
        TRY(const auto file, base::RegularFile::open(path));
        if (file->bytes() > kMostPemBytes) {
            return base::invalid(fmt::format("{}: more than {} bytes", path, kMostPemBytes));
        }
        PemText text;
        text.bytes_.resize(file->bytes());
        TRY_VOID(file->read(0, std::as_writable_bytes(std::span(text.bytes_))));
        return text;
    }
    PemText(PemText&&) = default;
    PemText& operator=(PemText&&) = delete;
    ~PemText() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

    Bio open() const {
        return {BIO_new_mem_buf(bytes_.data(), static_cast<int>(bytes_.size())), BIO_free};
    }

  private:
    PemText() = default;
    std::vector<char> bytes_;
};

// Nobody is there to be asked for a passphrase.
int no_passphrase(char* /*to*/, int /*most*/, int /*writing*/, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
}

std::string printed(BIO* bio) {
    char* text = nullptr;
    const long size = BIO_get_mem_data(bio, &text);
    return {text, static_cast<std::size_t>(size)};
}

std::string describe_certificate(const X509* certificate) {
    const Bio name(BIO_new(BIO_s_mem()), BIO_free);
    X509_NAME_print_ex(name.get(), X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE);
    const Bio until(BIO_new(BIO_s_mem()), BIO_free);
    ASN1_TIME_print(until.get(), X509_get0_notAfter(certificate));
    const bool over = X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
    return fmt::format("{}, {} {}", base::escaped(printed(name.get())),
                       over ? "EXPIRED on" : "valid until", printed(until.get()));
}

base::Status use_certificates(SSL_CTX* context, const std::string& path, std::string& description) {
    TRY(const PemText text, PemText::read(path));
    const Bio bio = text.open();
    const Certificate own(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr), X509_free);
    if (own == nullptr) {
        return base::invalid(fmt::format("{}: no certificate in PEM form is in it", path));
    }
    if (SSL_CTX_use_certificate(context, own.get()) != 1) {
        const char* why = ERR_reason_error_string(ERR_peek_last_error());
        return base::invalid(fmt::format("{}: this certificate cannot be used: {}", path,
                                         why == nullptr ? "OpenSSL refuses it" : why));
    }
    while (X509* more = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
        if (SSL_CTX_add0_chain_cert(context, more) != 1) X509_free(more);
    }
    const unsigned long last = ERR_peek_last_error();
    if (ERR_GET_REASON(last) != PEM_R_NO_START_LINE) {
        return base::invalid(fmt::format("{}: a certificate after the first is damaged", path));
    }
    description = describe_certificate(own.get());
    return base::Ok{};
}

base::Status use_key(SSL_CTX* context, const TlsFiles& files) {
    TRY_VOID(check_only_ours(files.key));
    TRY(const PemText text, PemText::read(files.key));
    bool locked = false;
    const Bio bio = text.open();
    const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, &locked),
                  EVP_PKEY_free);
    if (locked) {
        return base::invalid(fmt::format(
            "{}: the key is locked with a passphrase; openssl pkey -in {} -out FILE writes it "
            "without one",
            files.key, files.key));
    }
    if (key == nullptr) {
        return base::invalid(fmt::format("{}: no private key in PEM form is in it", files.key));
    }
    if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return base::invalid(fmt::format("{}: this is not the key of the certificate in {}",
                                         files.key, files.certificate));
    }
    return base::Ok{};
}

// Of the protocols that a client offers we speak one.
int pick_protocol(SSL* /*ssl*/, const unsigned char** picked, unsigned char* picked_bytes,
                  const unsigned char* offered, unsigned int offered_bytes, void* /*unused*/) {
    unsigned char* found = nullptr;
    const int good = SSL_select_next_proto(
        &found, picked_bytes, reinterpret_cast<const unsigned char*>(kProtocol.data()),
        static_cast<unsigned int>(kProtocol.size()), offered, offered_bytes);
    if (good != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
    *picked = found;
    return SSL_TLSEXT_ERR_OK;
}

// A socket that ends without a word of TLS counts as one that has ended orderly: requests say
// themselves how long they are, so nobody can cut one short.
void set_rules(SSL_CTX* context) {
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(
        context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_cipher_list(context, kCiphers);
    SSL_CTX_set_alpn_select_cb(context, pick_protocol, nullptr);
}

}  // namespace

Result<TlsContext::Context> TlsContext::read(const TlsFiles& files, std::string& description) {
    ERR_clear_error();
    Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    if (context == nullptr) return base::Error{base::Errc::internal, "OpenSSL cannot be used"};
    set_rules(context.get());
    TRY_VOID(use_certificates(context.get(), files.certificate, description));
    TRY_VOID(use_key(context.get(), files));
    return context;
}

TlsContext::TlsContext(TlsFiles files, Context context, std::string description)
    : files_(std::move(files)),
      certificate_watch_(files_.certificate),
      key_watch_(files_.key),
      context_(std::move(context)),
      description_(std::move(description)) {}

TlsContext::~TlsContext() = default;

Result<std::unique_ptr<TlsContext>> TlsContext::load(TlsFiles files) {
    std::string description;
    TRY(Context context, read(files, description));
    return std::unique_ptr<TlsContext>(
        new TlsContext(std::move(files), std::move(context), std::move(description)));
}

Result<bool> TlsContext::refresh() {
    const bool certificate = certificate_watch_.changed();
    const bool key = key_watch_.changed();
    if (!certificate && !key) return false;
    std::string description;
    TRY(context_, read(files_, description));
    description_ = std::move(description);
    return true;
}

std::unique_ptr<TlsSession> TlsContext::accept(int socket) const {
    return std::make_unique<TlsSession>(context_.get(), socket);
}

}  // namespace helix::net
