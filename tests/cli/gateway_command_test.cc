// What `helix gateway` says of its options.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"

namespace helix::cli::gateway_command_test {
namespace {

using ::testing::HasSubstr;

struct Ended {
    int code = 0;
    std::string error;
};

Ended gateway(std::vector<const char*> words) {
    words.insert(words.begin(), {"helix", "gateway"});
    Ended ended;
    ::testing::internal::CaptureStderr();
    ended.code = run(static_cast<int>(words.size()), words.data());
    ended.error = ::testing::internal::GetCapturedStderr();
    return ended;
}

TEST(GatewayCommand, WantsToKnowWhereTheCoordinatorIs) {
    EXPECT_EQ(gateway({}).code, 2);
    const Ended nowhere = gateway({"--listen", "127.0.0.1:0", "--join", "hall"});
    EXPECT_EQ(nowhere.code, 1);
    EXPECT_THAT(nowhere.error, HasSubstr("\"hall\": expected HOST:PORT"));
    const Ended second = gateway({"--join", "127.0.0.1:1", "--join", "hall"});
    EXPECT_EQ(second.code, 1);
    EXPECT_THAT(second.error, HasSubstr("\"hall\""));
}

TEST(GatewayCommand, NamesTheOptionThatIsWrong) {
    const auto error = [](std::vector<const char*> words) {
        words.insert(words.end(), {"--join", "127.0.0.1:1"});
        const Ended ended = gateway(words);
        EXPECT_EQ(ended.code, 1) << words[0];
        return ended.error;
    };
    EXPECT_THAT(error({"--max-waiting", "0"}), HasSubstr("--max-waiting"));
    EXPECT_THAT(error({"--coordinator-wait", "4000"}), HasSubstr("--coordinator-wait"));
    EXPECT_THAT(error({"--lost-after", "0"}), HasSubstr("--lost-after"));
    EXPECT_THAT(error({"--name", "two words"}), HasSubstr("two words"));
    EXPECT_THAT(error({"--key", "/nowhere.key"}), HasSubstr("/nowhere.key"));
    EXPECT_THAT(error({"--request-memory", "3"}), HasSubstr("--request-memory"));
    EXPECT_THAT(error({"--listen", "0.0.0.0:0"}), HasSubstr("--api-key-file"));
    EXPECT_THAT(error({"--tls-cert", "a.pem"}), HasSubstr("--tls-key"));
}

}  // namespace
}  // namespace helix::cli::gateway_command_test
