// A hub, a network and a disk that do what they should not.

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "hub/hub_client.h"
#include "hub/model_name.h"
#include "hub/pull.h"
#include "hub/pull_test_base.h"

namespace helix::hub::pull_faults_test {
namespace {

namespace fs = std::filesystem;
using Reply = std::optional<FakeReply>;

class PullFaults : public PullTest {
  protected:
    PullFaults() { hub_.large = {{kFile, noise(kBytes, 1)}}; }

    static constexpr const char* kFile = "Tiny-Q8_0.gguf";
    static constexpr std::size_t kBytes = 200'000;

    const std::string& content() { return hub_.large[kFile]; }
    fs::path blob(const std::string& ending = "") {
        return fs::path(options_.settings.cache) / "models--den--Tiny-GGUF" / "blobs" /
               (sha256_of(content()) + ending);
    }
    std::vector<std::string> ranges() {
        std::vector<std::string> found;
        for (const FakeRequest& request : hub_.bytes().requests()) {
            found.push_back(request.header("range"));
        }
        return found;
    }
    // The first so many answers of the server with the bytes.
    void first_answers(int count, const std::function<FakeReply(FakeReply)>& change) {
        hub_.at_bytes = [this, count, change](const FakeRequest&, const FakeReply& usual) -> Reply {
            if (++answers_ > count) return std::nullopt;
            return change(usual);
        };
    }
    void expect_whole() {
        const auto pulled = pull_from(hub_);
        ASSERT_TRUE(pulled.ok()) << pulled.error().message;
        EXPECT_EQ(read(pulled->model.path), content());
    }

