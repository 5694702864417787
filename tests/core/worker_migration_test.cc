// KV that leaves a worker and comes to one. 2 layers, blocks of 4 tokens.

#include <gtest/gtest.h>

#include "core/worker_driver.h"

namespace helix::core::worker_migration_test {
namespace {

using Driver = WorkerDriver;

RowTokens tokens(std::size_t n) {
    RowTokens all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(static_cast<Token>(i));
    return all;
}
std::vector<Token> list(std::size_t n) {
    std::vector<Token> all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(static_cast<Token>(i));
    return all;
}
WorkerConfig with(std::int32_t transfer_pages, bool prefix_cache = false) {
    WorkerConfig config = Driver::small();
    config.transfer_pages = transfer_pages;
    config.prefix_cache = prefix_cache;
    return config;
}
// Asks for both layers of request 1 to be sent, from attempt 1 to attempt 2.
SendKv send_to(std::uint32_t worker, std::vector<KvSpan> spans, std::uint32_t round = 1) {
    return {{1}, 1, 2, round, {worker}, {0, 2}, std::move(spans)};
}
const SequenceKey kNext = Driver::key(1, 0, 2);

// A part of one or two full blocks of member 0, with a frame.
KvBlocks part(std::uint32_t number, std::uint32_t parts, std::int32_t first, std::int32_t blocks,
              std::int32_t until, std::uint64_t buffer) {
    KvBlocks message;
    message.key = kNext;
    message.round = 1;
    message.layers = {0, 2};
    message.part = number;
    message.parts = parts;
    message.spans = {{0, 0, until}};
    for (std::int32_t i = 0; i < blocks; ++i) {
        message.places.push_back({0, first + i, static_cast<std::uint32_t>(i)});
    }
    message.payload = {buffer, 0, static_cast<std::uint32_t>(blocks)};
    return message;
}
std::string refusal(const Driver& worker) {
    const auto said = worker.said<KvRefused>();
    return said.empty() ? "" : said.front().reason;
}
std::uint64_t transfer(const Driver& worker) {
    if (const auto out = find<ExportKv>(worker.actions())) return out->transfer;
    if (const auto in = find<ImportKv>(worker.actions())) return in->transfer;
    return 0;
}

// ---- the source
// -----------------------------------------------------------------------------------

TEST(WorkerSendsKv, InPartsOneAfterTheOtherWhoseBlocksHaveAllLayers) {
    Driver worker(40, 0, with(4));
    worker.run(worker.start(Driver::key(1), tokens(11)));
    worker.say(send_to(5, {{0, 0, 11}}));
    auto out = find<ExportKv>(worker.actions());
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->to, WorkerId{5});
    EXPECT_EQ(out->message.key, kNext);
    EXPECT_EQ(out->message.parts, 2U);
    EXPECT_EQ(out->message.payload.rows, 2U);
    EXPECT_EQ(out->pages.size(), 4U);
    EXPECT_EQ(out->message.places, (std::vector<KvPlace>{{0, 0, 0}, {0, 1, 1}}));
    worker.step(KvExported{out->transfer});
    out = find<ExportKv>(worker.actions());
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->message.part, 1U);
    EXPECT_EQ(out->message.places, (std::vector<KvPlace>{{0, 2, 0}}));
    worker.step(KvExported{out->transfer});
    EXPECT_FALSE(find<ExportKv>(worker.actions()).has_value());
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerSendsKv, WhatAHeldRequestWaitsForGoesBesideWhatIsPaced) {
    Driver worker(40, 0, with(2));
    worker.run(worker.start(Driver::key(1), tokens(11)));
    worker.say(send_to(5, {{0, 0, 8}}));
    const std::uint64_t first = transfer(worker);
    ASSERT_NE(first, 0U);
    SendKv last = send_to(5, {{0, 2, 11}}, 2);
    last.held = true;
    worker.say(last);
    auto out = find<ExportKv>(worker.actions());
    ASSERT_TRUE(out.has_value());
    EXPECT_TRUE(out->held);
    EXPECT_EQ(out->message.round, 2U);
    worker.step(KvExported{out->transfer});
    EXPECT_FALSE(find<ExportKv>(worker.actions()).has_value()) << "the paced one is under way";
    worker.step(KvExported{first});
    out = find<ExportKv>(worker.actions());
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->message.round, 1U);
    EXPECT_EQ(out->message.part, 1U);
    worker.step(KvExported{out->transfer});
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerSendsKv, WhatMembersShareTravelsOnce) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), tokens(6)));
    worker.say(ForkSequences{Driver::key(1), 6, {1}});
    worker.run(Driver::rows(Driver::key(1), 6, {1}));
    worker.run(Driver::rows(Driver::key(1, 1), 6, {2}));
    worker.say(send_to(5, {{0, 0, 7}, {1, 0, 7}}));
    const auto out = find<ExportKv>(worker.actions());
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->message.places,
              (std::vector<KvPlace>{{0, 0, 0}, {1, 0, 0}, {0, 1, 1}, {1, 1, 2}}));
    EXPECT_EQ(out->pages.size(), 6U);
}

