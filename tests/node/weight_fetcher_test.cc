#include "node/weight_fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "node/cluster_fixture.h"

namespace helix::node::weight_fetcher_test {
namespace {

using ::testing::HasSubstr;

constexpr core::WorkerId kDen{4};
constexpr std::uint32_t kPiece = 1U << 20U;

// A tensor of two and a half pieces, and a fetch of it whose other side is the test.
class Fetch : public testing::Test {
  protected:
    Fetch() : content_(2 * kPiece + kPiece / 2) {
        for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = std::byte(i * 7 % 251);
        tensor_ = {"blk.0.ffn_up.weight", content_.size(), base::hash128(content_)};
        begin({});
    }
    ~Fetch() override {
        fetcher_->cancel("the test is over");
        if (result_.valid()) result_.wait();
    }
    void begin(WeightFetcher::Patience patience) {
        fetcher_ = std::make_unique<WeightFetcher>(loop_, patience);
        fetcher_->begin({3});
    }
    void fetch() {
        into_.assign(content_.size(), std::byte{0});
        result_ =
            std::async(std::launch::async, [this] { return fetcher_->fetch(6, tensor_, into_); });
    }
    base::Result<std::string> end() { return result_.get(); }

    // The next request to the coordinator, which must come.
    wire::ChunkRequest wanted_of_coordinator() {
        EXPECT_TRUE(eventually([&] {
            for (wire::Message& one : fetcher_->take_requests()) {
                requests_.push_back(std::get<wire::ChunkRequest>(one));
            }
            return !requests_.empty();
        }));
        if (requests_.empty()) return {};
        const wire::ChunkRequest first = requests_.front();
        requests_.pop_front();
        return first;
    }
    wire::TensorRequest wanted_of_peer() {
        EXPECT_TRUE(eventually([&] {
            for (const WeightFetcher::PeerRequest& one : fetcher_->take_peer_requests()) {
                EXPECT_EQ(one.peer.worker, kDen);
                EXPECT_EQ(one.request.hash, tensor_.hash);
                peer_requests_.push_back(one.request);
            }
            return !peer_requests_.empty();
        }));
        if (peer_requests_.empty()) return {};
        const wire::TensorRequest first = peer_requests_.front();
        peer_requests_.pop_front();
        return first;
    }
    net::Frame part(std::uint64_t offset, std::uint32_t length) const {
        return {nullptr, std::span(content_).subspan(offset, length)};
    }
    // The coordinator gives all that it is asked for.
    void coordinator_gives_all() {
        for (std::uint64_t given = 0; given < content_.size();) {
            const wire::ChunkRequest wanted = wanted_of_coordinator();
            ASSERT_EQ(wanted.offset, given);
            ASSERT_EQ(wanted.tensor, 6);
            ASSERT_GT(wanted.length, 0U);
            fetcher_->on_chunk({6, wanted.offset, wanted.length, ""},
                               part(wanted.offset, wanted.length));
            given += wanted.length;
        }
    }
    void send_to_den() {
        requests_.clear();
        EXPECT_EQ(wanted_of_coordinator().offset, 0U);
        fetcher_->take_requests();
        requests_.clear();
        fetcher_->on_holder({6, core::Peer{kDen, "tcp://den:1", ""}, "den"});
    }
    void peer_gives(const wire::TensorRequest& wanted, net::Frame bytes) {
        fetcher_->on_piece(kDen, {wanted.hash, wanted.offset, wanted.length, ""}, bytes);
    }
    // After a failure of den.
    void expect_the_coordinator_to_help() {
        const wire::ChunkRequest again = wanted_of_coordinator();
        EXPECT_EQ(again.failed_peer, kDen);
        EXPECT_EQ(again.offset, 0U);
        requests_.push_front(again);
        coordinator_gives_all();
        const auto from = end();
        ASSERT_TRUE(from.ok()) << from.error().message;
        EXPECT_EQ(*from, "") << "from the coordinator";
        EXPECT_EQ(into_, content_);
    }

