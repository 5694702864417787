// Models of another Helix: a server of the test's own that answers as one does, or does not.

#include "hub/helix_server.h"

#include <gmock/gmock.h>

#include "hub/pull_test_base.h"

namespace helix::hub::helix_server_test {
namespace {

using ::testing::HasSubstr;

class HelixServer : public PullTest {
  protected:
    HelixServer() {
        options_.check_model = [this](const std::filesystem::path& file, const std::string& hash) {
            if (read(file) == content_ && hash == hash_) return base::Status(base::Ok{});
            return base::Status(base::Error{base::Errc::io, "another content"});
        };
    }

    FakeReply answer(const FakeRequest& request) {
        const std::lock_guard lock(mutex_);
        ++asked_;
        if (!key_.empty() && request.header("authorization") != "Bearer " + key_) {
            FakeReply reply;
            reply.status = 401;
            return reply;
        }
        if (request.path == "/helix/models") return FakeReply{200, {}, list_};
        FakeReply reply;
        reply.status = 404;
        if (request.path != file_) return reply;
        reply = serve_bytes(request, sent_, hash_);
        if (cut_once_) {
            cut_once_ = false;
            reply.cut_after = reply.body.size() / 2;
        }
        return reply;
    }
    std::string pull_error(const std::string& path) {
        const auto pulled = pull_address(server_.origin() + path, options_);
        return pulled.ok() ? "" : pulled.error().message;
    }

    const std::string content_ = noise(300'000, 7);
    const std::string hash_ = std::string(32, '5');
    std::string sent_ = content_;
    std::string list_ =
        R"({"models": [{"name": "den/llama:Q8", "bytes": 300000, "hash": ")" + hash_ + R"("}]})";
    std::string file_ = "/helix/models/den/llama%3AQ8.gguf";
    std::string key_;
    bool cut_once_ = false;
    int asked_ = 0;
    std::mutex mutex_;
    FakeServer server_{[this](const FakeRequest& request) { return answer(request); }};
};

TEST_F(HelixServer, ItsOnlyModelNeedsNoName) {
    for (const std::string path : {"", "/", "/den/llama:Q8", "/den/llama%3AQ8/"}) {
        const auto pulled = pull_address(server_.origin() + path, options_);
        ASSERT_TRUE(pulled.ok()) << path << ": " << pulled.error().message;
        EXPECT_EQ(read(pulled->model.path), content_);
        EXPECT_EQ(pulled->model.path.filename(), "den-llama-Q8.gguf");
        EXPECT_EQ(pulled->received, path.empty() ? content_.size() : 0U) << path;
    }
    const Cache cache(options_.settings.cache);
    ASSERT_EQ(cache.list().size(), 1U);
    EXPECT_TRUE(cache.find_address(cache.list()[0].name).ok());
}

TEST_F(HelixServer, WhatBreaksOffGoesOn) {
    cut_once_ = true;
    const auto pulled = pull_address(server_.origin(), options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(read(pulled->model.path), content_);
    EXPECT_EQ(count(server_.requests(), "range"), 1);
}

TEST_F(HelixServer, AKeyGoesOnlyToOneThatAsksForIt) {
    options_.key = "secret";
    ASSERT_EQ(pull_error(""), "");
    EXPECT_EQ(count(server_.requests(), "authorization"), 0);
    key_ = "secret";
    ASSERT_EQ(pull_error("/den/llama:Q8"), "");
    EXPECT_GT(count(server_.requests(), "authorization"), 0);
    options_.key = "wrong";
    EXPECT_THAT(pull_error(""),
                HasSubstr("refuses the key; give one that may chat with --api-key"));
    options_.key = "";
    EXPECT_THAT(pull_error(""), HasSubstr("asks for a key"));
}

TEST_F(HelixServer, AnotherContentThanItPromisesIsNotKept) {
    sent_[sent_.size() - 1] ^= 1;
    EXPECT_THAT(pull_error(""), HasSubstr("another content"));
    EXPECT_TRUE(Cache(options_.settings.cache).list().empty());
    sent_ = content_;
    EXPECT_EQ(pull_error(""), "");
    sent_ = content_.substr(1);
    list_.replace(list_.find(hash_), 1, "6");  // so it is another file
    EXPECT_NE(pull_error(""), "");
    EXPECT_EQ(Cache(options_.settings.cache).list().size(), 1U);
}

TEST_F(HelixServer, OfSeveralOneIsNamed) {
    list_ = R"({"models": [{"name": "a", "bytes": 1, "hash": ")" + hash_ +
            R"("}, {"name": "b", "bytes": 1, "hash": ")" + hash_ + R"("}]})";
    const std::string models = server_.origin() + "/a\n  " + server_.origin() + "/b";
    EXPECT_THAT(pull_error(""), HasSubstr("name one of its models; it has\n  " + models));
    EXPECT_THAT(pull_error("/c"), HasSubstr("has no model of this name; it has\n  " + models));
    list_ = R"({"models": []})";
    EXPECT_THAT(pull_error(""), HasSubstr("serves no model that has weights"));
}