TEST(WorkerSendsKv, ItRefusesWhatItHasNot) {
    Driver worker(40, 40);
    worker.run(worker.start(Driver::key(1), tokens(6)));
    worker.say(send_to(5, {{0, 0, 7}}));
    EXPECT_EQ(refusal(worker), "member 0 has 6 tokens here, not 7");
    worker.say(send_to(5, {{0, 0, 6}, {3, 0, 4}}));
    EXPECT_EQ(refusal(worker), "member 3 is not here");
    worker.say(send_to(5, {{0, 2, 6}}));
    EXPECT_EQ(refusal(worker), "asked for no KV");
    SendKv other = send_to(5, {{0, 0, 6}});
    other.layers = {1, 3};
    worker.say(other);
    EXPECT_EQ(refusal(worker), "member 0 does not run these layers here");
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 6, {1})}});
    worker.say(send_to(5, {{0, 0, 6}}));
    EXPECT_EQ(refusal(worker), "member 0 runs") << "its last block is written";
    worker.say(send_to(5, {{0, 0, 4}}));
    EXPECT_EQ(refusal(worker), "") << "but not its full blocks";
    worker.step(KvExported{transfer(worker)});
    worker.finish();
    worker.say(SwapSequences{true, {Driver::key(1)}});
    worker.say(send_to(5, {{0, 0, 4}}));
    EXPECT_EQ(refusal(worker), "member 0 is swapped out");
    worker.finish();
    worker.say(SwapSequences{false, {Driver::key(1)}});
    ASSERT_FALSE(worker.plan().swap_in.empty());
    worker.say(send_to(5, {{0, 0, 4}}));
    EXPECT_EQ(refusal(worker), "member 0 is being swapped in");
    worker.finish();
    worker.say(send_to(5, {{0, 0, 4}}));
    EXPECT_EQ(refusal(worker), "");
}

TEST(WorkerSendsKv, WhatIsSentIsNotWrittenButCopied) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), tokens(6)));
    worker.say(send_to(5, {{0, 0, 6}}));
    const std::uint64_t going = transfer(worker);
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 6, {1})}});
    EXPECT_EQ(worker.plan().copies.size(), 2U);
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 6);
    worker.step(KvExported{going});
    EXPECT_EQ(worker.report().used_pages, 4);
}

TEST(WorkerSendsKv, TheEndOfTheSequenceEndsWhatWaitsButNotWhatIsOnItsWay) {
    Driver worker(40, 0, with(2));
    worker.run(worker.start(Driver::key(1), tokens(11)));
    worker.say(send_to(5, {{0, 0, 11}}));
    const std::uint64_t going = transfer(worker);
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(worker.report().used_pages, 2);
    worker.step(KvExported{going});
    EXPECT_EQ(transfer(worker), 0U);
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerSendsKv, ABrokenLinkAGivenUpMoveAndANewerOneEndWhatWaits) {
    Driver worker(40, 0, with(2));
    worker.run(worker.start(Driver::key(1), tokens(11)));
    worker.say(send_to(5, {{0, 0, 11}}));
    std::uint64_t going = transfer(worker);
    worker.step(PeerBroken{{5}});
    ASSERT_EQ(worker.said<PeerLost>().size(), 1U);
    EXPECT_EQ(worker.said<PeerLost>()[0].peer, WorkerId{5});
    worker.step(KvExported{going});
    EXPECT_EQ(transfer(worker), 0U);

    worker.say(send_to(5, {{0, 0, 11}}));
    going = transfer(worker);
    SendKv newer = send_to(6, {{0, 0, 4}});
    newer.next_attempt = 3;
    worker.say(newer);
    worker.step(KvExported{going});
    const auto out = find<ExportKv>(worker.actions());
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->to, WorkerId{6});
    worker.say(newer);
    worker.say(FreeSequences{{Driver::key(1, 0, 3)}});
    worker.step(KvExported{out->transfer});
    EXPECT_EQ(transfer(worker), 0U);
    EXPECT_EQ(worker.report().held, std::vector<SequenceKey>{Driver::key(1)});
}