    net::Wakeup loop_;
    std::vector<std::byte> content_;
    std::vector<std::byte> into_;
    model::TensorDigest tensor_;
    std::unique_ptr<WeightFetcher> fetcher_;
    std::deque<wire::ChunkRequest> requests_;
    std::deque<wire::TensorRequest> peer_requests_;
    std::future<base::Result<std::string>> result_;
};

TEST_F(Fetch, ATensorComesFromTheCoordinatorInPieces) {
    fetch();
    const wire::ChunkRequest first = wanted_of_coordinator();
    EXPECT_EQ(first, (wire::ChunkRequest{{3}, 6, 0, kPiece, {}}));
    requests_.push_front(first);
    coordinator_gives_all();
    const auto from = end();
    ASSERT_TRUE(from.ok()) << from.error().message;
    EXPECT_EQ(*from, "");
    EXPECT_EQ(into_, content_);
}

TEST_F(Fetch, APeerThatIsNamedGivesItAll) {
    fetch();
    send_to_den();
    for (int i = 0; i < 3; ++i) {
        const wire::TensorRequest wanted = wanted_of_peer();
        peer_gives(wanted, part(wanted.offset, wanted.length));
    }
    const auto from = end();
    ASSERT_TRUE(from.ok()) << from.error().message;
    EXPECT_EQ(*from, "den");
    EXPECT_EQ(into_, content_);
    EXPECT_TRUE(fetcher_->take_requests().empty()) << "the coordinator is asked for nothing more";
}

TEST_F(Fetch, WrongBytesOfAPeerAreNoticedAndItIsAskedForNoMore) {
    fetch();
    send_to_den();
    std::vector<std::byte> wrong(kPiece, std::byte{1});
    for (int i = 0; i < 3; ++i) {
        const wire::TensorRequest wanted = wanted_of_peer();
        peer_gives(wanted, {nullptr, std::span(wrong).first(wanted.length)});
    }
    expect_the_coordinator_to_help();
    // Even where it is named again it is not asked.
    fetch();
    send_to_den();
    expect_the_coordinator_to_help();
    EXPECT_TRUE(fetcher_->take_peer_requests().empty());
}

TEST_F(Fetch, APeerThatDiesInTheMiddleCostsNothingButTime) {
    fetch();
    send_to_den();
    const wire::TensorRequest wanted = wanted_of_peer();
    peer_gives(wanted, part(wanted.offset, wanted.length));
    fetcher_->on_peer_gone({9}, "another one");
    fetcher_->on_peer_gone(kDen, "the link broke");
    // What it still sent comes too late.
    peer_gives({tensor_.hash, kPiece, kPiece}, part(kPiece, kPiece));
    expect_the_coordinator_to_help();
}

TEST_F(Fetch, APeerThatHasItNoMoreSaysSo) {
    fetch();
    send_to_den();
    const wire::TensorRequest wanted = wanted_of_peer();
    fetcher_->on_piece(kDen, {wanted.hash, wanted.offset, wanted.length, "it is gone"}, {});
    expect_the_coordinator_to_help();
}

TEST_F(Fetch, APeerThatIsSilentIsLeft) {
    begin({.coordinator = std::chrono::seconds(60), .peer = std::chrono::milliseconds(30)});
    fetch();
    send_to_den();
    expect_the_coordinator_to_help();
}

TEST_F(Fetch, PiecesOutOfPlaceOrOfOthersAreNotTaken) {
    fetch();
    send_to_den();
    const wire::TensorRequest wanted = wanted_of_peer();
    fetcher_->on_piece({9}, {wanted.hash, 0, wanted.length, "not me"}, {});
    fetcher_->on_piece(kDen, {{1, 2}, 0, wanted.length, "another tensor"}, {});
    fetcher_->on_chunk({6, 0, 0, "an answer from before"}, {});
    fetcher_->on_holder({6, core::Peer{{9}, "tcp://attic:1", ""}, "attic"});
    peer_gives({wanted.hash, 5, wanted.length}, part(5, wanted.length));
    expect_the_coordinator_to_help();
}

TEST_F(Fetch, AWordFromTheCoordinatorIsPatienceEnough) {
    begin({.coordinator = std::chrono::milliseconds(1000), .peer = std::chrono::seconds(3)});
    fetch();
    wanted_of_coordinator();
    const auto began = std::chrono::steady_clock::now();
    // Longer than it waits without a word.
    while (std::chrono::steady_clock::now() - began < std::chrono::milliseconds(1300)) {
        fetcher_->on_holder({6, {}, ""});
        ASSERT_EQ(result_.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    }
    const auto ended = end();
    ASSERT_FALSE(ended.ok());
    EXPECT_THAT(ended.error().message, HasSubstr("has sent no weights"));
}

TEST_F(Fetch, WrongBytesOfTheCoordinatorAreAnError) {
    fetch();
    content_[5] = std::byte{99};
    coordinator_gives_all();
    const auto ended = end();
    ASSERT_FALSE(ended.ok());
    EXPECT_THAT(ended.error().message, HasSubstr(tensor_.name));
}

TEST_F(Fetch, ACoordinatorThatNamesBadHoldersForEverIsGivenUp) {
    fetch();
    for (std::uint32_t i = 0; i < 8; ++i) {
        wanted_of_coordinator();
        fetcher_->take_requests();
        requests_.clear();
        fetcher_->on_holder({6, core::Peer{{i}, "tcp://x:1", ""}, "x"});
        fetcher_->on_peer_gone({i}, "gone");
    }
    const auto ended = end();
    ASSERT_FALSE(ended.ok());
    EXPECT_THAT(ended.error().message, HasSubstr("8 workers did not give it"));
}

TEST_F(Fetch, WhatIsReadyIsToldBeforeWhatIsAskedForNext) {
    fetcher_->tell_ready({1, 2}, wire::TensorSource::cache, true);
    fetch();
    std::vector<wire::Message> sent;
    ASSERT_TRUE(eventually([&] {
        for (wire::Message& one : fetcher_->take_requests()) sent.push_back(std::move(one));
        return sent.size() == 4;
    }));
    EXPECT_EQ(std::get<wire::TensorsReady>(sent.front()),
              (wire::TensorsReady{{3}, {1, 2}, wire::TensorSource::cache, true}));
}

}  // namespace
}  // namespace helix::node::weight_fetcher_test
