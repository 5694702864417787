#include "node/node_scaler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/log.h"

namespace helix::node {

NodeScaler::NodeScaler(std::unique_ptr<NodeProvider> provider, const net::Wakeup& done)
    : provider_(std::move(provider)), done_(done), thread_([this] { work(); }) {}

NodeScaler::~NodeScaler() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void NodeScaler::add() {
    for (const std::string& name : std::exchange(coming_, {})) push({false, name});
    // The process id keeps names apart from those of an earlier coordinator.
    std::string name = fmt::format("helix-{}-{}", getpid(), ++started_);
    coming_.insert(name);
    push({true, std::move(name)});
}

void NodeScaler::on_joined(const std::string& name) {
    if (coming_.erase(name) > 0) here_.insert(name);
}

void NodeScaler::remove(const std::string& name) {
    if (here_.erase(name) > 0) push({false, name});
}

std::vector<std::string> NodeScaler::take_failures() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failures_, {});
}

void NodeScaler::push(Task task) {
    {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
}

void NodeScaler::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
        if (stopping_) return;
        const std::vector<Task> tasks = std::exchange(tasks_, {});
        lock.unlock();
        for (const Task& task : tasks) perform(task);
        lock.lock();
    }
}

void NodeScaler::perform(const Task& task) {
    LOG_INFO("{} worker {}", task.start ? "starting" : "stopping", task.name);
    const base::Status status =
        task.start ? provider_->start(task.name) : provider_->stop(task.name);
    if (status.ok()) return;
    LOG_WARN("worker {}: {}", task.name, status.error().message);
    if (!task.start) return;
    {
        const std::lock_guard lock(mutex_);
        failures_.push_back(status.error().message);
    }
    done_.wake();
}

}  // namespace helix::node