// ---- the destination
// ------------------------------------------------------------------------------

TEST(WorkerKeepsKv, ItIsTakenOverByTheFirstRowsAndSparePagesReturn) {
    Driver worker(40);
    worker.say(ReserveKv{kNext, {0, 2}, 4});
    EXPECT_EQ(worker.said<KvReserved>().size(), 1U);
    EXPECT_EQ(worker.report().used_pages, 8);
    EXPECT_EQ(worker.report().held, std::vector<SequenceKey>{kNext});
    worker.say(part(0, 2, 0, 1, 6, 1));
    const auto in = find<ImportKv>(worker.actions());
    ASSERT_TRUE(in.has_value());
    EXPECT_EQ(in->frame_pages, 2U);
    EXPECT_EQ(in->content, (std::vector<std::uint32_t>{0, 1}));
    worker.say(part(1, 2, 1, 1, 6, 2));
    const auto second = find<ImportKv>(worker.actions());
    worker.step(KvImported{second->transfer});
    EXPECT_TRUE(worker.said<KvArrived>().empty());
    worker.step(KvImported{in->transfer});
    EXPECT_EQ(find<ReleaseBuffer>(worker.actions())->buffer, 1U);
    EXPECT_EQ(worker.said<KvArrived>().size(), 1U);
    worker.say(StageInputs{{worker.start(kNext, {9}, list(6))}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    const BatchChunk& chunk = worker.plan().chunks[0];
    EXPECT_EQ(chunk.first_position, 6);
    EXPECT_EQ(chunk.pages, (std::vector<PageId>{in->pages[0], second->pages[0], in->pages[1],
                                                second->pages[1]}));
    EXPECT_TRUE(worker.plan().copies.empty());
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 4);
    EXPECT_EQ(worker.report().held, std::vector<SequenceKey>{kNext});
}

TEST(WorkerKeepsKv, PartsThatComeTwiceLateOrWrongChangeNothing) {
    Driver worker(40);
    worker.say(part(0, 1, 0, 1, 4, 1));
    EXPECT_EQ(find<ReleaseBuffer>(worker.actions())->buffer, 1U) << "nobody waits for it";
    EXPECT_EQ(refusal(worker), "");
    worker.say(ReserveKv{kNext, {0, 2}, 2});
    worker.say(part(0, 1, 0, 1, 4, 2));
    const std::uint64_t going = transfer(worker);
    worker.say(part(0, 1, 0, 1, 4, 3));
    EXPECT_EQ(find<ReleaseBuffer>(worker.actions())->buffer, 3U);
    EXPECT_EQ(transfer(worker), 0U);
    worker.step(KvImported{going});
    EXPECT_EQ(worker.said<KvArrived>().size(), 1U);
    worker.say(part(0, 2, 0, 1, 4, 4));
    EXPECT_EQ(refusal(worker), "KV came in parts that do not belong together");
    KvBlocks wrong = part(0, 1, 1, 1, 4, 5);
    wrong.round = 2;
    worker.say(wrong);
    EXPECT_EQ(refusal(worker), "KV came for block 1, which was not asked for");
    KvBlocks many = part(0, 1, 0, 2, 8, 6);
    many.round = 2;
    worker.say(many);
    EXPECT_EQ(refusal(worker), "KV came for more blocks than are reserved");
    KvBlocks broken = part(0, 1, 1, 1, 8, 7);
    broken.round = 3;
    worker.say(broken);
    worker.step(KvImported{transfer(worker), "the frame is too short"});
    EXPECT_EQ(refusal(worker), "the frame is too short");
    worker.say(FreeSequences{{kNext}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerKeepsKv, FreedWhileItArrivesItsPagesGoBackWhenTheyAreWritten) {
    Driver worker(40);
    worker.say(ReserveKv{kNext, {0, 2}, 4});
    worker.say(part(0, 1, 0, 2, 8, 1));
    const std::uint64_t going = transfer(worker);
    worker.say(FreeSequences{{Driver::key(1, 2, 2)}});
    EXPECT_EQ(worker.report().used_pages, 4);
    EXPECT_TRUE(worker.report().held.empty());
    worker.say(ReserveKv{kNext, {0, 2}, 4});
    EXPECT_TRUE(worker.said<KvReserved>().empty()) << "a late one";
    worker.step(KvImported{going});
    EXPECT_TRUE(worker.said<KvArrived>().empty());
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerKeepsKv, WithoutRoomOrLayersItRefuses) {
    Driver worker(200);
    worker.run(worker.start(Driver::key(7), tokens(8)));
    worker.say(ReserveKv{kNext, {0, 3}, 1});
    EXPECT_EQ(refusal(worker), "this worker does not hold the layers");
    worker.say(ReserveKv{kNext, {0, 2}, 98});
    EXPECT_EQ(refusal(worker), "196 KV pages to reserve, 196 of 200 are free") << "the watermark";
    worker.say(ReserveKv{kNext, {0, 2}, 97});
    EXPECT_EQ(refusal(worker), "");
    worker.say(StageInputs{{worker.start(Driver::key(8), tokens(8))}});
    EXPECT_EQ(worker.plan().id, 0U) << "what is reserved is used";
    worker.say(ReserveKv{Driver::key(1, 0, 1), {0, 2}, 1});
    EXPECT_EQ(refusal(worker), "superseded by a newer attempt");
    worker.say(ReserveKv{Driver::key(1, 0, 3), {0, 2}, 97});
    EXPECT_EQ(refusal(worker), "") << "the older one's pages are free again";
}

TEST(WorkerKeepsKv, NobodyHeardOfItGoesAndItsRowsFindNothing) {
    Driver worker(40);
    worker.say(ReserveKv{kNext, {0, 2}, 2});
    worker.say(part(0, 1, 0, 1, 4, 1));
    worker.step(KvImported{transfer(worker)});
    for (int i = 0; i < 9; ++i) worker.report();
    EXPECT_EQ(worker.report().held.size(), 0U);
    EXPECT_EQ(refusal(worker), "nothing was heard of it for too long");
    EXPECT_EQ(worker.said<KvRefused>().front().cause, KvRefusal::unheard);
    worker.say(StageInputs{{worker.start(kNext, {9}, list(4))}});
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::prefix_lost);
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerKeepsKv, ARepeatedReservationRenewsIt) {
    Driver worker(40);
    for (int i = 0; i < 30; ++i) {
        if (i % 8 == 0) worker.say(ReserveKv{kNext, {0, 2}, 2});
        EXPECT_EQ(worker.report().used_pages, 4);
    }
}

TEST(WorkerKeepsKv, WhatIsNotAllThereIsLost) {
    Driver worker(40);
    worker.say(ReserveKv{kNext, {0, 2}, 2});
    worker.say(part(0, 1, 0, 1, 4, 1));
    worker.say(StageInputs{{worker.start(kNext, {9}, list(4))}});
    ASSERT_EQ(worker.stuck().size(), 1U) << "it is not written yet";
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::prefix_lost);
}

TEST(WorkerKeepsKv, AGroupTakesItOverMemberByMember) {
    Driver worker(40);
    worker.say(ReserveKv{kNext, {0, 2}, 6});
    KvBlocks message = part(0, 1, 0, 1, 4, 1);
    message.spans = {{0, 0, 6}, {1, 0, 6}};
    message.places = {{0, 0, 0}, {1, 0, 0}, {0, 1, 1}, {1, 1, 2}};
    message.payload.rows = 3;
    worker.say(message);
    worker.step(KvImported{transfer(worker)});
    EXPECT_EQ(worker.report().used_pages, 12);
    worker.run(worker.start(Driver::key(1, 0, 2), {9}, list(6)));
    EXPECT_EQ(worker.report().used_pages, 6) << "the spare ones are back";
    EXPECT_EQ(worker.report().held,
              (std::vector<SequenceKey>{Driver::key(1, 0, 2), Driver::key(1, 1, 2)}));
    worker.say(FreeSequences{{Driver::key(1, 0, 2)}});
    EXPECT_EQ(worker.report().used_pages, 4) << "the other is still to come";
    worker.run(worker.start(Driver::key(1, 1, 2), {8}, list(6)));
    EXPECT_EQ(worker.report().used_pages, 4);
    worker.say(FreeSequences{{Driver::key(1, 1, 2)}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

// ---- both
// -----------------------------------------------------------------------------------------

TEST(WorkerSharesKv, OnTheSameWorkerNothingIsCopiedNorReserved) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), tokens(6)));
    worker.say(ReserveKv{kNext, {0, 2}, 5});
    EXPECT_EQ(worker.report().used_pages, 4);
    worker.say(send_to(0, {{0, 0, 6}}));
    EXPECT_EQ(worker.said<KvArrived>().size(), 1U);
    worker.say(StageInputs{{worker.start(kNext, {9}, list(6))}});
    EXPECT_TRUE(worker.plan().copies.empty()) << "the old attempt is gone";
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 4);
    worker.say(FreeSequences{{Driver::key(1)}});
    worker.say(FreeSequences{{kNext}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerSharesKv, WithoutAReservationItIsRefused) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), tokens(6)));
    worker.say(send_to(0, {{0, 0, 6}}));
    EXPECT_EQ(refusal(worker), "nothing is reserved here");
}

