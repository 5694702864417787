#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "net/http_client.h"

namespace helix::node {

// What we ask of etcd (3.4 or later), by its JSON gateway below /v3. Keys are read and written
// together with revisions, which rise with each write. Every call blocks, for at most the limit.
// Error unavailable: it did not answer in time, so a write may or may not have been done. Error
// invalid: what answers is no etcd, or refuses. One thread at a time.
class Etcd {
  public:
    static base::Result<std::unique_ptr<Etcd>> create(net::HttpTarget target);

    // A lease that is over when it was not renewed for so long. Keys that were written with it are
    // then gone.
    base::Result<std::int64_t> grant(std::int64_t lease_s, std::chrono::milliseconds limit);
    // False: it was over.
    base::Result<bool> renew(std::int64_t lease, std::chrono::milliseconds limit);
    base::Status revoke(std::int64_t lease, std::chrono::milliseconds limit);

    struct Value {
        std::string text;
        std::int64_t revision = 0;  // of its last write
    };
    base::Result<std::optional<Value>> read(const std::string& key,
                                            std::chrono::milliseconds limit);

    struct Is {
        std::string key;
        std::int64_t revision = 0;  // of its last write; 0: it is not there
    };
    struct Write {
        std::string key;
        std::string text;
        std::int64_t lease = 0;  // 0 = it stays
    };
    // Writes all if all conditions hold, else nothing; says which. In one step.
    base::Result<bool> write_if(const std::vector<Is>& conditions, const std::vector<Write>& writes,
                                std::chrono::milliseconds limit);

  private:
    Etcd(std::unique_ptr<net::HttpClient> client, std::string where)
        : client_(std::move(client)), where_(std::move(where)) {}
    base::Result<nlohmann::json> ask(const std::string& path, const nlohmann::json& body,
                                     std::chrono::milliseconds limit, int also_good = 200);

    std::unique_ptr<net::HttpClient> client_;
    std::string where_;
};

}  // namespace helix::node
