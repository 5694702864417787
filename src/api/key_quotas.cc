#include "api/key_quotas.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::api {
namespace {

constexpr std::int64_t kMinuteNs = 60'000'000'000;

std::int32_t whole_seconds(base::Duration wait) {
    return static_cast<std::int32_t>(
        std::max<std::int64_t>(1, (wait.ns + 999'999'999) / 1'000'000'000));
}

}  // namespace

base::Duration MinuteBudget::until_all(base::TimePoint now) const {
    return std::max(full_at_ - now, base::Duration());
}

std::int64_t MinuteBudget::left(base::TimePoint now, std::int64_t limit) const {
    CHECK(limit >= 1 && limit <= kMostPerMinute);
    return std::max<std::int64_t>(0, kMinuteNs - until_all(now).ns) * limit / kMinuteNs;
}

void MinuteBudget::take(base::TimePoint now, std::int64_t limit, std::int64_t amount) {
    CHECK(limit >= 1 && limit <= kMostPerMinute && amount >= 0);
    full_at_ = std::max(full_at_, now) +
               base::Duration{std::min(amount, kMostPerMinute) * kMinuteNs / limit};
}

base::Duration MinuteBudget::until_one(base::TimePoint now, std::int64_t limit) const {
    const std::int64_t one = (kMinuteNs + limit - 1) / limit;
    return {std::max<std::int64_t>(0, until_all(now).ns - (kMinuteNs - one))};
}

std::optional<KeyQuotas::Refusal> KeyQuotas::refusal(base::TimePoint now, const std::string& name,
                                                     const Key& key) {
    const KeyLimits& limits = key.limits;
    if (limits.concurrent_requests > 0 && key.running >= limits.concurrent_requests) {
        return Refusal{fmt::format("The key {} may have {} requests at once (concurrent_requests).",
                                   name, limits.concurrent_requests),
                       1};
    }
    const auto spent = [&](const MinuteBudget& budget, std::int64_t limit, const char* of,
                           const char* option) -> std::optional<Refusal> {
        if (limit == 0 || budget.left(now, limit) > 0) return {};
        const std::int32_t wait_s = whole_seconds(budget.until_one(now, limit));
        return Refusal{fmt::format("The key {} may use {} {} a minute ({}); try again in {} s.",
                                   name, limit, of, option, wait_s),
                       wait_s};
    };
    if (auto found =
            spent(key.requests, limits.requests_per_minute, "requests", "requests_per_minute")) {
        return found;
    }
    return spent(key.tokens, limits.tokens_per_minute, "tokens", "tokens_per_minute");
}

std::optional<KeyQuotas::Refusal> KeyQuotas::begin(base::TimePoint now, const std::string& name,
                                                   const KeyLimits& limits) {
    Key& key = keys_[name];
    key.limits = limits;
    if (auto refused = refusal(now, name, key)) {
        ++key.usage.refused;
        return refused;
    }
    ++key.usage.requests;
    ++key.running;
    if (limits.requests_per_minute > 0) key.requests.take(now, limits.requests_per_minute, 1);
    return {};
}

void KeyQuotas::end(const std::string& name) {
    Key& key = keys_.at(name);
    CHECK(key.running > 0);
    --key.running;
}

void KeyQuotas::used_prompt(base::TimePoint now, const std::string& name, std::int64_t tokens) {
    Key& key = keys_.at(name);
    key.usage.prompt_tokens += static_cast<std::uint64_t>(tokens);
    if (key.limits.tokens_per_minute > 0)
        key.tokens.take(now, key.limits.tokens_per_minute, tokens);
}

void KeyQuotas::used_output(base::TimePoint now, const std::string& name, std::int64_t tokens) {
    Key& key = keys_.at(name);
    key.usage.output_tokens += static_cast<std::uint64_t>(tokens);
    if (key.limits.tokens_per_minute > 0)
        key.tokens.take(now, key.limits.tokens_per_minute, tokens);
}

const KeyQuotas::Key* KeyQuotas::find(const std::string& name) const {
    const auto found = keys_.find(name);
    return found == keys_.end() ? nullptr : &found->second;
}

std::optional<KeyQuotas::Standing> KeyQuotas::requests(base::TimePoint now,
                                                       const std::string& name) const {
    const Key* key = find(name);
    if (key == nullptr || key->limits.requests_per_minute == 0) return {};
    const std::int64_t limit = key->limits.requests_per_minute;
    return Standing{limit, key->requests.left(now, limit), key->requests.until_all(now)};
}

std::optional<KeyQuotas::Standing> KeyQuotas::tokens(base::TimePoint now,
                                                     const std::string& name) const {
    const Key* key = find(name);
    if (key == nullptr || key->limits.tokens_per_minute == 0) return {};
    const std::int64_t limit = key->limits.tokens_per_minute;
    return Standing{limit, key->tokens.left(now, limit), key->tokens.until_all(now)};
}

std::map<std::string, KeyUsage> KeyQuotas::usage() const {
    std::map<std::string, KeyUsage> all;
    for (const auto& [name, key] : keys_) all.emplace(name, key.usage);
    return all;
}

}  // namespace helix::api
