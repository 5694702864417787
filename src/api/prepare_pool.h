#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace helix::api {

// Threads for work whose length a client decides: reading bodies, rendering, tokenising, writing
// long answers. The thread that moves bytes only hands such work over.
//
// Fair between clients: the one with the fewest jobs under way is next, of several the one that was
// served longest ago. Of one client's jobs the smaller goes first, but a large one is overtaken by
// a bounded number of later ones only. The last thread takes none but small jobs, so that these
// never wait for large ones. Any thread may call.
class PreparePool {
  public:
    struct Options {
        int threads = 2;  // at least 2
        std::size_t max_waiting = 1024;
        std::size_t small_bytes = std::size_t{64}
                                  << 10U;  // a job of at most this many bytes is small
    };
    struct Job {
        std::string client;
        std::size_t bytes = 0;  // bytes that it works on
        // It never runs beside another job of its client.
        bool alone = false;
        std::function<void()> run;  // on a thread of the pool
        // Called in place of run, on any thread, if the job gave way to that of a client with fewer
        // waiting.
        std::function<void(const base::Error& why)> refuse;
    };
    using Ticket = std::uint64_t;

    explicit PreparePool(Options options);
    ~PreparePool();
    PreparePool(const PreparePool&) = delete;
    PreparePool& operator=(const PreparePool&) = delete;

    // Adds a job. Error overloaded: too many wait, and no client has more waiting than this one.
    base::Result<Ticket> add(Job job);
    // Adds a job that ends something that was begun. It is never refused, so refuse may be empty.
    Ticket add_owed(Job job);
    // True if the job is gone and will not run; false if it runs, or did.
    bool cancel(Ticket ticket);
    // Waits for the jobs that run. Those that wait are dropped, and so are all that come later.
    void stop();

    std::size_t waiting() const;

  private:
    // Each later job of the same client counts as if it had this many bytes more.
    static constexpr std::uint64_t kArrivalBytes = std::uint64_t{16} << 10U;
    using Rank = std::pair<std::uint64_t, Ticket>;
    struct Client {
        std::map<Rank, Job> waiting;
        int running = 0;
        std::uint64_t last_served = 0;
    };
    using Clients = std::map<std::string, Client>;
    struct Next {
        Clients::iterator client;
        std::map<Rank, Job>::iterator job;
    };

    void work(bool small_only);
    std::optional<Next> next(bool small_only);
    bool fits(const Job& job, bool small_only) const {
        return !small_only || job.bytes <= options_.small_bytes;
    }
    Ticket insert(Job job);
    // Takes out the last job of a client that has more waiting than this client; none if there is
    // no such client.
    std::optional<Job> make_room(const std::string& client);
    base::Error full() const;

    const Options options_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    Clients clients_;                                         // that have a job waiting or running
    std::map<Ticket, std::pair<std::string, Rank>> tickets_;  // of jobs that wait
    Ticket last_ticket_ = 0;
    std::uint64_t served_ = 0;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

// The number of threads for a machine with so many cores. Some cores are left to those who compute.
int prepare_threads(unsigned cores);

}  // namespace helix::api
