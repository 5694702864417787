// Who leads, by a real etcd; skipped where there is none.

#include <signal.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "node/cluster_fixture.h"
#include "node/leadership.h"
#include "node/real_etcd.h"

namespace helix::node::leadership_test {
namespace {

using std::chrono::milliseconds;
using test_support::RealEtcd;

std::unique_ptr<Leadership> candidate(const RealEtcd& etcd, const std::string& name) {
    auto made = Leadership::create(etcd.options(name));
    EXPECT_TRUE(made.ok());
    return made.ok() ? std::move(*made) : nullptr;
}

// A candidate that waits on a thread of its own.
class Waiting {
  public:
    explicit Waiting(std::unique_ptr<Leadership> leadership)
        : leadership_(std::move(leadership)), thread_([this] {
              const auto won = leadership_->win(stopping_);
              if (won.ok()) term_.store(*won);
          }) {}
    ~Waiting() {
        stopping_.store(true);
        thread_.join();
    }
    std::uint64_t term() const { return term_.load(); }

  private:
    std::unique_ptr<Leadership> leadership_;
    std::atomic<bool> stopping_{false};
    std::atomic<std::uint64_t> term_{0};
    std::thread thread_;
};

const std::atomic<bool> kNeverStopping{false};

TEST(Leadership, TheNextOneLeadsAtOnceWhenTheLeaderLeaves) {
    const RealEtcd etcd;
    if (!etcd.there()) GTEST_SKIP() << "no etcd command here";
    auto first = candidate(etcd, "first");
    const auto term = first->win(kNeverStopping);
    ASSERT_TRUE(term.ok()) << term.error().message;
    first->keep([](const std::string& reason) { ADD_FAILURE() << reason; });
    const Waiting second(candidate(etcd, "second"));
    // Longer than the lease, which is renewed meanwhile.
    std::this_thread::sleep_for(milliseconds(3000));
    EXPECT_EQ(second.term(), 0U) << "two lead";
    first.reset();
    ASSERT_TRUE(eventually([&] { return second.term() != 0; }));
    EXPECT_GT(second.term(), *term);
}

TEST(Leadership, ALeaderThatIsNotHeardOfIsReplacedAndToldSo) {
    const RealEtcd etcd;
    if (!etcd.there()) GTEST_SKIP() << "no etcd command here";
    auto first = candidate(etcd, "first");
    const auto term = first->win(kNeverStopping);  // and renews nothing, as one that stands still
    ASSERT_TRUE(term.ok()) << term.error().message;
    const Waiting second(candidate(etcd, "second"));
    ASSERT_TRUE(eventually([&] { return second.term() != 0; }));
    EXPECT_GT(second.term(), *term);
    std::mutex mutex;
    std::string lost;
    first->keep([&](const std::string& reason) {
        const std::lock_guard lock(mutex);
        lost = reason;
    });
    EXPECT_TRUE(eventually([&] {
        const std::lock_guard lock(mutex);
        return !lost.empty();
    }));
    EXPECT_EQ(lost, "another coordinator leads cluster \"test\" since");
}

TEST(Leadership, WhileEtcdIsAwayTheLeaderLeadsOnAndNobodyElse) {
    const RealEtcd etcd;
    if (!etcd.there()) GTEST_SKIP() << "no etcd command here";
    std::atomic<int> losses{0};
    auto first = candidate(etcd, "first");
    const auto term = first->win(kNeverStopping);
    ASSERT_TRUE(term.ok()) << term.error().message;
    first->keep([&](const std::string&) { ++losses; });
    const Waiting second(candidate(etcd, "second"));
    etcd.say(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(3000));
    EXPECT_EQ(losses.load(), 0);
    EXPECT_EQ(second.term(), 0U);
    etcd.say(SIGCONT);
    // Now either has the lease, and never both: a leader whose lease is over learns of it.
    std::this_thread::sleep_for(milliseconds(3000));
    EXPECT_EQ(losses.load() == 0, second.term() == 0U);
}

TEST(Leadership, TermsRiseWhateverTheClockSays) {
    const RealEtcd etcd;
    if (!etcd.there()) GTEST_SKIP() << "no etcd command here";
    const std::uint64_t far = 9'000'000'000'000'000;
    auto hand = Etcd::create(etcd.target());
    ASSERT_TRUE(hand.ok());
    const milliseconds limit(2000);
    EXPECT_TRUE(*(*hand)->write_if({{"helix/test/term", 0}},
                                   {{"helix/test/term", std::to_string(far)}}, limit));
    EXPECT_FALSE(*(*hand)->write_if({{"helix/test/term", 0}}, {{"helix/test/term", "1"}}, limit))
        << "it is there, so nothing is written";
    auto first = candidate(etcd, "first");
    const auto term = first->win(kNeverStopping);
    ASSERT_TRUE(term.ok()) << term.error().message;
    EXPECT_EQ(*term, far + 1);
    const auto kept = (*hand)->read("helix/test/term", limit);
    ASSERT_TRUE(kept.ok() && kept->has_value());
    EXPECT_EQ((*kept)->text, std::to_string(far + 1));
    EXPECT_FALSE(*(*hand)->renew(12345, limit)) << "there is no such lease";
    EXPECT_TRUE((*hand)->revoke(12345, limit).ok());
}

TEST(Leadership, AddressesThatAreNoneAreNamed) {
    for (const std::string& url : {std::string("http://127.0.0.1:2379"), std::string("etcd://"),
                                   std::string("etcd://host:port"), std::string("")}) {
        const auto parsed = parse_leader(url);
        ASSERT_FALSE(parsed.ok()) << url;
        EXPECT_EQ(parsed.error().message.find("--leader: "), 0U) << parsed.error().message;
    }
    const auto parsed = parse_leader("etcds://etcd.example:2379/den");
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_TRUE(parsed->etcd.tls);
    EXPECT_EQ(parsed->etcd.host, "etcd.example");
    EXPECT_EQ(parsed->cluster, "den");
    EXPECT_EQ(parse_leader("etcd://127.0.0.1:2379")->cluster, "helix");
}

}  // namespace
}  // namespace helix::node::leadership_test
