// KV pages between an engine and a socket, beside everything else.

#include "node/kv_mover.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "node/clock.h"
#include "node/cluster_fixture.h"
#include "wire/codec.h"

namespace helix::node::kv_mover_test {
namespace {

constexpr std::size_t kPageBytes = 8;

// Pages of eight bytes.
class PageStore final : public engine::Backend {
  public:
    base::Result<std::int64_t> load(spec::LayerRange /*layers*/) override { return 16; }
    void drop_kv() override {}
    base::Result<engine::BatchResult> run(const core::BatchPlan& /*plan*/,
                                          const engine::PayloadRows& /*payload*/) override {
        return engine::BatchResult{};
    }
    std::int32_t hidden_size() const override { return 1; }
    std::string kv_format() const override { return "eight bytes"; }
    std::int64_t kv_page_bytes() const override { return kPageBytes; }
    base::Status read_pages(std::span<const core::PageId> pages,
                            std::span<std::byte> bytes) const override {
        TRY_VOID(check_pages(pages, 16, bytes.size()));
        for (std::size_t i = 0; i < pages.size(); ++i) {
            std::memcpy(&bytes[i * kPageBytes], &memory[pages[i]], kPageBytes);
        }
        return base::Ok{};
    }
    base::Status write_pages(std::span<const core::PageId> pages,
                             std::span<const std::byte> bytes) override {
        TRY_VOID(check_pages(pages, 16, bytes.size()));
        for (std::size_t i = 0; i < pages.size(); ++i) {
            std::memcpy(&memory[pages[i]], &bytes[i * kPageBytes], kPageBytes);
        }
        return base::Ok{};
    }

    std::uint64_t memory[16] = {};
};

class KvMoverTest : public ::testing::Test {
  protected:
    void SetUp() override {
        auto context = net::ZmqContext::create();
        ASSERT_TRUE(context.ok()) << context.error().message;
        context_ = std::move(*context);
        auto socket = net::RouterSocket::create(context_, std::nullopt, "receiver");
        ASSERT_TRUE(socket.ok()) << socket.error().message;
        receiver_ = std::move(*socket);
        const auto bound = receiver_->bind("tcp://127.0.0.1:0");
        ASSERT_TRUE(bound.ok()) << bound.error().message;
        peer_ = {{7}, *bound, ""};
        for (std::uint64_t page = 0; page < 16; ++page) store_->memory[page] = 100 + page;
        mover_ = std::make_unique<KvMover>(KvMover::Options{context_, std::nullopt, {}, {3}, 1},
                                           wakeup_);
        mover_->use(store_);
    }

    static core::ExportKv out(std::uint64_t transfer, std::vector<core::PageId> pages) {
        core::ExportKv action;
        action.transfer = transfer;
        action.to = {7};
        action.message.key = {{1}, 2, 0};
        action.message.round = 1;
        action.message.layers = {0, 1};
        action.message.spans = {{0, 0, 4}};
        action.message.payload.rows = static_cast<std::uint32_t>(pages.size());
        action.pages = std::move(pages);
        return action;
    }
    static net::Frame frame(const std::vector<std::uint64_t>& pages) {
        auto owner = std::make_shared<const std::vector<std::uint64_t>>(pages);
        return {owner, std::as_bytes(std::span(*owner))};
    }
    // Waits for the next event.
    core::WorkerEvent next() {
        EXPECT_TRUE(eventually([&] {
            for (core::WorkerEvent& event : mover_->take_events()) events_.push_back(event);
            return !events_.empty();
        }));
        if (events_.empty()) return core::WorkerTick{};
        core::WorkerEvent first = events_.front();
        events_.erase(events_.begin());
        return first;
    }
    std::optional<net::Received> received() {
        std::optional<net::Received> got;
        EXPECT_TRUE(eventually([&] {
            got = receiver_->receive();
            return got.has_value();
        }));
        return got;
    }

