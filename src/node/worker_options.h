#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "engine/backend/provider.h"
#include "model/digest_cache.h"
#include "model/weight_source.h"
#include "net/key.h"
#include "net/zmq_transport.h"
#include "node/cache_room.h"
#include "spec/cluster_spec.h"

namespace helix::node {

// How a worker is run. For threads and memory 0 means what the machine has: all cores, and four
// fifths of the memory that is free.
struct WorkerOptions {
    std::string name;  // unique in the cluster; empty = host name and process id
    std::string host;  // identifies the machine; empty = its machine id
    std::string type;  // machine type for measured tables; "" = only what it measures itself
    std::string region;
    spec::NodeRole role = spec::NodeRole::both;
    std::int64_t memory_bytes = 0;
    std::int64_t swap_bytes = 0;  // of memory besides, for KV pages swapped out; 0 = none
    // The most KV that it sends another worker, in bytes per second; 0: it follows from the
    // engine's threads (core/protocol/migration_rate.h). Never more than half of what was measured
    // of the link.
    double migration_bytes_per_s = 0;
    bool prefix_cache = true;  // keep the KV of tokens that another request may begin with
    std::int32_t threads = 0;
    double speed = 1;  // below 1: slowed down to that share
    std::shared_ptr<engine::BackendProvider> backend;
    std::optional<net::WorkerKey> key;
    bool insecure = false;
    std::string model_file;              // local weights, used when their hash is the served one's
    model::WeightOptions model_options;  // how model_file is opened
    model::DigestCache digests;          // of files that were hashed before
    std::filesystem::path cache_dir;     // of weights received; empty = none
    CacheLimit cache_limit;
    std::string peer_host;  // address that peers reach this worker at; empty = found out
    std::uint16_t peer_port =
        0;  // port that peers reach this worker at; 0 = the one that it listens on
    std::uint16_t listen_port = 0;  // for peers; 0 = any that is free
    bool probe_same_host = false;   // measure links to workers of the same host, too
    // When the coordinator is gone, what runs here is kept this long for the next one; 0: not.
    base::Duration coordinator_wait = base::from_seconds(60);
    net::TransportOptions transport;
};

}  // namespace helix::node
