// Models as files: who pulls one gets its bytes, all or the part that is asked for.

#include <gmock/gmock.h>

#include <array>

#include "api/byte_range.h"
#include "api_fixture.h"

namespace helix::api::model_sender_test {
namespace {

using ::testing::HasSubstr;

// Byte i of the file is i modulo 251.
class FakeFile final : public ModelFile {
  public:
    explicit FakeFile(std::uint64_t bytes, std::uint64_t broken_from)
        : bytes_(bytes), broken_from_(broken_from) {}
    std::uint64_t bytes() const override { return bytes_; }
    std::string hash() const override { return std::string(32, 'a'); }
    std::unique_ptr<Reader> open() const override {
        struct Bytes final : Reader {
            explicit Bytes(std::uint64_t broken) : broken_from(broken) {}
            base::Status read(std::uint64_t offset, std::span<std::byte> to) override {
                if (offset + to.size() > broken_from) {
                    return base::Error{base::Errc::io, "the disk is gone"};
                }
                for (std::byte& byte : to) byte = static_cast<std::byte>(offset++ % 251);
                return base::Ok{};
            }
            std::uint64_t broken_from;
        };
        return std::make_unique<Bytes>(broken_from_);
    }

  private:
    std::uint64_t bytes_;
    std::uint64_t broken_from_;
};

std::string bytes_of_file(std::uint64_t first, std::uint64_t end) {
    std::string bytes;
    for (; first < end; ++first) bytes += static_cast<char>(first % 251);
    return bytes;
}

class ModelSenderTest : public ApiTest {
  protected:
    ModelRegistry models() override {
        ModelRegistry models;
        models.add({model_, make_codec(), &service_,
                    std::make_shared<const FakeFile>(bytes_, broken_from_)});
        return models;
    }

    std::uint64_t bytes_ = 1'000'000;  // several pieces
    std::uint64_t broken_from_ = ~std::uint64_t{0};
};

TEST_F(ModelSenderTest, TellsWhatItHas) {
    const auto json = Json::parse(get("/helix/models").body);
    ASSERT_EQ(json["models"].size(), 1U);
    EXPECT_EQ(json["models"][0],
              (Json{{"name", "byte-model"}, {"bytes", 1'000'000}, {"hash", std::string(32, 'a')}}));
}

TEST_F(ModelSenderTest, SendsAllOfAFileByItsNameOrAnAlias) {
    for (const std::string name : {"byte-model", "gpt-x"}) {
        const auto response = get("/helix/models/" + name + ".gguf");
        EXPECT_EQ(response.status, 200);
        EXPECT_EQ(response.header("etag"), '"' + std::string(32, 'a') + '"');
        EXPECT_TRUE(response.body == bytes_of_file(0, bytes_));
    }
    for (const char* other : {"/helix/models/other.gguf", "/helix/models/byte-model",
                              "/helix/models/.gguf", "/helix/models/"}) {
        EXPECT_EQ(get(other).status, 404) << other;
    }
}

TEST_F(ModelSenderTest, SendsAPart) {
    const std::string path = "/helix/models/byte-model.gguf";
    auto response = get(path, "range: bytes=999990-\r\n");
    EXPECT_EQ(response.status, 206);
    EXPECT_EQ(response.header("content-range"), "bytes 999990-999999/1000000");
    EXPECT_EQ(response.body, bytes_of_file(999'990, bytes_));
    response =
        get(path, "range: bytes=300000-899999\r\nif-range: \"" + std::string(32, 'a') + "\"\r\n");
    EXPECT_EQ(response.status, 206);
    EXPECT_TRUE(response.body == bytes_of_file(300'000, 900'000));
    // Of another file than the client had begun with.
    response = get(path, "range: bytes=300000-\r\nif-range: \"b\"\r\n");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body.size(), bytes_);
    response = get(path, "range: bytes=1000000-\r\n");
    EXPECT_EQ(response.status, 416);
    EXPECT_EQ(response.header("content-range"), "bytes */1000000");
}

TEST_F(ModelSenderTest, WhatCannotBeReadIsAnErrorOrBreaksOff) {
    broken_from_ = 600'000;
    const std::string path = "/helix/models/byte-model.gguf";
    const auto refused = get(path, "range: bytes=700000-\r\n");
    EXPECT_GE(refused.status, 500);
    EXPECT_THAT(refused.body, HasSubstr("its log says why"));
    const auto cut = get(path);
    EXPECT_EQ(cut.status, 200);
    EXPECT_LT(cut.body.size(), bytes_);
    EXPECT_TRUE(cut.body == bytes_of_file(0, cut.body.size()));
}

TEST_F(ModelSenderTest, AServerThatStopsDoesNotWaitForWhoPulls) {
    bytes_ = std::uint64_t{1} << 40U;
    start();
    net::TestClient slow(server_->port(), 4096);
    slow.request("GET", "/helix/models/byte-model.gguf", {});
    EXPECT_EQ(get("/helix/models").status, 200);  // so the one before has begun
    server_->stop();
    EXPECT_TRUE(slow.wait_closed());
}

TEST(ByteRange, IsReadAsTheStandardSays) {
    struct Case {
        const char* range;
        std::optional<ByteRange> part;
        bool outside;
    };
    const std::array cases = {
        Case{"bytes=0-", ByteRange{0, 100}, false},
        Case{"bytes=0-0", ByteRange{0, 1}, false},
        Case{"bytes=10-19", ByteRange{10, 20}, false},
        Case{"bytes=90-1000", ByteRange{90, 100}, false},
        Case{"bytes=-10", ByteRange{90, 100}, false},
        Case{"bytes=-1000", ByteRange{0, 100}, false},
        Case{"bytes=99-18446744073709551615", ByteRange{99, 100}, false},
        Case{"bytes=100-", std::nullopt, true},
        Case{"bytes=-0", std::nullopt, true},
        Case{"", std::nullopt, false},
        Case{"bytes=", std::nullopt, false},
        Case{"bytes=-", std::nullopt, false},
        Case{"bytes=5", std::nullopt, false},
        Case{"bytes=5-4", std::nullopt, false},
        Case{"bytes=0-1,3-4", std::nullopt, false},
        Case{"bytes= 0-1", std::nullopt, false},
        Case{"bytes=+1-2", std::nullopt, false},
        Case{"bytes=18446744073709551616-", std::nullopt, false},
        Case{"lines=0-1", std::nullopt, false},
    };
    for (const Case& c : cases) {
        net::HttpRequest request;
        request.headers = {{"range", c.range}};
        const WantedBytes wanted = wanted_bytes(request, 100, "\"e\"");
        EXPECT_EQ(wanted.part, c.part) << c.range;
        EXPECT_EQ(wanted.outside, c.outside) << c.range;
        request.headers.emplace_back("if-range", "\"other\"");
        EXPECT_EQ(wanted_bytes(request, 100, "\"e\"").part, std::nullopt) << c.range;
    }
}

}  // namespace
}  // namespace helix::api::model_sender_test
