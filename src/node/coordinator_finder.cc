#include "node/coordinator_finder.h"

#include <fmt/format.h>

#include "base/log.h"

namespace helix::node {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr int kAskTimeoutMs = 2000;

std::string in_endpoint(const std::string& host) {
    return host.find(':') != std::string::npos ? "[" + host + "]" : host;
}

}  // namespace

Result<CoordinatorFinder> CoordinatorFinder::create(const std::string& join, JoinTrust trust) {
    TRY(Address address, parse_address(join));
    return CoordinatorFinder(std::move(address), std::move(trust));
}

Result<std::string> CoordinatorFinder::find_public_key(const std::string& offered) const {
    if (trust_.key.has_value()) {
        const std::string& trusted = trust_.key->coordinator_public_key;
        if (offered == trusted) return trusted;
        return Error{Errc::denied,
                     fmt::format("{} is not the coordinator that the key given here was made for "
                                 "({} key)",
                                 address_.host, offered.empty() ? "it has no" : "it has another")};
    }
    if (!offered.empty()) {
        const char* pairing =
            trust_.may_pair
                ? "run \"helix pair\" where the coordinator runs and give --pair here, or "
                : "";
        return Error{Errc::denied,
                     fmt::format("{} demands a key: {}make a key there with \"helix key new "
                                 "--worker NAME\" and give the file here with --key",
                                 address_.host, pairing)};
    }
    TRY_VOID(net::check_key_needed(address_.host, false, trust_.insecure));
    return std::string();
}

Result<CoordinatorAddress> CoordinatorFinder::find() {
    CoordinatorAddress found;
    const Result<JoinInfo> info = ask_join_info(address_, kAskTimeoutMs);
    std::uint16_t port = address_.port;
    if (info.ok()) {
        asked_over_http_ = true;
        TRY(found.public_key, find_public_key(info->public_key));
        port = info->cluster_port;
    } else if (info.error().code == Errc::not_found || asked_over_http_) {
        return Error{Errc::unavailable, info.error().message};
    } else {
        // There is no HTTP at this address: perhaps the cluster port itself was given.
        LOG_DEBUG("{}", info.error().message);
        const std::string offered =
            trust_.key.has_value() ? trust_.key->coordinator_public_key : std::string();
        TRY(found.public_key, find_public_key(offered));
    }
    TRY(const std::string local, local_address_towards(address_));
    found.local_host = in_endpoint(local);
    found.endpoint = fmt::format("tcp://{}:{}", in_endpoint(address_.host), port);
    return found;
}

}  // namespace helix::node
