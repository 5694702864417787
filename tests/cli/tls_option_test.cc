#include "cli/tls_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../net/test_certificate.h"
#include "../own_folder.h"

namespace helix::cli::tls_option_test {
namespace {

using ::testing::HasSubstr;

using TlsOption = OwnFolder;

TEST_F(TlsOption, BothFilesAreReadAtOnceOrNeither) {
    const std::string certificate = folder_ + "/cert.pem";
    const std::string key = folder_ + "/key.pem";
    net::make_test_identity("localhost", certificate, key);
    api::ApiOptions options;
    ASSERT_TRUE(fill_tls({}, options).ok());
    EXPECT_FALSE(options.http.tls);
    EXPECT_STREQ(scheme_of({}), "http");
    ASSERT_TRUE(fill_tls({certificate, key}, options).ok());
    EXPECT_EQ(options.http.tls->certificate, certificate);
    EXPECT_EQ(options.http.tls->key, key);
    EXPECT_STREQ(scheme_of({certificate, key}), "https");
}

TEST_F(TlsOption, WhatIsMissingIsNamed) {
    const auto why = [](const TlsArguments& a) {
        api::ApiOptions options;
        const base::Status status = fill_tls(a, options);
        return status.ok() ? std::string("nothing") : status.error().message;
    };
    EXPECT_THAT(why({"cert.pem", ""}), HasSubstr("--tls-key FILE"));
    EXPECT_THAT(why({"", "key.pem"}), HasSubstr("--tls-cert FILE"));
    const std::string none = folder_ + "/none.pem";
    EXPECT_THAT(why({none, none}), HasSubstr("--tls-cert, --tls-key: " + none));
}

}  // namespace
}  // namespace helix::cli::tls_option_test