    FakeHub hub_;
    int answers_ = 0;
};

TEST_F(PullFaults, ABrokenConnectionGoesOnWhereItWas) {
    first_answers(4, [](FakeReply reply) {
        reply.cut_after = 30'000;
        return reply;
    });
    expect_whole();
    const std::vector<std::string> asked = ranges();
    ASSERT_EQ(asked.size(), 5U);
    EXPECT_EQ(asked[0], "");
    EXPECT_EQ(asked[1], "bytes=30000-");
    EXPECT_EQ(asked[4], "bytes=120000-");
}

TEST_F(PullFaults, WhatHasMovedOnMayFailAsOftenAgain) {
    options_.patience.tries = 2;
    first_answers(20, [](FakeReply reply) {
        reply.cut_after = 9'000;
        return reply;
    });
    expect_whole();
}

TEST_F(PullFaults, AfterSoManyTriesWithoutAByteItGivesUpAndTheNextCallGoesOn) {
    hub_.at_bytes = [this](const FakeRequest&, const FakeReply& usual) -> Reply {
        FakeReply cut = usual;
        cut.cut_after = ++answers_ == 1 ? 50'000 : 0;
        return cut;
    };
    const std::string error = error_from(hub_);
    EXPECT_NE(error.find("given up after 5 tries, what has arrived stays"), std::string::npos)
        << error;
    EXPECT_EQ(arrived_bytes(blob()), 50'000U);
    hub_.at_bytes = nullptr;
    hub_.bytes().forget_requests();
    const auto pulled = pull_from(hub_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(pulled->received, kBytes - 50'000);
    EXPECT_EQ(ranges(), std::vector<std::string>{"bytes=50000-"});
}

TEST_F(PullFaults, AServerWithoutRangesStartsOver) {
    hub_.at_bytes = [this](const FakeRequest&, const FakeReply&) -> Reply {
        FakeReply whole;
        whole.body = content();
        if (++answers_ < 3) whole.cut_after = 60'000;
        return whole;
    };
    expect_whole();
    EXPECT_EQ(answers_, 3);
}

TEST_F(PullFaults, ARangeThatWasNotAskedForIsNotTaken) {
    hub_.at_bytes = [this](const FakeRequest& request, const FakeReply& usual) -> Reply {
        FakeReply reply = usual;
        if (++answers_ == 1) reply.cut_after = 60'000;
        if (request.header("range").empty()) return reply;
        reply.headers = {{"Content-Range", "bytes 0-199999/200000"}};
        reply.body = content();
        return reply;
    };
    expect_whole();
    EXPECT_EQ(ranges(), (std::vector<std::string>{"", "bytes=60000-", ""}));
}

TEST_F(PullFaults, A416ForAPartThatIsGoodIsNoEndOfTheFile) {
    fs::create_directories(blob().parent_path());
    std::ofstream(blob(".helix-part"), std::ios::binary) << content().substr(0, 70'000);
    hub_.at_bytes = [](const FakeRequest& request, const FakeReply&) -> Reply {
        if (request.header("range").empty()) return std::nullopt;
        return FakeReply{416, {{"Content-Range", "bytes */200000"}}, ""};
    };
    expect_whole();
    EXPECT_EQ(ranges(), (std::vector<std::string>{"bytes=70000-", ""}));
}

TEST_F(PullFaults, AnExpiredAddressIsAskedForAnew) {
    hub_.expired = {"s1", "s3"};
    hub_.at_bytes = [this](const FakeRequest& request, const FakeReply& usual) -> Reply {
        FakeReply cut = usual;
        // Good at first, expired when the connection breaks.
        if (request.query == "Signature=s2" && ++answers_ == 1) {
            cut.cut_after = 90'000;
            hub_.expired.insert("s2");
            return cut;
        }
        return std::nullopt;
    };
    expect_whole();
    std::vector<std::string> queries;
    for (const FakeRequest& request : hub_.bytes().requests()) queries.push_back(request.query);
    EXPECT_EQ(queries, (std::vector<std::string>{"Signature=s1", "Signature=s2", "Signature=s2",
                                                 "Signature=s3", "Signature=s4"}));
    EXPECT_EQ(ranges().back(), "bytes=90000-");
}

TEST_F(PullFaults, AddressesThatAreAlwaysRefusedAreGivenUp) {
    hub_.at_bytes = [](const FakeRequest&, const FakeReply&) -> Reply {
        return FakeReply{403, {}, "no"};
    };
    const std::string error = error_from(hub_);
    EXPECT_NE(error.find("answered with status 403"), std::string::npos) << error;
    EXPECT_EQ(error.find("Signature"), std::string::npos) << "a signed address in: " << error;
    EXPECT_LT(hub_.bytes().requests().size(), 12U);
}

TEST_F(PullFaults, A429IsWaitedForAsLongAsItSays) {
    hub_.at_hub = [this](const FakeRequest& request, const FakeReply&) -> Reply {
        if (request.method != "HEAD" || ++answers_ > 1) return std::nullopt;
        return FakeReply{429, {{"RateLimit", "\"resolvers\";r=0;t=0"}}, ""};
    };
    int bytes = 0;
    hub_.at_bytes = [&](const FakeRequest&, const FakeReply&) -> Reply {
        if (++bytes > 1) return std::nullopt;
        return FakeReply{429, {{"Retry-After", "0"}}, ""};
    };
    expect_whole();
    EXPECT_EQ(pauses_, (std::vector<base::Duration>{base::from_seconds(1), base::from_seconds(0)}));
    hub_.at_hub = [](const FakeRequest&, const FakeReply&) -> Reply {
        return FakeReply{429, {{"Retry-After", "0"}}, ""};
    };
    EXPECT_NE(error_from(hub_).find("status 429"), std::string::npos);
}

TEST_F(PullFaults, AHubWithTroublesIsAskedAgain) {
    hub_.at_hub = [this](const FakeRequest&, const FakeReply& usual) -> Reply {
        ++answers_;
        if (answers_ % 3 == 1) return FakeReply{502, {}, "bad"};
        if (answers_ % 3 == 2 && !usual.body.empty()) {
            FakeReply cut = usual;
            cut.cut_after = 5;
            return cut;
        }
        return std::nullopt;
    };
    expect_whole();
    hub_.at_hub = [](const FakeRequest&, const FakeReply&) -> Reply {
        return FakeReply{503, {}, ""};
    };
    EXPECT_NE(error_from(hub_).find("status 503; given up after 5 tries"), std::string::npos);
}

TEST_F(PullFaults, ATransferThatStallsIsBrokenOffAndGoesOn) {
    first_answers(1, [](FakeReply reply) {
        reply.cut_after = 40'000;
        reply.stall = true;
        return reply;
    });
    expect_whole();
    EXPECT_EQ(ranges(), (std::vector<std::string>{"", "bytes=40000-"}));
}

TEST_F(PullFaults, OtherBytesThanPromisedAreAnErrorAndNothingStays) {
    hub_.at_bytes = [](const FakeRequest&, const FakeReply& usual) -> Reply {
        FakeReply lie = usual;
        lie.body[lie.body.size() / 2] = static_cast<char>(~lie.body[lie.body.size() / 2]);
        return lie;
    };
    const std::string error = error_from(hub_);
    EXPECT_NE(error.find("came with other bytes than promised: its SHA-256 is "), std::string::npos)
        << error;
    EXPECT_NE(error.find(sha256_of(content())), std::string::npos);
    EXPECT_FALSE(fs::exists(blob()));
    EXPECT_FALSE(fs::exists(blob(".helix-part")));
    EXPECT_EQ(hub_.bytes().requests().size(), 1U);
    EXPECT_TRUE(Cache(options_.settings.cache).list().empty());
    hub_.at_bytes = nullptr;
    expect_whole();
}

TEST_F(PullFaults, APartThatTheDiskHasSpoiltIsBroughtAnew) {
    fs::create_directories(blob().parent_path());
    std::ofstream(blob(".helix-part"), std::ios::binary) << std::string(70'000, '\0');
    expect_whole();
    EXPECT_EQ(ranges(), (std::vector<std::string>{"bytes=70000-", ""}));
}

TEST_F(PullFaults, LiesAboutTheLength) {
    hub_.at_bytes = [](const FakeRequest&, const FakeReply& usual) -> Reply {
        FakeReply shorter = usual;
        shorter.body.resize(1000);
        return shorter;
    };
    EXPECT_NE(error_from(hub_).find("sends 1000 bytes, 200000 were promised"), std::string::npos);
    hub_.at_bytes = [](const FakeRequest&, const FakeReply& usual) -> Reply {
        FakeReply longer = usual;
        longer.body += "more";
        longer.with_length = false;
        return longer;
    };
    const std::string error = error_from(hub_);
    EXPECT_NE(error.find("sends more than the 200000 bytes that were promised"), std::string::npos)
        << error;
    EXPECT_FALSE(fs::exists(blob(".helix-part")));
    hub_.at_bytes = nullptr;
    hub_.at_hub = [](const FakeRequest& request, const FakeReply& usual) -> Reply {
        if (request.method != "HEAD") return std::nullopt;
        FakeReply other = usual;
        for (auto& [name, value] : other.headers) {
            if (name == "X-Linked-Size") value = "5";
        }
        return other;
    };
    EXPECT_NE(error_from(hub_).find("has 5 bytes, and 200000 by the hub's list"),
              std::string::npos);
    hub_.at_hub = [](const FakeRequest& request, const FakeReply& usual) -> Reply {
        if (request.method != "HEAD") return std::nullopt;
        FakeReply other = usual;
        for (auto& [name, value] : other.headers) {
            if (name == "X-Linked-Etag") value = "\"" + std::string(64, 'a') + "\"";
        }
        return other;
    };
    EXPECT_NE(error_from(hub_).find("is another file than the hub's list says"), std::string::npos);
}

TEST_F(PullFaults, AFullDiskIsSaidAndWhatArrivedStays) {
    std::size_t room = 80'000;
    options_.disk.write = [&](int descriptor, const void* bytes, std::size_t count) -> ssize_t {
        if (room == 0) {
            errno = ENOSPC;
            return -1;
        }
        const ssize_t n = ::write(descriptor, bytes, std::min(count, room));
        room -= static_cast<std::size_t>(n);
        return n;
    };
    const std::string error = error_from(hub_);
    EXPECT_NE(error.find("the disk is full; the 80000 bytes that are there stay"),
              std::string::npos)
        << error;
    EXPECT_EQ(arrived_bytes(blob()), 80'000U);
    options_.disk = real_disk();
    hub_.bytes().forget_requests();
    expect_whole();
    EXPECT_EQ(ranges(), std::vector<std::string>{"bytes=80000-"});
}

TEST_F(PullFaults, TooLittleRoomIsSaidBeforeAByteIsAskedFor) {
    options_.disk.free_bytes = [](const fs::path&) -> base::Result<std::uint64_t> { return 1000; };
    const std::string error = error_from(hub_);
    EXPECT_NE(error.find("200 kB are still to come, and 1 kB are free in"), std::string::npos)
        << error;
    EXPECT_TRUE(hub_.bytes().requests().empty());
}

TEST_F(PullFaults, SmallFilesThatComePackedAreUnpacked) {
    hub_.large = {{"model.safetensors", noise(400, 1)}};
    hub_.small = {{"config.json", "a"}, {"tokenizer.json", "[]"}};
    // "a" as gzip packs it.
    const unsigned char packed[] = {0x1f, 0x8b, 8,    0,    0,    0,    0, 0, 0, 3, 0x4b,
                                    4,    0,    0x43, 0xbe, 0xb7, 0xe8, 1, 0, 0, 0};
    hub_.at_hub = [&](const FakeRequest& request, const FakeReply&) -> Reply {
        if (request.method == "HEAD" || !request.path.ends_with("config.json")) return std::nullopt;
        FakeReply reply;
        reply.headers = {{"Content-Encoding", "gzip"}};
        reply.body.assign(reinterpret_cast<const char*>(packed), sizeof packed);
        return reply;
    };
    const auto pulled = pull_from(hub_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(read(pulled->model.path / "config.json"), "a");
}

TEST_F(PullFaults, PathsThatLeaveTheFolderAreRefused) {
    for (const std::string path : {"../../x.gguf", "/etc/x.gguf", "a//x.gguf", "a/../x.gguf"}) {
        hub_.large = {{path, noise(100, 1)}};
        EXPECT_NE(error_from(hub_).find("would leave its folder"), std::string::npos) << path;
    }
    const auto list = [](const std::string& json) {
        const auto files = read_file_list(json, "http://h/x?secret");
        return files.ok() ? "good" : files.error().message;
    };
    EXPECT_EQ(list("[]"), "good");
    EXPECT_EQ(list("{}"), "http://h/x: is no list of files");
    EXPECT_EQ(list("[1]"), "http://h/x: is no list of files");
    EXPECT_EQ(list("nonsense"), "http://h/x: is no list of files");
    EXPECT_EQ(list(R"([{"type":"file","path":"a","size":1,"oid":"../x"}])"),
              "http://h/x: says no size and hash of a");
    EXPECT_EQ(
        list(R"([{"type":"file","path":"a","size":-1,"oid":")" + std::string(40, 'a') + "\"}]"),
        "http://h/x: says no size and hash of a");
    hub_.at_hub = [](const FakeRequest& request, const FakeReply&) -> Reply {
        if (!request.path.ends_with("/revision/main")) return std::nullopt;
        return FakeReply{200, {}, R"({"sha":"../../../x"})"};
    };
    EXPECT_NE(error_from(hub_).find("names no commit"), std::string::npos);
}

TEST_F(PullFaults, RedirectsEnd) {
    hub_.at_hub = [](const FakeRequest& request, const FakeReply&) -> Reply {
        return FakeReply{302, {{"Location", request.path}}, ""};
    };
    EXPECT_NE(error_from(hub_).find("more than 10 redirects"), std::string::npos);
    hub_.at_hub = nullptr;
    hub_.at_bytes = [](const FakeRequest& request, const FakeReply&) -> Reply {
        return FakeReply{302, {{"Location", request.path}}, ""};
    };
    EXPECT_NE(error_from(hub_).find("status 302"), std::string::npos);
}

TEST_F(PullFaults, NobodyListens) {
    options_.settings.endpoint = "http://127.0.0.1:1";
    options_.patience.tries = 3;
    const auto pulled = pull(*parse_model_name("den/Tiny-GGUF"), options_);
    ASSERT_FALSE(pulled.ok());
    EXPECT_NE(pulled.error().message.find("given up after 3 tries"), std::string::npos)
        << pulled.error().message;
    EXPECT_EQ(pauses_, (std::vector<base::Duration>{base::from_ms(5), base::from_ms(10)}));
}

class AddressFaults : public PullTest {
  protected:
    std::string content_ = noise(100'000, 5);
    std::string etag_ = "v1";
    int answers_ = 0;
    bool known_length_ = true;
    FakeServer server_{[this](const FakeRequest& request) {
        FakeReply reply = serve_bytes(request, content_, etag_);
        if (++answers_ == 1) reply.cut_after = 30'000;
        reply.with_length = known_length_;
        return reply;
    }};
    std::string address_ = server_.origin() + "/llama.gguf";
};

TEST_F(AddressFaults, GoesOnWhileTheFileIsTheSame) {
    const auto pulled = pull_address(address_, options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(read(pulled->model.path), content_);
    EXPECT_EQ(server_.requests().at(1).header("range"), "bytes=30000-");
    EXPECT_EQ(server_.requests().at(1).header("if-range"), "\"v1\"");
}

TEST_F(AddressFaults, AnotherFileMeanwhileStartsOver) {
    options_.patience.tries = 1;
    EXPECT_FALSE(pull_address(address_, options_).ok());
    content_ = noise(90'000, 6);
    etag_ = "v2";
    const auto pulled = pull_address(address_, options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(read(pulled->model.path), content_);
    EXPECT_EQ(server_.requests().at(1).header("if-range"), "\"v1\"");
}

TEST_F(AddressFaults, WithoutAnETagNothingIsContinued) {
    etag_.clear();
    const auto pulled = pull_address(address_, options_);
    ASSERT_TRUE(pulled.ok()) << pulled.error().message;
    EXPECT_EQ(read(pulled->model.path), content_);
    EXPECT_EQ(count(server_.requests(), "range"), 0);
    options_.sha256 = sha256_of(content_);
    EXPECT_TRUE(pull_address(address_, options_).ok());
}

TEST_F(AddressFaults, AnEndThatCannotBeToldFromABreakIsNotTaken) {
    known_length_ = false;
    EXPECT_NE(pull_address(address_, options_).error().message.find("does not say how long"),
              std::string::npos);
}

}  // namespace
}  // namespace helix::hub::pull_faults_test
