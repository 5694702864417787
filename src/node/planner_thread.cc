#include "node/planner_thread.h"

#include <exception>
#include <utility>

#include "node/clock.h"

namespace helix::node {

PlannerThread::PlannerThread(PlanFunction function, const net::Wakeup& done)
    : function_(std::move(function)), done_(done), thread_([this] { work(); }) {}

PlannerThread::~PlannerThread() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void PlannerThread::ask(core::PlanCluster question) {
    {
        const std::lock_guard lock(mutex_);
        questions_.push_back(std::move(question));
    }
    changed_.notify_all();
}

std::vector<PlanResult> PlannerThread::take_results() {
    const std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
}

void PlannerThread::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
        if (stopping_) return;
        core::PlanCluster question = std::move(questions_.front());
        questions_.pop_front();
        lock.unlock();
        base::Result<plan::PlanReport> report = base::Error{};
        try {
            report = function_(question.cluster);
        } catch (const std::exception& exception) {  // a solver library's, or no memory
            report = base::Error{base::Errc::internal, exception.what()};
        }
        lock.lock();
        results_.push_back({std::move(question), std::move(report)});
        done_.wake();
    }
}

PlanFunction planner_for(const spec::ModelSpec& model, base::Duration limit) {
    return [model, limit](const spec::ClusterSpec& cluster) {
        const base::TimePoint until = now() + limit;
        plan::PlanOptions options;
        options.stop = [until] { return now() >= until; };
        return plan::plan(cluster, model, options);
    };
}

}  // namespace helix::node