TEST(WorkerSharesKv, GivenUpTheOldAttemptGoesOn) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), tokens(6)));
    worker.say(ReserveKv{kNext, {0, 2}, 5});
    worker.say(send_to(0, {{0, 0, 6}}));
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 6, {1})}});
    EXPECT_EQ(worker.plan().copies.size(), 2U) << "the other still has the block";
    worker.finish();
    worker.say(FreeSequences{{kNext}});
    EXPECT_EQ(worker.report().used_pages, 4);
}

TEST(WorkerSharesKv, TheCacheGivesUpBlocksOfWhichOnlySomeLayersAreUsed) {
    Driver worker(12, 0, with(512, true));
    worker.run(worker.start(Driver::key(1), tokens(8)));
    // The new attempt runs only the second layer here.
    worker.say(ReserveKv{kNext, {1, 2}, 2});
    SendKv send = send_to(0, {{0, 0, 8}});
    send.layers = {1, 2};
    worker.say(send);
    EXPECT_EQ(worker.said<KvArrived>().size(), 1U);
    StageInput first = worker.start(kNext, {9}, list(8));
    first.start = SequenceStart{{{{3}, {0, 1}}, {{0}, {1, 2}}}, 9, {}, list(8)};
    first.payload = {77, 0, 1};
    worker.run(first);
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(worker.report().used_pages, 3);
    EXPECT_EQ(worker.report().cached_pages, 2) << "of the first layer";
    worker.run(worker.start(Driver::key(2), tokens(13)));
    EXPECT_EQ(worker.report().used_pages, 11) << "they are given up";
}

