#include "net/spooled_body.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/temp_folder.h"
#include "http_test_client.h"
#include "net/http_server.h"

namespace helix::net::spooled_body_test {
namespace {

using ::testing::HasSubstr;

TEST(SpooledBody, HoldsWhatWasAppendedAndShowsNoFile) {
    const TempFolder folder;
    auto made = SpooledBody::create(folder.path());
    ASSERT_TRUE(made.ok()) << made.error().message;
    const std::shared_ptr<SpooledBody> body = std::move(made).value();
    EXPECT_TRUE(folder.empty());
    const std::string piece(70'000, 'x');
    ASSERT_TRUE(body->append(piece).ok());
    ASSERT_TRUE(body->append("").ok());
    ASSERT_TRUE(body->append("end").ok());
    ASSERT_TRUE(body->seal().ok());
    EXPECT_EQ(body->text(), piece + "end");
    EXPECT_TRUE(folder.empty());
}

TEST(SpooledBody, MayBeEmpty) {
    const TempFolder folder;
    const auto body = SpooledBody::create(folder.path());
    ASSERT_TRUE(body.ok());
    ASSERT_TRUE((*body)->seal().ok());
    EXPECT_EQ((*body)->text(), "");
}

TEST(SpooledBody, AFolderThatIsNotThereIsNamed) {
    const auto body = SpooledBody::create("/nonexistent/state");
    ASSERT_FALSE(body.ok());
    EXPECT_EQ(body.error().message,
              "/nonexistent/state: cannot keep a request's body there: No such file or directory");
}

// POST /files goes to disk, everything else does not; answers say where the body was and what it
// held.
class BodyOnDisk : public ::testing::Test {
  protected:
    void start(const std::string& folder) {
        HttpServerOptions options;
        options.max_body_bytes = 300'000;
        options.max_body_files_bytes = 400'000;
        options.body_folder = [folder](const HttpRequest& head) {
            return head.path == "/files" ? folder : std::string();
        };
        auto server = HttpServer::listen(options);
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(server).value();
        server_->start([this](const std::shared_ptr<HttpExchange>& exchange) {
            ++handled_;
            const HttpRequest& r = exchange->request();
            const std::string where = r.body_file == nullptr ? "memory " : "disk ";
            EXPECT_TRUE(r.body_file == nullptr || r.body.empty());
            exchange->respond({200, "text/plain", where + std::string(r.body_text()), {}});
        });
    }

    TempFolder folder_;
    std::atomic<int> handled_ = 0;
    std::unique_ptr<HttpServer> server_;
};

TEST_F(BodyOnDisk, OnlyWhatTheHeadSaysAndTheConnectionGoesOn) {
    start(folder_.path());
    TestClient client(server_->port());
    const std::string large(250'000, 'x');
    client.request("POST", "/files", large);
    EXPECT_EQ(client.read_response().body, "disk " + large);
    client.request("POST", "/other", "small");
    EXPECT_EQ(client.read_response().body, "memory small");
    client.send(
        "POST /files HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
    EXPECT_EQ(client.read_response().body, "disk abcdefg");
    EXPECT_TRUE(folder_.empty());
}

TEST_F(BodyOnDisk, TooLargeABodyIs413AndLeavesNothing) {
    start(folder_.path());
    TestClient announced(server_->port());
    announced.request("POST", "/files", std::string(300'001, 'x'));
    EXPECT_EQ(announced.read_response().status, 413);
    TestClient chunked(server_->port());
    // 0x493e1 = 300,001
    chunked.send(
        "POST /files HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n"
        "493e1\r\n" +
        std::string(300'001, 'x') + "\r\n0\r\n\r\n");
    EXPECT_EQ(chunked.read_response().status, 413);
    EXPECT_TRUE(folder_.empty());
    EXPECT_EQ(handled_, 0);
}

TEST_F(BodyOnDisk, AllThatArriveHaveOneBudgetOfDisk) {
    start(folder_.path());
    const std::string part(250'000, 'x');
    TestClient slow(server_->port());
    slow.send("POST /files HTTP/1.1\r\nhost: t\r\ncontent-length: 250001\r\n\r\n" + part);
    // The server reads the first when it likes: one of the two has no room.
    TestClient second(server_->port());
    second.send("POST /files HTTP/1.1\r\nhost: t\r\ncontent-length: 250001\r\n\r\n" + part);
    TestClient* refused = nullptr;
    for (int i = 0; i < 1000 && refused == nullptr; ++i) {
        if (slow.readable()) refused = &slow;
        if (second.readable()) refused = &second;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_NE(refused, nullptr);
    const auto answer = refused->read_response();
    EXPECT_EQ(answer.status, 507);
    EXPECT_THAT(answer.body, HasSubstr("400000 bytes"));
    TestClient& other = refused == &slow ? second : slow;
    other.send("y");
    EXPECT_EQ(other.read_response().body, "disk " + part + "y");
}

TEST_F(BodyOnDisk, ABrokenUploadLeavesNothingAndTheServerGoesOn) {
    start(folder_.path());
    {
        TestClient broken(server_->port());
        broken.send("POST /files HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\n" +
                    ("content-length: 200000\r\n\r\n" + std::string(100'000, 'x')));
        // The head has been read, and the file is there.
        EXPECT_EQ(broken.read_head().status, 100);
        EXPECT_TRUE(folder_.empty());
    }
    TestClient next(server_->port());
    next.request("POST", "/files", "whole");
    EXPECT_EQ(next.read_response().body, "disk whole");
    EXPECT_TRUE(folder_.empty());
    EXPECT_EQ(handled_, 1);
}

TEST_F(BodyOnDisk, AFolderThatIsGoneIsA500ThatNamesIt) {
    start(folder_.path() + "/gone");
    TestClient client(server_->port());
    client.request("POST", "/files", std::string(1000, 'x'));
    const auto response = client.read_response();
    EXPECT_EQ(response.status, 500);
    EXPECT_THAT(response.body, HasSubstr("/gone: cannot keep a request's body there"));
    client.close();
    TestClient other(server_->port());
    other.request("POST", "/other", "small");
    EXPECT_EQ(other.read_response().body, "memory small");
}

}  // namespace
}  // namespace helix::net::spooled_body_test
