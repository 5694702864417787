#include "hub/pull.h"

#include <gtest/gtest.h>

#include <thread>

#include "hub/model_name.h"
#include "hub/pull_test_base.h"
#include "net/test_certificate.h"

namespace helix::hub::pull_test {
namespace {

namespace fs = std::filesystem;

class Pull : public PullTest {};

TEST_F(Pull, AModelByItsTagIsWholeAndInTheHubsLayout) {
    FakeHub hub;
    hub.large = {{"Tiny-Q4_K_M.gguf", noise(300'000, 1)}, {"Tiny-F16.gguf", noise(500, 2)}};
    hub.small = {{"README.md", "words"}};
    const auto pulled = pull_from(hub, "Q4_K_M");
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    const std::string content = hub.large["Tiny-Q4_K_M.gguf"];
    const fs::path repository = fs::path(options_.settings.cache) / "models--den--Tiny-GGUF";
    EXPECT_EQ(pulled->model.path, repository / "snapshots" / hub.commit / "Tiny-Q4_K_M.gguf");
    EXPECT_EQ(read(pulled->model.path), content);
    EXPECT_EQ(pulled->received, content.size());
    EXPECT_EQ(pulled->files.at(0).hash, sha256_of(content));
    EXPECT_EQ(fs::read_symlink(pulled->model.path), fs::path("../../blobs") / sha256_of(content));
    EXPECT_EQ(read(repository / "refs" / "main"), hub.commit);
    EXPECT_FALSE(fs::exists(repository / "blobs" / (sha256_of(content) + ".helix-part")));
}

TEST_F(Pull, WhatIsThereIsNotBroughtAgain) {
    FakeHub hub;
    hub.large = {{"Tiny-Q8_0.gguf", noise(5000, 1)}};
    ASSERT_EQ(error_from(hub), "");
    hub.bytes().forget_requests();
    const auto again = pull_from(hub);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->received, 0U);
    EXPECT_TRUE(hub.bytes().requests().empty());
    // A name is found without a question, with and without the hub.
    hub.hub().forget_requests();
    EXPECT_EQ(find_or_pull("den/Tiny-GGUF", options_)->path, again->model.path);
    EXPECT_EQ(find_or_pull("den/Tiny-GGUF:q8_0", options_)->path, again->model.path);
    EXPECT_TRUE(hub.hub().requests().empty());
}

TEST_F(Pull, ANewCommitBringsOnlyWhatHasChanged) {
    FakeHub hub;
    hub.small = {{"config.json", "{}"}, {"tokenizer.json", "[]"}};
    hub.large = {{"model.safetensors", noise(4000, 1)}};
    ASSERT_EQ(error_from(hub), "");
    hub.commit = std::string(39, '0') + "2";
    hub.small["config.json"] = R"({"new": 1})";
    const auto pulled = pull_from(hub);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->received, hub.small["config.json"].size());
    EXPECT_EQ(read(pulled->model.path / "config.json"), hub.small["config.json"]);
    EXPECT_EQ(read(pulled->model.path / "model.safetensors"), hub.large["model.safetensors"]);
}

TEST_F(Pull, AListInPagesAndASplitFileInAFolder) {
    FakeHub hub;
    hub.page = 2;
    for (int part = 1; part <= 3; ++part) {
        hub.large["Q8_0/t-Q8_0-0000" + std::to_string(part) + "-of-00003.gguf"] =
            noise(3000, static_cast<std::uint32_t>(part));
    }
    for (int i = 0; i < 5; ++i) hub.small["file" + std::to_string(i)] = "x";
    std::vector<std::uint64_t> done;
    std::uint64_t total = 0;
    options_.progress = [&](const PullProgress& progress) {
        done.push_back(progress.done);
        total = progress.total;
    };
    const auto pulled = pull_from(hub, "Q8_0");
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    ASSERT_EQ(pulled->model.files.size(), 3U);
    for (const fs::path& file : pulled->model.files) {
        EXPECT_EQ(read(file), hub.large["Q8_0/" + file.filename().string()]);
    }
    EXPECT_EQ(total, 9000U);
    EXPECT_EQ(done.back(), 9000U);
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    hub.large.erase("Q8_0/t-Q8_0-00002-of-00003.gguf");
    EXPECT_NE(error_from(hub, "Q8_0").find("00002-of-00003.gguf is missing"), std::string::npos);
}

TEST_F(Pull, TheTokenGoesToTheHubAndNowhereElse) {
    FakeHub hub;
    hub.token = "hf_secret";
    hub.small = {{"config.json", "{}"}, {"tokenizer.json", "[]"}};
    hub.large = {{"model.safetensors", noise(4000, 1)}};
    EXPECT_NE(error_from(hub).find("needs a token"), std::string::npos);
    options_.settings.token = "wrong";
    EXPECT_NE(error_from(hub).find("the token may not see it"), std::string::npos);
    options_.settings.token = "hf_secret";
    ASSERT_EQ(error_from(hub), "");
    EXPECT_FALSE(hub.bytes().requests().empty());
    EXPECT_EQ(count(hub.bytes().requests(), "authorization"), 0);
}

TEST_F(Pull, ARenamedRepositoryIsFollowedAtTheHub) {
    FakeHub hub;
    hub.token = options_.settings.token = "hf_secret";
    hub.large = {{"Tiny-Q8_0.gguf", noise(4000, 1)}};
    hub.at_hub = [](const FakeRequest& request, const FakeReply&) -> std::optional<FakeReply> {
        const std::size_t at = request.path.find("old/Name");
        if (at == std::string::npos) return std::nullopt;
        std::string to = request.path;
        to.replace(at, 8, "den/Tiny-GGUF");
        if (!request.query.empty()) to += "?" + request.query;
        return FakeReply{307, {{"Location", to}}, ""};
    };
    at(hub);
    const auto pulled = pull(*parse_model_name("old/Name"), options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(read(pulled->model.path), hub.large["Tiny-Q8_0.gguf"]);
}

TEST_F(Pull, RefusalsSayWhatToDo) {
    FakeHub hub;
    hub.large = {{"Tiny-Q8_0.gguf", noise(400, 1)}};
    EXPECT_NE(error_from(hub, "Q2_K").find("no GGUF file has the tag Q2_K; there are Q8_0"),
              std::string::npos);
    at(hub);
    EXPECT_NE(pull(*parse_model_name("no/body"), options_).error().message.find("no such model"),
              std::string::npos);
    EXPECT_NE(pull(*parse_model_name("den/Tiny-GGUF@v9"), options_)
                  .error()
                  .message.find("den/Tiny-GGUF@v9: there is no such revision"),
              std::string::npos);
    hub.at_hub = [](const FakeRequest& request, const FakeReply&) -> std::optional<FakeReply> {
        if (request.method != "HEAD") return std::nullopt;
        return FakeReply{403, {{"X-Error-Code", "GatedRepo"}}, ""};
    };
    EXPECT_NE(error_from(hub).find("is gated: accept its terms at"), std::string::npos);
    options_.settings.offline = true;
    EXPECT_NE(error_from(hub).find("HF_HUB_OFFLINE"), std::string::npos);
}

TEST_F(Pull, AnUnknownNameListsThoseThatAreAlike) {
    FakeHub hub;
    hub.large = {{"Tiny-Q8_0.gguf", noise(400, 1)}};
    ASSERT_EQ(error_from(hub), "");
    const auto found = find_or_pull("den/Tiny-GGUV:Q8_0", options_);
    ASSERT_FALSE(found.ok());
    EXPECT_NE(found.error().message.find("did you mean \"den/Tiny-GGUF:Q8_0\""), std::string::npos)
        << found.error().message;
}

TEST_F(Pull, OverTlsOnlyFromWhomIsTrusted) {
    const std::string certificate = folder_.path() + "/cert.pem";
    const std::string key = folder_.path() + "/key.pem";
    net::make_test_identity("localhost", certificate, key);
    FakeHub hub(certificate, key);
    hub.large = {{"Tiny-Q8_0.gguf", noise(40'000, 1)}};
    const std::string error = error_from(hub);
    EXPECT_NE(error.find("certificate"), std::string::npos) << error;
    EXPECT_TRUE(pauses_.empty());  // trying again would not help
    ::setenv("SSL_CERT_FILE", certificate.c_str(), 1);
    const auto pulled = pull_from(hub);
    ::unsetenv("SSL_CERT_FILE");
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(read(pulled->model.path), hub.large["Tiny-Q8_0.gguf"]);
}

TEST_F(Pull, TwoAtOnceShareTheWork) {
    FakeHub hub;
    hub.large = {{"Tiny-Q8_0.gguf", noise(400'000, 1)}};
    hub.at_bytes = [](const FakeRequest&, const FakeReply& usual) -> std::optional<FakeReply> {
        FakeReply slow = usual;
        slow.bytes_per_ms = 1000;
        return slow;
    };
    at(hub);
    const ModelName name = *parse_model_name("den/Tiny-GGUF");
    PullOptions second = options_;
    std::vector<std::string> reasons;
    std::uint64_t seen = 0;
    second.note = [&](base::Duration, const std::string& why) { reasons.push_back(why); };
    second.progress = [&](const PullProgress& progress) { seen = std::max(seen, progress.done); };
    std::string first_error;
    std::thread first([&] {
        const auto pulled = pull(name, options_);
        if (!pulled.ok()) first_error = pulled.error().message;
    });
    const fs::path locks = fs::path(options_.settings.cache) / ".locks" / "models--den--Tiny-GGUF";
    while (!fs::exists(locks)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto pulled = pull(name, second);
    first.join();
    EXPECT_EQ(first_error, "");
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->received, 0U);
    EXPECT_EQ(hub.bytes().requests().size(), 1U);
    EXPECT_EQ(seen, 400'000U);
    ASSERT_FALSE(reasons.empty());
    EXPECT_NE(reasons.front().find("another process is pulling"), std::string::npos);
}

TEST_F(Pull, AnAddressIsPulledAndFoundAgain) {
    const std::string content = noise(50'000, 3);
    FakeServer server([&](const FakeRequest& request) {
        if (request.path == "/page.gguf") return FakeReply{200, {}, "<html>"};
        if (request.path != "/a/llama.gguf") return FakeReply{404, {}, "none"};
        return serve_bytes(request, content, "v1");
    });
    const std::string address = server.origin() + "/a/llama.gguf?download=true";
    const auto pulled = pull_address(address, options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->model.path.filename(), "llama.gguf");
    EXPECT_EQ(read(pulled->model.path), content);
    EXPECT_EQ(pulled->files.at(0).hash, sha256_of(content));
    server.forget_requests();
    EXPECT_EQ(find_or_pull(address, options_)->path, pulled->model.path);
    EXPECT_TRUE(server.requests().empty());
    options_.sha256 = sha256_of("other");
    EXPECT_NE(pull_address(address, options_).error().message.find("expected"), std::string::npos);
    options_.sha256.clear();
    const auto error = [&](const std::string& path) {
        return pull_address(server.origin() + path, options_).error().message;
    };
    EXPECT_NE(error("/page.gguf").find("is no GGUF file"), std::string::npos);
    EXPECT_NE(error("/no.gguf").find("answered with status 404"), std::string::npos);
    EXPECT_NE(error("/a/").find("expected the address of a .gguf file"), std::string::npos);
    ASSERT_EQ(Cache(options_.settings.cache).list().size(), 1U);
    EXPECT_EQ(Cache(options_.settings.cache).list()[0].name, address);
    EXPECT_GE(*Cache(options_.settings.cache).remove(address), content.size());
    EXPECT_TRUE(Cache(options_.settings.cache).list().empty());
}

}  // namespace
}  // namespace helix::hub::pull_test
