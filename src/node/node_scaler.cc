#include "node/node_scaler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "node/clock.h"

namespace helix::node {
namespace {

constexpr std::chrono::milliseconds kLookEvery(250);
constexpr base::Duration kLongestRetryPause = base::from_seconds(60);
// A worker that ran for this long is started again as if it had never ended before.
constexpr base::Duration kLongLife = base::from_seconds(60);

}  // namespace

NodeScaler::NodeScaler(std::unique_ptr<NodeProvider> provider, const net::Wakeup& done, Times times)
    : provider_(std::move(provider)), done_(done), times_(times), thread_([this] { work(); }) {}

NodeScaler::~NodeScaler() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

// ---- the coordinator's thread
// --------------------------------------------------------------------

void NodeScaler::add() {
    std::erase_if(coming_, [&](const auto& entry) {
        const bool late = entry.second <= now();
        if (late) push({false, entry.first});
        return late;
    });
    {
        const std::lock_guard lock(mutex_);
        // The new worker takes the place of one that was to be started again.
        std::erase_if(tasks_,
                      [&](const Task& task) { return task.start && here_.erase(task.name) > 0; });
    }
    // The process id keeps names apart from those of an earlier coordinator.
    std::string name = fmt::format("helix-{}-{}", getpid(), ++started_);
    coming_.emplace(name, now() + times_.join_within);
    push({true, std::move(name)});
}

void NodeScaler::on_joined(const std::string& name) {
    const auto here = here_.find(name);
    if (coming_.erase(name) > 0) {
        here_[name].joined = now();
    } else if (here != here_.end()) {
        here->second.joined = now();
    }
}

void NodeScaler::remove(const std::string& name) {
    if (here_.erase(name) == 0) return;
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(tasks_, [&](const Task& task) { return task.start && task.name == name; });
    }
    push({false, name});
}

std::vector<std::string> NodeScaler::take_failures() {
    std::vector<NodeProvider::Ended> ended;
    {
        const std::lock_guard lock(mutex_);
        ended.swap(ended_);
    }
    std::vector<std::string> failures;
    for (const NodeProvider::Ended& one : ended) {
        if (coming_.erase(one.name) > 0) {
            failures.push_back(fmt::format("worker {}: {}", one.name, one.how));
        } else if (here_.contains(one.name)) {
            start_again(one);
        }
    }
    return failures;
}

void NodeScaler::start_again(const NodeProvider::Ended& ended) {
    Crashes& crashes = here_.at(ended.name);
    if (now() - crashes.joined > kLongLife) crashes.in_a_row = 0;
    base::Duration pause = times_.first_pause;
    for (int i = 0; i < crashes.in_a_row && pause < kLongestRetryPause; ++i) pause = pause * 2;
    pause = std::min(pause, kLongestRetryPause);
    ++crashes.in_a_row;
    LOG_WARN("worker {} {}; it is started again in {:.1f} s", ended.name, ended.how,
             pause.seconds());
    push({true, ended.name, now() + pause});
}

void NodeScaler::push(Task task) {
    {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
}

// ---- its own thread
// ------------------------------------------------------------------------------

void NodeScaler::work() {
    while (true) {
        const std::vector<Task> tasks = take_due();
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) return;
        }
        for (const Task& task : tasks) perform(task);
        for (NodeProvider::Ended& ended : provider_->take_ended()) tell(std::move(ended));
    }
}

// Waits for tasks, or for the time to look at the workers that run.
std::vector<NodeScaler::Task> NodeScaler::take_due() {
    const auto due = [](const Task& task) { return task.due <= now(); };
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLookEvery,
                      [&] { return stopping_ || std::any_of(tasks_.begin(), tasks_.end(), due); });
    std::vector<Task> found;
    for (const Task& task : tasks_) {
        if (due(task)) found.push_back(task);
    }
    std::erase_if(tasks_, [&](const Task& task) {
        return std::any_of(found.begin(), found.end(), [&](const Task& other) {
            return other.name == task.name && other.start == task.start;
        });
    });
    return found;
}

void NodeScaler::perform(const Task& task) {
    LOG_INFO("{} worker {}", task.start ? "starting" : "stopping", task.name);
    const base::Status status =
        task.start ? provider_->start(task.name) : provider_->stop(task.name);
    if (status.ok()) return;
    LOG_WARN("worker {}: {}", task.name, status.error().message);
    if (task.start) tell({task.name, "could not be started: " + status.error().message});
}

void NodeScaler::tell(NodeProvider::Ended ended) {
    {
        const std::lock_guard lock(mutex_);
        ended_.push_back(std::move(ended));
    }
    done_.wake();
}

}  // namespace helix::node
