#include "cli/access_option.h"

#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "cli/command.h"
#include "net/key.h"
#include "net/private_file.h"

namespace helix::cli::access_option_test {
namespace {

std::string refusal(const AccessArguments& a, const std::string& listen,
                    const AccessEnvironment& environment = {}) {
    api::ApiOptions options;
    const base::Status status = fill_access(a, environment, listen, options);
    return status.ok() ? "" : status.error().message;
}

TEST(AccessOption, APortThatOthersReachNeedsAKeyOrSaysThatItIsOpen) {
    for (const char* listen : {"0.0.0.0", "192.0.2.7", "::", "2001:db8::7"}) {
        const std::string text = refusal({}, listen);
        for (const char* named : {"--api-key-file", "HELIX_API_KEY", "--open"}) {
            EXPECT_NE(text.find(named), std::string::npos) << text;
        }
        AccessArguments open;
        open.open = true;
        EXPECT_EQ(refusal(open, listen), "");
        AccessArguments file;
        file.api_key_files = {"keys"};
        EXPECT_EQ(refusal(file, listen), "");
        EXPECT_EQ(refusal({}, listen, {"secret", ""}), "");
        EXPECT_NE(refusal({}, listen, {"", "boss"}), "") << "an admin key is none for clients";
    }
    EXPECT_EQ(refusal({}, "127.0.0.1"), "");
    EXPECT_EQ(refusal({}, "::1"), "");
}

TEST(AccessOption, KeysComeFromTheCommandLineAndTheEnvironment) {
    AccessArguments a;
    a.api_keys = {"one"};
    api::ApiOptions options;
    ASSERT_TRUE(fill_access(a, {"two", "boss"}, "127.0.0.1", options).ok());
    EXPECT_EQ(options.api_keys, (std::vector<std::string>{"one", "two"}));
    EXPECT_EQ(options.access.admin_keys, (std::vector<std::string>{"boss"}));
}

TEST(AccessOption, ACommandSendsTheAdminKeyWhereItHasOne) {
    const TempFolder folder;
    const std::string file = folder.path() + "/admin.key";
    ASSERT_TRUE(net::replace_private(file, "# ours\nops from-file\nother\n").ok());
    EXPECT_EQ(*key_to_send({"api", file}, {"e-api", "e-admin"}), "from-file");
    EXPECT_EQ(*key_to_send({"api", ""}, {"e-api", "e-admin"}), "e-admin");
    EXPECT_EQ(*key_to_send({"api", ""}, {"e-api", ""}), "api");
    EXPECT_EQ(*key_to_send({"", ""}, {"e-api", ""}), "e-api");
    EXPECT_EQ(*key_to_send({"", ""}, {}), "");
    EXPECT_FALSE(key_to_send({"", folder.path() + "/none"}, {}).ok());
    ASSERT_TRUE(net::replace_private(file, "# nothing\n").ok());
    EXPECT_FALSE(key_to_send({"", file}, {}).ok());
}

// What `helix WORDS...` ends with, and what it prints on standard error.
std::pair<int, std::string> helix(std::vector<std::string> words) {
    words.insert(words.begin(), "helix");
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    const int code = run(static_cast<int>(argv.size()), argv.data());
    ::testing::internal::GetCapturedStdout();
    return {code, ::testing::internal::GetCapturedStderr()};
}

TEST(AccessOption, ServeRefusesAnOpenPortBeforeItReadsTheModel) {
    const auto [code, text] = helix({"serve", "--model", "/none.gguf", "--listen", "0.0.0.0:0"});
    EXPECT_EQ(code, 1);
    EXPECT_NE(text.find("--open"), std::string::npos) << text;
    const auto [named_code, named] =
        helix({"serve", "--model", "/none.gguf", "--listen", "localhost:0"});
    EXPECT_EQ(named_code, 1);
    EXPECT_NE(named.find("/none.gguf"), std::string::npos) << "localhost is an address: " << named;
}

TEST(KeyCommand, LooksAtTheNameBeforeItMakesAnything) {
    const TempFolder folder;
    const std::string file = folder.path() + "/c.key";
    EXPECT_EQ(helix({"key", "new", "--file", file, "--worker", "a b"}).first, 1);
    EXPECT_TRUE(folder.empty());
}

TEST(KeyCommand, RevokesWhatItMade) {
    const TempFolder folder;
    const std::string file = folder.path() + "/c.key";
    const std::string out = folder.path() + "/den.key";
    ASSERT_EQ(helix({"key", "new", "--file", file, "--worker", "den", "--out", out}).first, 0);
    EXPECT_EQ(net::read_allow_list(file + ".allow")->size(), 1U);
    EXPECT_EQ(helix({"key", "revoke", "den", "--file", file}).first, 0);
    EXPECT_EQ(net::read_allow_list(file + ".allow")->size(), 0U);
    const auto [code, text] = helix({"key", "revoke", "d\x1b[2Jen", "--file", file});
    EXPECT_EQ(code, 1);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace helix::cli::access_option_test
