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
        std::size_t small_bytes = std::size_t{64} << 10U;  // a job of so many is small
    };
    struct Job {
        std::string client;
        std::size_t bytes = 0;  // that there are to work on
        // Never beside another job of this client.
        bool alone = false;
        std::function<void()> run;  // on a thread of the pool
        // In place of run, on any thread: it gave way to the job of a client with fewer waiting.
        std::function<void(const base::Error& why)> refuse;
    };
    using Ticket = std::uint64_t;

    explicit PreparePool(Options options);
    ~PreparePool();
    PreparePool(const PreparePool&) = delete;
    PreparePool& operator=(const PreparePool&) = delete;

    // overloaded: too many wait, and no client has more waiting than this one.
    base::Result<Ticket> add(Job job);
    // The end of something that was begun: never refused. refuse may be empty.
    Ticket add_owed(Job job);
    // True: it will not run and is gone. False: it runs, or did.
    bool cancel(Ticket ticket);
    // Waits for what runs; what waits is dropped, and all that comes later.
    void stop();

    std::size_t waiting() const;

  private:
    // Bytes that each later arrival of the same client counts more.
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
    // Where somebody else has more waiting than client: his last job.
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

// For a machine with so many cores: some stay with those who compute.
int prepare_threads(unsigned cores);

}  // namespace helix::api
