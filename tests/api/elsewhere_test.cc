// What a gateway leaves to its coordinator.

#include "api_fixture.h"

namespace helix::api::elsewhere_test {
namespace {

class AtAGateway : public ApiTest {
  protected:
    AtAGateway() {
        options_.coordinator_url = [this] { return url_; };
    }
    std::string url_ = "http://10.0.0.7:8080";
};

TEST_F(AtAGateway, WhoeverLooksAtThePageOrTheClusterIsSentToTheCoordinator) {
    for (const std::string path : {"/", "/assets/index.js", "/helix/cluster", "/helix/join"}) {
        const auto response = get(path);
        EXPECT_EQ(response.status, 307) << path;
        EXPECT_EQ(response.header("location"), url_ + path);
    }
    EXPECT_EQ(get("/helix/history?since=3").header("location"), url_ + "/helix/history?since=3");
    EXPECT_EQ(get("/helix/a%0d%0ab:%20c").header("location"), url_ + "/helix/a%0D%0Ab:%20c");
}

TEST_F(AtAGateway, WhatIsKeptOrDoneThereIsRefusedWithTheAddress) {
    for (const std::string path : {"/v1/files", "/files", "/v1/batches/batch_1"}) {
        const auto response = get(path);
        EXPECT_EQ(response.status, 501) << path;
        EXPECT_NE(response.body.find("files and batches are kept by its coordinator: " + url_),
                  std::string::npos)
            << response.body;
    }
    const auto done = post("/helix/nodes/den/drain", "");
    EXPECT_EQ(done.status, 501);
    EXPECT_NE(done.body.find(url_), std::string::npos) << done.body;
    EXPECT_EQ(Json::parse(done.body)["error"]["code"], "at_the_coordinator");
}

TEST_F(AtAGateway, WithoutAnAddressNobodyIsSentAnywhere) {
    url_.clear();
    const auto response = get("/helix/cluster");
    EXPECT_EQ(response.status, 501);
    EXPECT_NE(response.body.find("not known"), std::string::npos) << response.body;
}

TEST_F(AtAGateway, ModelsHealthAndMetricsAreItsOwn) {
    for (const std::string path : {"/v1/models", "/health/ready", "/metrics", "/version"}) {
        EXPECT_EQ(get(path).status, 200) << path;
    }
    EXPECT_EQ(get("/helixes").status, 404);
}

}  // namespace
}  // namespace helix::api::elsewhere_test
