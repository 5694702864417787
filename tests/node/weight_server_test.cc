#include "node/weight_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "model/synth.h"
#include "wire/codec.h"

namespace helix::node::weight_server_test {
namespace {

using ::testing::HasSubstr;

constexpr core::WorkerId a{1}, b{2}, c{3};

class Server : public testing::Test {
  protected:
    Server() {
        model::SynthOptions synth;
        synth.path = folder_.path() + "/tiny.gguf";
        EXPECT_TRUE(model::synth_model(synth).ok());
        auto model = open_served_model(synth.path);
        EXPECT_TRUE(model.ok());
        model_ = std::move(*model);
        for (const core::WorkerId worker : {a, b, c}) ready(worker, {});
    }
    void ready(core::WorkerId worker, std::vector<std::int32_t> tensors,
               wire::TensorSource source = wire::TensorSource::earlier) {
        EXPECT_TRUE(server_.on_ready(now_, worker, {{}, std::move(tensors), source, true}).ok());
    }
    void ask(core::WorkerId worker, std::int32_t tensor, std::uint64_t offset = 0,
             std::optional<core::WorkerId> failed = {}) {
        server_.on_chunk_request(now_, worker, {{}, tensor, offset, 8, failed});
    }
    // What was sent since the last call, as "worker: what".
    std::vector<std::string> sent() {
        std::vector<std::string> all;
        for (const WeightServer::Send& one : server_.take_sends()) {
            std::string what = wire::message_name(one.answer.message);
            if (const auto* chunk = std::get_if<wire::Chunk>(&one.answer.message)) {
                what = "bytes at " + std::to_string(chunk->offset) + chunk->error;
            }
            if (const auto* holder = std::get_if<wire::TensorHolder>(&one.answer.message)) {
                what =
                    holder->peer ? "ask " + holder->name + " at " + holder->peer->endpoint : "wait";
            }
            all.push_back(std::to_string(one.to.value) + ": " + what);
        }
        return all;
    }
    using Sent = std::vector<std::string>;

    TempFolder folder_;
    ServedModel model_;
    std::map<core::WorkerId, std::string> names_ = {{a, "den"}, {b, "attic"}, {c, "hall"}};
    WeightServer server_{model_, [this](core::WorkerId worker) {
                             std::optional<WeightServer::Peer> found;
                             if (const auto name = names_.find(worker); name != names_.end()) {
                                 found = WeightServer::Peer{
                                     {worker, "tcp://" + name->second + ":1", "key"}, name->second};
                             }
                             return found;
                         }};
    base::TimePoint now_ = base::TimePoint{} + base::from_ms(1000);
};

TEST_F(Server, OneOfThreeReplicasIsSentATensorAndTheOthersAreSentThere) {
    ask(a, 2);
    ask(a, 2, 8);
    ask(b, 2);
    ask(b, 2, 8);
    ask(c, 2);
    EXPECT_EQ(sent(), (Sent{"1: bytes at 0", "1: bytes at 8", "2: wait", "3: wait"}));
    ready(a, {2}, wire::TensorSource::coordinator);
    EXPECT_EQ(sent(), (Sent{"2: ask den at tcp://den:1", "3: ask den at tcp://den:1"}));
    ask(b, 2, 16);
    EXPECT_EQ(sent(), Sent{}) << "it asked before it knew";
    ready(b, {2}, wire::TensorSource::peer);
    ready(c, {2}, wire::TensorSource::peer);
    ready(c, {1}, wire::TensorSource::cache);
    const auto& tensors = model_.manifest->tensors;
    EXPECT_EQ(server_.bytes().coordinator, tensors[2].bytes);
    EXPECT_EQ(server_.bytes().peer, 2 * tensors[2].bytes);
    EXPECT_EQ(server_.bytes().cache, tensors[1].bytes);
}

TEST_F(Server, WhoWaitedGetsAllThatItAskedForWhenTheOtherIsLost) {
    ask(a, 2);
    ask(b, 2);
    ask(b, 2, 8);
    sent();
    server_.on_lost(now_, a);
    EXPECT_EQ(sent(), (Sent{"2: bytes at 0", "2: bytes at 8"}));
    ask(b, 2, 16);
    EXPECT_EQ(sent(), Sent{"2: bytes at 16"});
}

TEST_F(Server, AWorkerThatWasLostWhileItWaitedIsForgotten) {
    ask(a, 2);
    ask(b, 2);
    sent();
    server_.on_lost(now_, b);
    ready(a, {2});
    now_ = now_ + base::from_ms(10'000);
    server_.on_tick(now_);
    EXPECT_EQ(sent(), Sent{});
}

TEST_F(Server, WhoWaitsIsToldFromTimeToTimeThatItIsNotForgotten) {
    const std::array links = {spec::LinkSpec{spec::kCoordinator, 1, 1e6, 0},
                              spec::LinkSpec{spec::kCoordinator, 2, 1e6, 0}};
    server_.on_links(links);
    ask(a, 2);
    ask(b, 2);
    sent();
    for (int i = 1; i <= 12; ++i) {
        now_ = now_ + base::from_ms(1000);
        server_.on_tick(now_);
    }
    EXPECT_EQ(sent(), (Sent{"2: wait", "2: wait"}));
}

TEST_F(Server, AHolderThatFailedOrIsNotHereIsPassedOver) {
    ready(a, {2});
    ask(b, 2);
    EXPECT_EQ(sent(), Sent{"2: ask den at tcp://den:1"});
    ask(b, 2, 0, a);
    EXPECT_EQ(sent(), Sent{"2: bytes at 0"});
    ready(c, {3});
    names_.erase(c);
    ask(b, 3);
    EXPECT_EQ(sent(), Sent{"2: bytes at 0"});
}

TEST_F(Server, TheHeaderAndTheManifestAreTheCoordinators) {
    server_.on_manifest_request(a);
    ask(b, wire::kHeaderChunk);
    ask(c, wire::kHeaderChunk, 8);
    EXPECT_EQ(sent(), (Sent{"1: Manifest", "2: bytes at 0", "3: bytes at 8"}));
}

TEST_F(Server, TensorsThatTheModelHasNotAreAnError) {
    const auto count = static_cast<std::int32_t>(model_.manifest->tensors.size());
    const auto told = server_.on_ready(now_, a, {{}, {0, count}, {}, true});
    ASSERT_FALSE(told.ok());
    EXPECT_THAT(told.error().message, HasSubstr("has no tensor number"));
    ask(a, count);
    ASSERT_THAT(sent(), testing::ElementsAre(HasSubstr("has no tensor number")));
}

}  // namespace
}  // namespace helix::node::weight_server_test
