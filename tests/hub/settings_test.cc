#include "hub/settings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/temp_folder.h"
#include "hub/digest.h"
#include "hub/rate.h"

namespace helix::hub::settings_test {
namespace {

base::Result<Settings> with(const std::map<std::string, std::string>& values,
                            const std::string& token_file = "") {
    return read_settings(
        [&](const char* name) {
            const auto found = values.find(name);
            return found == values.end() ? std::string() : found->second;
        },
        token_file);
}

TEST(HubSettings, TheCacheIsWhereOtherProgramsHaveIt) {
    EXPECT_EQ(with({{"HOME", "/h"}})->cache, "/h/.cache/huggingface/hub");
    EXPECT_EQ(with({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}})->cache, "/x/huggingface/hub");
    EXPECT_EQ(with({{"HOME", "/h"}, {"HF_HOME", "/f"}})->cache, "/f/hub");
    EXPECT_EQ(with({{"HF_HOME", "/f"}, {"HF_HUB_CACHE", "/c"}})->cache, "/c");
    EXPECT_EQ(with({{"HELIX_CACHE", "/ours"}, {"HF_HUB_CACHE", "/c"}})->cache, "/ours");
    EXPECT_FALSE(with({}).ok());
}

TEST(HubSettings, TheTokenComesFromTheFirstPlaceThatHasOne) {
    const TempFolder folder;
    std::ofstream(folder.path() + "/token") << "of-home\n";
    std::ofstream(folder.path() + "/other") << "of-path";
    EXPECT_EQ(with({{"HF_HOME", folder.path()}})->token, "of-home");
    EXPECT_EQ(
        with({{"HF_HOME", folder.path()}, {"HF_TOKEN_PATH", folder.path() + "/other"}})->token,
        "of-path");
    EXPECT_EQ(with({{"HF_HOME", folder.path()}, {"HF_TOKEN", "given"}})->token, "given");
    EXPECT_EQ(with({{"HF_HOME", "/f"}, {"HF_TOKEN", "given"}}, folder.path() + "/other")->token,
              "of-path");
    EXPECT_EQ(with({{"HF_HOME", "/nowhere"}})->token, "");
    EXPECT_FALSE(with({{"HF_HOME", "/f"}}, "/nowhere/token").ok());
    EXPECT_FALSE(with({{"HF_HOME", "/f"}, {"HF_TOKEN", "two\r\nX: lines"}}).ok());
}

TEST(HubSettings, ATokenDoesNotGoOverTheNetworkInTheClear) {
    const auto bad = with({{"HOME", "/h"}, {"HF_TOKEN", "x"}, {"HF_ENDPOINT", "http://hub.lan/"}});
    ASSERT_FALSE(bad.ok());
    EXPECT_NE(bad.error().message.find("in the clear"), std::string::npos);
    EXPECT_TRUE(with({{"HOME", "/h"}, {"HF_ENDPOINT", "http://hub.lan/"}}).ok());
    EXPECT_EQ(
        with({{"HOME", "/h"}, {"HF_TOKEN", "x"}, {"HF_ENDPOINT", "https://hub.lan//"}})->endpoint,
        "https://hub.lan");
    EXPECT_FALSE(with({{"HOME", "/h"}, {"HF_ENDPOINT", "hub.lan"}}).ok());
}

TEST(HubSettings, Offline) {
    for (const char* word : {"1", "ON", "Yes", "true"}) {
        EXPECT_TRUE(with({{"HOME", "/h"}, {"HF_HUB_OFFLINE", word}})->offline) << word;
    }
    for (const char* word : {"", "0", "no"}) {
        EXPECT_FALSE(with({{"HOME", "/h"}, {"HF_HUB_OFFLINE", word}})->offline) << word;
    }
}

TEST(HubDigest, AsOthersComputeThem) {
    const std::string text = "hello\n";
    Digest sha = Digest::sha256();
    sha.add(std::as_bytes(std::span(text)));
    EXPECT_EQ(sha.hex(), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    Digest git = Digest::git_blob(6);
    git.add(std::as_bytes(std::span(text).first(2)));
    git.add(std::as_bytes(std::span(text).subspan(2)));
    EXPECT_EQ(git.hex(), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(HubRate, OverTheLastSeconds) {
    RateMeter rate;
    const auto at = [](double s) { return base::TimePoint{} + base::from_seconds(s); };
    rate.at(at(-20), 1000);
    rate.at(at(0), 1000);  // it has only now begun
    EXPECT_FALSE(rate.bytes_per_s());
    rate.at(at(0.5), 1500);
    EXPECT_FALSE(rate.bytes_per_s());
    rate.at(at(2), 3000);
    EXPECT_DOUBLE_EQ(*rate.bytes_per_s(), 1000);
    for (int s = 3; s <= 20; ++s) rate.at(at(s), static_cast<std::uint64_t>(3000 + (s - 2) * 10));
    EXPECT_NEAR(*rate.bytes_per_s(), 10, 0.1);
    rate.at(at(21), 0);  // from the beginning again
    EXPECT_FALSE(rate.bytes_per_s());
    rate.at(at(23), 500);
    EXPECT_DOUBLE_EQ(*rate.bytes_per_s(), 250);
}

TEST(HubRate, InWords) {
    EXPECT_EQ(describe_transfer(1'200'000'000, 4'660'000'000, 38'000'000),
              "1.2 GB of 4.66 GB, 38 MB/s, 1 min 32 s left");
    EXPECT_EQ(describe_transfer(0, 1000, std::nullopt), "0 B of 1 kB");
    EXPECT_EQ(describe_transfer(500, 0, 100), "500 B, 100 B/s");
    EXPECT_EQ(describe_transfer(0, 36'000, 1), "0 B of 36 kB, 1 B/s, 10 h 0 min left");
    EXPECT_EQ(describe_transfer(500, 1000, 0), "500 B of 1 kB, 0 B/s");
    EXPECT_EQ(describe_transfer(1000, 1000, 10), "1 kB of 1 kB, 10 B/s");
}

}  // namespace
}  // namespace helix::hub::settings_test
