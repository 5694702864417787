#include "node/host_workers.h"

#include <cstddef>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace helix::node {

using base::Ok;
using base::Status;

HostWorkers::HostWorkers(std::vector<WorkerOptions> options) {
    CHECK(!options.empty());
    for (WorkerOptions& one : options) {
        names_.push_back(one.name);
        servers_.push_back(std::make_unique<WorkerServer>(std::move(one)));
    }
}

Status HostWorkers::run_all(const std::function<Status(WorkerServer&)>& run) {
    std::vector<Status> ended(servers_.size(), Ok{});
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
        threads.emplace_back([&, i] {
            ended[i] = run(*servers_[i]);
            if (!ended[i].ok() && servers_.size() > 1)
                LOG_ERROR("worker \"{}\": {}", names_[i], ended[i].error().message);
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& one : ended) {
        if (!one.ok()) return one;
    }
    return Ok{};
}

Status HostWorkers::run(const std::vector<std::string>& join) {
    return run_all([&](WorkerServer& server) { return server.run(join); });
}

Status HostWorkers::run(const CoordinatorPlace& place) {
    return run_all([&](WorkerServer& server) { return server.run(place); });
}

void HostWorkers::stop() {
    for (const auto& server : servers_) server->stop();
}

}  // namespace helix::node
