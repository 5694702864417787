#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/private_file.h"
#include "net/tls_session.h"

// The certificate that a server proves itself with, and its key, by OpenSSL. TLS 1.2 and 1.3 only.

struct ssl_ctx_st;

namespace helix::net {

// Files in PEM form.
struct TlsFiles {
    std::string certificate;  // the server's own first, then those that it is signed with
    std::string key;          // not locked with a passphrase
};

class TlsContext {
  public:
    // Error io: a file is not there or cannot be read. Error invalid: it does not hold what it
    // should, or the key is not the certificate's. Error denied: others may write the key's file.
    // All name the file.
    static base::Result<std::unique_ptr<TlsContext>> load(TlsFiles files);
    ~TlsContext();
    TlsContext(const TlsContext&) = delete;
    TlsContext& operator=(const TlsContext&) = delete;

    // Loads files that have changed and stand still since the last call; true if a new certificate
    // is in use. After an error the old one stays; the error is returned once for each change.
    // Sessions under way keep what they began with.
    base::Result<bool> refresh();
    // Whom the certificate is for and until when it holds.
    const std::string& describe() const { return description_; }

    // The server's side of a new session over a connected socket that does not block.
    std::unique_ptr<TlsSession> accept(int socket) const;

  private:
    using Context = std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)>;
    TlsContext(TlsFiles files, Context context, std::string description);
    // What one reading of the files gives.
    static base::Result<Context> read(const TlsFiles& files, std::string& description);

    TlsFiles files_;
    FileWatch certificate_watch_;
    FileWatch key_watch_;
    Context context_;
    std::string description_;
};

}  // namespace helix::net