TEST_F(HelixServer, WhatIsNoHelixIsSaid) {
    for (
        const std::string useless :
        {"", "[]", "{}", R"({"models": 1})", R"({"models": [1]})",
         R"({"models": [{"name": "a", "bytes": -1, "hash": "55555555555555555555555555555555"}]})",
         R"({"models": [{"name": "a", "bytes": 1, "hash": "../../../../../etc/passwd0000000"}]})",
         R"({"models": [{"name": "", "bytes": 1, "hash": "55555555555555555555555555555555"}]})"}) {
        list_ = useless;
        EXPECT_THAT(pull_error(""), HasSubstr("/helix/models: is no list of models")) << useless;
    }
    FakeServer other([](const FakeRequest&) {
        FakeReply reply;
        reply.status = 404;
        return reply;
    });
    const auto pulled = pull_address(other.origin() + "/llama", options_);
    ASSERT_FALSE(pulled.ok());
    EXPECT_THAT(
        pulled.error().message,
        HasSubstr("answers 404; expected the address of a .gguf file, or of another Helix"));
}

TEST_F(HelixServer, ANameNeverLeavesItsFolder) {
    for (const auto& [name, file] : {std::pair<std::string, std::string>{"../../x", "-..-x.gguf"},
                                     {"..", "model.gguf"},
                                     {"m-00001-of-00003", "m.gguf"},
                                     {"a\\u0000b", "a-b.gguf"}}) {
        list_ = R"({"models": [{"name": ")" + name + R"(", "bytes": 300000, "hash": ")" + hash_ +
                R"("}]})";
        World world;
        Http http(options_.patience.http);
        world.http = &http;
        const auto found = find_on_helix(world, server_.origin(), "");
        ASSERT_TRUE(found.ok()) << found.error().message;
        EXPECT_TRUE(is_safe_path(found->file_name)) << found->file_name;
        EXPECT_EQ(found->file_name.find('/'), std::string::npos) << found->file_name;
        EXPECT_TRUE(found->file_name.ends_with(".gguf")) << found->file_name;
        EXPECT_EQ(found->file_name, file);
    }
}

TEST(HelixAddress, IsAnyWebAddressThatIsNoFile) {
    EXPECT_TRUE(looks_like_helix_address("http://den:8080"));
    EXPECT_TRUE(looks_like_helix_address("https://den/llama"));
    EXPECT_FALSE(looks_like_helix_address("http://den/llama.gguf"));
    EXPECT_FALSE(looks_like_helix_address("http://den/llama.gguf?download=true"));
    EXPECT_FALSE(looks_like_helix_address("https://huggingface.co/den/llama"));
    EXPECT_FALSE(looks_like_helix_address("den/llama"));
    EXPECT_FALSE(looks_like_helix_address("den:8080"));
}

}  // namespace
}  // namespace helix::hub::helix_server_test
