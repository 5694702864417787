#include "node/draft_proposer.h"

#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace helix::node {

DraftProposer::DraftProposer(std::unique_ptr<DraftModel> model, const net::Wakeup& done)
    : model_(std::move(model)), done_(done), thread_([this] { work(); }) {}

DraftProposer::~DraftProposer() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void DraftProposer::push(Task task) {
    {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
}

void DraftProposer::ask(core::ProposeDrafts question) {
    push(std::move(question));
}

void DraftProposer::forget(core::RequestId id) {
    push(core::ForgetDrafts{id});
}

std::vector<core::Drafted> DraftProposer::take_answers() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answers_, {});
}

void DraftProposer::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !tasks_.empty() || !model_->idle(); });
        if (stopping_) return;
        const std::vector<Task> tasks = std::exchange(tasks_, {});
        lock.unlock();
        for (const Task& task : tasks) {
            std::visit(base::Overloaded{
                           [&](const core::ProposeDrafts& question) { model_->ask(question); },
                           [&](const core::ForgetDrafts& over) { model_->forget(over.id); },
                       },
                       task);
        }
        std::vector<core::Drafted> answers = model_->run();
        lock.lock();
        if (answers.empty()) continue;
        answers_.insert(answers_.end(), answers.begin(), answers.end());
        done_.wake();
    }
}

}  // namespace helix::node
