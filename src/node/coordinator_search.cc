#include "node/coordinator_search.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/time.h"
#include "node/clock.h"

namespace helix::node {
namespace {

// A restarted coordinator is there after about a second, and everybody waits for it.
constexpr base::Duration kSearchEvery = base::from_ms(100);

void sleep_until(base::TimePoint then) {
    const base::Duration left = then - now();
    if (left.ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left.ns));
}

}  // namespace

CoordinatorSearch::CoordinatorSearch(FindCoordinator find, base::Duration pause,
                                     const net::Wakeup& done)
    : find_(std::move(find)), pause_(pause), done_(done), thread_([this] { work(); }) {}

CoordinatorSearch::~CoordinatorSearch() {
    stopping_.store(true);
    thread_.join();
}

std::optional<CoordinatorPlace> CoordinatorSearch::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(found_, std::nullopt);
}

void CoordinatorSearch::work() {
    sleep_until(now() + pause_);
    while (!stopping_.load()) {
        const base::TimePoint began = now();
        base::Result<CoordinatorPlace> place = find_();
        if (place.ok()) {
            const std::lock_guard lock(mutex_);
            found_ = std::move(*place);
            break;
        }
        LOG_DEBUG("{}", place.error().message);
        sleep_until(began + kSearchEvery);
    }
    done_.wake();
}

}  // namespace helix::node
