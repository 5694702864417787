#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/protocol/types.h"

namespace helix::core {

// LinkHealth knows which links between workers are down, by what the workers say of each other, and
// which broke lately.
//
// A worker says when its link to another broke, and says again and again that it is down while it
// is. A link is down while one of its two ends says so. What nobody repeats is forgotten, so that
// no lost message keeps a link out of use. A link that broke may have lost rows even if it was back
// at once.
class LinkHealth {
  public:
    using Ends = std::pair<WorkerId, WorkerId>;
    struct Break {
        TimePoint at;
        WorkerId one;
        WorkerId other;
    };
    struct Heard {
        bool broke = false;    // the link was up, or was lost and is back: this is news
        bool changed = false;  // the link went down, or came up again
    };

    // `said_by` tells of its link to `other`: that it is down, or that it broke and is back.
    Heard hear(TimePoint now, WorkerId said_by, WorkerId other, bool down);
    // Forgets complaints that were not repeated, until a link is up again by that, and returns that
    // link. Returns nothing when no such complaint is left.
    std::optional<Ends> forget_next_old(TimePoint now);
    // The worker is not here any more. The breaks of its links stay until they have settled.
    void forget(WorkerId worker);
    // Returns the oldest break, once, if it was at least `settle` ago.
    std::optional<Break> take_settled(TimePoint now, Duration settle);

    bool down(WorkerId one, WorkerId other) const;
    bool any_down() const { return !complaints_.empty(); }
    // Returns each link that is down once, by rising ids of who complains.
    std::vector<Ends> all_down() const;

  private:
    // This is who says of whom that it does not reach it, and when it said so last.
    std::map<Ends, TimePoint> complaints_;
    std::deque<Break> breaks_;  // each link is in it once, the oldest break first
};

}  // namespace helix::core
