#include "base/slab.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "base/effort.h"

namespace helix::base::slab_test {
namespace {

struct alignas(64) Line {
    explicit Line(int& alive) : alive_(alive) { ++alive_; }
    ~Line() { --alive_; }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    int& alive_;
};

TEST(Slab, ObjectsLieApartAndAlignedAndThePlaceOfOneThatIsGoneIsUsedNext) {
    int alive = 0;
    Slab<Line> slab;
    std::vector<Line*> lines;
    std::set<const Line*> places;
    for (int i = 0; i < 40; ++i) {
        lines.push_back(&slab.make(alive));
        places.insert(lines.back());
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.back()) % alignof(Line), 0U);
    }
    EXPECT_EQ(places.size(), lines.size());
    EXPECT_EQ(alive, 40);
    slab.drop(*lines[7]);
    EXPECT_EQ(alive, 39);
    Line* next = &slab.make(alive);
    // A sanitizer gives each memory of its own.
    if (!kSanitized) {
        EXPECT_EQ(next, lines[7]);
    }
    lines[7] = next;
    for (Line* line : lines) slab.drop(*line);
    EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace helix::base::slab_test
