#include "node/etcd.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/escape.h"
#include "spec/bounded_json.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;
using nlohmann::json;

constexpr std::uint64_t kLongestEtcdAnswer = 1U << 20U;  // bytes

// Numbers of 64 bits come as strings, and zeros not at all.
std::int64_t number_in(const json& object, const char* field) {
    const auto found = object.find(field);
    if (found == object.end()) return 0;
    if (found->is_number_integer()) return found->get<std::int64_t>();
    if (!found->is_string()) return 0;
    const auto& text = found->get_ref<const std::string&>();
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

}  // namespace

Result<std::unique_ptr<Etcd>> Etcd::create(net::HttpTarget target) {
    const std::string where = fmt::format("etcd at {}:{}", target.host, target.port);
    TRY(auto client, net::HttpClient::create(std::move(target)));
    return std::unique_ptr<Etcd>(new Etcd(std::move(client), where));
}

Result<json> Etcd::ask(const std::string& path, const json& body, std::chrono::milliseconds limit,
                       int also_good) {
    const auto answer = net::http_call(*client_, {.method = "POST",
                                                  .path = path,
                                                  .body = body.dump(),
                                                  .limit = limit,
                                                  .most_body_bytes = kLongestEtcdAnswer});
    if (!answer.ok()) {
        return Error{Errc::unavailable, fmt::format("{}: {}", where_, answer.error().message)};
    }
    // One that has no leader of its own, or is starting, answers so.
    if (answer->status >= 500) {
        return Error{Errc::unavailable, fmt::format("{} answers {}: {}", where_, answer->status,
                                                    base::escaped(answer->body.substr(0, 200)))};
    }
    json out = spec::bounded_json_or_discarded(answer->body);
    const bool good = answer->status == 200 || answer->status == also_good;
    if (good && out.is_object()) return out;
    return base::invalid(fmt::format("{} answers {} to {}: {}", where_, answer->status, path,
                                     base::escaped(answer->body.substr(0, 200))));
}

Result<std::int64_t> Etcd::grant(std::int64_t lease_s, std::chrono::milliseconds limit) {
    TRY(const json out, ask("/v3/lease/grant", {{"TTL", lease_s}}, limit));
    const std::int64_t lease = number_in(out, "ID");
    if (lease == 0) return base::invalid(where_ + " gave a lease without an ID");
    return lease;
}

Result<bool> Etcd::renew(std::int64_t lease, std::chrono::milliseconds limit) {
    TRY(const json out, ask("/v3/lease/keepalive", {{"ID", std::to_string(lease)}}, limit));
    const auto result = out.find("result");
    if (result == out.end() || !result->is_object()) {
        return base::invalid(where_ + " answers without a result to /v3/lease/keepalive");
    }
    return number_in(*result, "TTL") > 0;
}

Status Etcd::revoke(std::int64_t lease, std::chrono::milliseconds limit) {
    constexpr int kNoSuchLease = 404;
    TRY_VOID(ask("/v3/lease/revoke", {{"ID", std::to_string(lease)}}, limit, kNoSuchLease));
    return Ok{};
}

Result<std::optional<Etcd::Value>> Etcd::read(const std::string& key,
                                              std::chrono::milliseconds limit) {
    TRY(const json out, ask("/v3/kv/range", {{"key", base::to_base64(key)}}, limit));
    const auto found = out.find("kvs");
    if (found == out.end() || !found->is_array() || found->empty()) return std::optional<Value>();
    const json& one = found->front();
    const auto text = one.find("value");
    std::optional<std::string> value;
    if (text == one.end()) value.emplace();
    if (text != one.end() && text->is_string()) value = base::from_base64(text->get<std::string>());
    if (!value.has_value()) return base::invalid(where_ + ": " + key + " has no readable value");
    return std::optional(Value{std::move(*value), number_in(one, "mod_revision")});
}

Result<bool> Etcd::write_if(const std::vector<Is>& conditions, const std::vector<Write>& writes,
                            std::chrono::milliseconds limit) {
    json body = {{"compare", json::array()}, {"success", json::array()}};
    for (const Is& one : conditions) {
        body["compare"].push_back({{"key", base::to_base64(one.key)},
                                   {"target", "MOD"},
                                   {"result", "EQUAL"},
                                   {"mod_revision", std::to_string(one.revision)}});
    }
    for (const Write& one : writes) {
        json put = {{"key", base::to_base64(one.key)}, {"value", base::to_base64(one.text)}};
        if (one.lease != 0) put["lease"] = std::to_string(one.lease);
        body["success"].push_back({{"request_put", std::move(put)}});
    }
    TRY(const json out, ask("/v3/kv/txn", body, limit));
    const auto done = out.find("succeeded");  // left out when it is false
    return done != out.end() && done->is_boolean() && done->get<bool>();
}

}  // namespace helix::node
