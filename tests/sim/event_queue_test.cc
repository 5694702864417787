#include "sim/cluster/event_queue.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "base/random.h"

namespace helix::sim::event_queue_test {
namespace {

TEST(EventQueue, GivesTheEarliestFirstWhateverComesBetween) {
    base::Random random(3);
    using Event = std::pair<int, int>;  // when, and the order of coming
    EventQueue<Event> queue;
    std::set<Event> expected;
    for (int step = 0; step < 20000; ++step) {
        if (expected.empty() || random.chance(step < 10000 ? 0.6 : 0.4)) {
            const Event event{static_cast<int>(random.below(500)), step};
            queue.push(event);
            expected.insert(event);
        } else {
            ASSERT_EQ(queue.top(), *expected.begin()) << "step " << step;
            ASSERT_EQ(queue.pop(), *expected.begin());
            expected.erase(expected.begin());
        }
        ASSERT_EQ(queue.empty(), expected.empty());
    }
}

}  // namespace
}  // namespace helix::sim::event_queue_test