TEST(WorkerMigration, OtherLayersWaitForWhatIsUnderWay) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), tokens(6)));
    worker.say(send_to(5, {{0, 0, 6}}));
    const std::uint64_t going = transfer(worker);
    worker.say(ReserveKv{Driver::key(2, 0, 2), {0, 2}, 4});
    KvBlocks coming = part(0, 1, 0, 1, 4, 1);
    coming.key = Driver::key(2, 0, 2);
    worker.say(coming);
    const std::uint64_t arriving = transfer(worker);
    worker.say(AssignLayers{2, {0, 2}, 1, {}});
    EXPECT_TRUE(find<ConnectPeers>(worker.actions()).has_value()) << "the same layers need not";
    worker.say(AssignLayers{3, {0, 1}, 1, {}});
    EXPECT_FALSE(find<LoadLayers>(worker.actions()).has_value());
    worker.say(ReserveKv{Driver::key(3, 0, 2), {0, 1}, 4});
    EXPECT_EQ(refusal(worker), "this worker does not hold the layers");
    worker.step(KvExported{going});
    EXPECT_FALSE(find<LoadLayers>(worker.actions()).has_value());
    worker.step(KvImported{arriving});
    EXPECT_TRUE(find<LoadLayers>(worker.actions()).has_value());
    worker.step(LayersLoaded{3, 40, 0});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

}  // namespace
}  // namespace helix::core::worker_migration_test
