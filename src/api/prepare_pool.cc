#include "api/prepare_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/log.h"

namespace helix::api {

int prepare_threads(unsigned cores) {
    return static_cast<int>(std::clamp(cores / 4, 2U, 8U));
}

PreparePool::PreparePool(Options options) : options_(options) {
    CHECK(options_.threads >= 2);
    for (int i = 0; i < options_.threads; ++i) {
        const bool small_only = i + 1 == options_.threads;
        threads_.emplace_back([this, small_only] { work(small_only); });
    }
}

PreparePool::~PreparePool() {
    stop();
}

void PreparePool::stop() {
    Clients dropped;  // destroyed outside the lock, since what they hold may take long
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        for (auto& [name, client] : clients_) dropped[name].waiting.swap(client.waiting);
        tickets_.clear();
        changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

base::Result<PreparePool::Ticket> PreparePool::add(Job job) {
    std::optional<Job> gives_way;
    Ticket ticket = 0;
    {
        const std::lock_guard lock(mutex_);
        if (tickets_.size() >= options_.max_waiting) {
            gives_way = make_room(job.client);
            if (!gives_way) return full();
        }
        ticket = insert(std::move(job));
    }
    if (gives_way && gives_way->refuse) gives_way->refuse(full());
    return ticket;
}

PreparePool::Ticket PreparePool::add_owed(Job job) {
    const std::lock_guard lock(mutex_);
    return insert(std::move(job));
}

PreparePool::Ticket PreparePool::insert(Job job) {
    const Ticket ticket = ++last_ticket_;
    if (stopping_) return ticket;
    const Rank rank{job.bytes + ticket * kArrivalBytes, ticket};
    tickets_.emplace(ticket, std::pair(job.client, rank));
    Client& client = clients_[job.client];
    client.waiting.emplace(rank, std::move(job));
    changed_.notify_all();
    return ticket;
}

std::optional<PreparePool::Job> PreparePool::make_room(const std::string& client) {
    const auto own = clients_.find(client);
    const std::size_t mine = own == clients_.end() ? 0 : own->second.waiting.size();
    const auto most =
        std::max_element(clients_.begin(), clients_.end(), [](const auto& a, const auto& b) {
            return a.second.waiting.size() < b.second.waiting.size();
        });
    // The new job's client would then have one more.
    if (most == clients_.end() || most->second.waiting.size() <= mine + 1) return {};
    // Owed jobs stay.
    auto& waiting = most->second.waiting;
    for (auto it = waiting.end(); it != waiting.begin();) {
        --it;
        if (!it->second.refuse) continue;
        Job job = std::move(it->second);
        tickets_.erase(it->first.second);
        waiting.erase(it);
        return job;
    }
    return {};
}

base::Error PreparePool::full() const {
    return {base::Errc::overloaded,
            fmt::format("More than {} requests wait to be read (max_preparing).",
                        options_.max_waiting)};
}

bool PreparePool::cancel(Ticket ticket) {
    Job dropped;
    const std::lock_guard lock(mutex_);
    const auto found = tickets_.find(ticket);
    if (found == tickets_.end()) return false;
    const auto client = clients_.find(found->second.first);
    const auto job = client->second.waiting.find(found->second.second);
    dropped = std::move(job->second);
    client->second.waiting.erase(job);
    if (client->second.waiting.empty() && client->second.running == 0) clients_.erase(client);
    tickets_.erase(found);
    return true;
}

std::size_t PreparePool::waiting() const {
    const std::lock_guard lock(mutex_);
    return tickets_.size();
}

std::optional<PreparePool::Next> PreparePool::next(bool small_only) {
    std::optional<Next> best;
    for (auto client = clients_.begin(); client != clients_.end(); ++client) {
        Client& c = client->second;
        auto job = c.waiting.begin();
        while (job != c.waiting.end() &&
               (!fits(job->second, small_only) || (job->second.alone && c.running > 0))) {
            ++job;
        }
        if (job == c.waiting.end()) continue;
        const auto order = [](const Client& one) {
            return std::pair(one.running, one.last_served);
        };
        if (!best || order(c) < order(best->client->second)) best = Next{client, job};
    }
    return best;
}

void PreparePool::work(bool small_only) {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        const std::optional<Next> found = next(small_only);
        if (!found) {
            changed_.wait(lock);
            continue;
        }
        Client& client = found->client->second;
        Job job = std::move(found->job->second);
        tickets_.erase(found->job->first.second);
        client.waiting.erase(found->job);
        ++client.running;
        client.last_served = ++served_;
        lock.unlock();
        try {
            job.run();
        } catch (const std::exception& e) {
            LOG_ERROR("a request's preparation: {}", e.what());
        }
        const std::string name = std::move(job.client);
        job = {};  // frees what it held before others are let in
        lock.lock();
        const auto done = clients_.find(name);
        --done->second.running;
        if (done->second.waiting.empty() && done->second.running == 0) clients_.erase(done);
        changed_.notify_all();  // one that was to be alone may go now
    }
}

}  // namespace helix::api
