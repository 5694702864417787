#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <string>

#include <sys/stat.h>

// Certificates that tests make for themselves.

namespace helix::net {

using TestKey = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using TestCertificate = std::unique_ptr<X509, void (*)(X509*)>;

inline TestKey make_test_key() {
    return {EVP_EC_gen("P-256"), EVP_PKEY_free};
}

// Signed by itself, for localhost and 127.0.0.1, valid for a day.
inline TestCertificate make_test_certificate(const TestKey& key, const std::string& name) {
    TestCertificate made(X509_new(), X509_free);
    X509* x = made.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 86400);
    X509_set_pubkey(x, key.get());
    X509_NAME* subject = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(x, subject);
    X509_sign(x, key.get(), EVP_sha256());
    return made;
}

// passphrase "" = the key is not locked.
inline void write_test_key(const TestKey& key, const std::string& path,
                           const std::string& passphrase = {}) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    const auto* word = reinterpret_cast<const unsigned char*>(passphrase.c_str());
    PEM_write_PrivateKey(file, key.get(), passphrase.empty() ? nullptr : EVP_aes_256_cbc(),
                         passphrase.empty() ? nullptr : word, static_cast<int>(passphrase.size()),
                         nullptr, nullptr);
    std::fclose(file);
    ::chmod(path.c_str(), 0600);
}

inline void write_test_certificate(const TestCertificate& certificate, const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    PEM_write_X509(file, certificate.get());
    std::fclose(file);
}

// Both files of a new identity of this name.
inline void make_test_identity(const std::string& name, const std::string& certificate,
                               const std::string& key_path) {
    const TestKey key = make_test_key();
    write_test_key(key, key_path);
    write_test_certificate(make_test_certificate(key, name), certificate);
}

}  // namespace helix::net