    std::shared_ptr<net::ZmqContext> context_;
    std::unique_ptr<net::RouterSocket> receiver_;
    core::Peer peer_;
    net::Wakeup wakeup_;
    std::shared_ptr<PageStore> store_ = std::make_shared<PageStore>();
    std::vector<core::WorkerEvent> events_;
    std::unique_ptr<KvMover> mover_;
};

TEST_F(KvMoverTest, WhatIsSentSaysWhoSendsItAndCarriesThePages) {
    mover_->send(out(5, {3, 1}), peer_, 1e9);
    const auto hello = received();
    const auto said = wire::decode(hello->header.bytes, 0, {4, 8});
    ASSERT_TRUE(said.ok()) << said.error().message;
    EXPECT_EQ(std::get<wire::PeerHello>(*said).worker, core::WorkerId{3});
    const auto got = received();
    ASSERT_EQ(got->payload.bytes.size(), 2 * kPageBytes);
    const auto message = wire::decode(got->header.bytes, got->payload.bytes.size(), {4, 8});
    ASSERT_TRUE(message.ok()) << message.error().message;
    EXPECT_EQ(std::get<core::KvBlocks>(*message).payload.rows, 2U);
    std::uint64_t content[2] = {};
    std::memcpy(content, got->payload.bytes.data(), sizeof content);
    EXPECT_EQ(content[0], 103U);
    EXPECT_EQ(content[1], 101U);
    EXPECT_EQ(std::get<core::KvExported>(next()).transfer, 5U);
}

TEST_F(KvMoverTest, AnExportTakesItsTimeAtTheRateAndImportsDoNotWaitForIt) {
    const base::TimePoint began = now();
    mover_->send(out(1, {0, 1, 2, 3}), peer_, 4 * kPageBytes / 0.5);
    mover_->receive({2, 9, 2, {1}, {6}}, frame({11, 22}));
    EXPECT_EQ(std::get<core::KvImported>(next()).transfer, 2U) << "first";
    EXPECT_EQ(store_->memory[6], 22U);
    EXPECT_EQ(std::get<core::KvExported>(next()).transfer, 1U);
    EXPECT_GE((now() - began).seconds(), 0.5);
}

TEST_F(KvMoverTest, WhatAHeldRequestWaitsForDoesNotWaitForThePaceOfOthers) {
    constexpr double kAnHour = 3600;
    mover_->send(out(1, {0, 1}), peer_, 2 * kPageBytes / kAnHour);
    core::ExportKv held = out(2, {2});
    held.held = true;
    mover_->send(std::move(held), peer_, kPageBytes / kAnHour);
    EXPECT_EQ(std::get<core::KvExported>(next()).transfer, 2U);
}

TEST_F(KvMoverTest, AFrameThatIsNotWhatWasAnnouncedIsAnError) {
    mover_->receive({2, 9, 3, {1}, {6}}, frame({11, 22}));
    const auto done = std::get<core::KvImported>(next());
    EXPECT_EQ(done.error, "16 bytes came for 3 pages of KV of 8 bytes");
    EXPECT_EQ(store_->memory[6], 106U);
}

TEST_F(KvMoverTest, WhatIsToGoToOneThatIsGivenUpCountsAsSentAndTheOthersAreNot) {
    core::Peer nobody = peer_;
    nobody.endpoint = "tcp://127.0.0.1:1";
    for (std::uint64_t i = 1; i < 12; ++i) {
        core::ExportKv held = out(i, {0});
        held.held = true;  // not paced
        mover_->send(std::move(held), nobody, 1e9);
    }
    mover_->give_up(nobody.endpoint);
    std::set<std::uint64_t> over;
    while (over.size() < 11 && !HasFailure()) {
        over.insert(std::get<core::KvExported>(next()).transfer);
    }
    EXPECT_EQ(over.size(), 11U);
    mover_->send(out(20, {3}), peer_, 1e9);
    EXPECT_EQ(std::get<core::KvExported>(next()).transfer, 20U);
    EXPECT_EQ(received()->payload.bytes.size(), 0U) << "who sends it";
    EXPECT_EQ(received()->payload.bytes.size(), kPageBytes);
}

TEST_F(KvMoverTest, WithNobodyToSendToItStillImportsAndStops) {
    peer_.endpoint = "tcp://127.0.0.1:1";
    for (std::uint64_t i = 1; i < 12; ++i) mover_->send(out(i, {0}), peer_, 1e9);
    EXPECT_EQ(std::get<core::KvExported>(next()).transfer, 1U);
    bool imported = false;
    mover_->receive({99, 9, 1, {0}, {6}}, frame({11}));
    for (int i = 0; i < 12 && !imported; ++i) {
        imported = std::holds_alternative<core::KvImported>(next());
    }
    EXPECT_TRUE(imported);
    mover_.reset();
}

}  // namespace
}  // namespace helix::node::kv_mover_test
