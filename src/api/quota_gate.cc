#include "api/quota_gate.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "api/error.h"

namespace helix::api {
namespace {

// "12s", "1.5s" or "20ms", rounded up.
std::string reset_text(base::Duration reset) {
    const std::int64_t ms = (reset.ns + 999'999) / 1'000'000;
    if (ms > 0 && ms < 1000) return fmt::format("{}ms", ms);
    return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000)
                          : fmt::format("{}.{:03}s", ms / 1000, ms % 1000);
}

void tell_standing(net::HttpExchange& exchange, std::string_view of,
                   const std::optional<KeyQuotas::Standing>& standing) {
    if (!standing) return;
    exchange.add_header(fmt::format("x-ratelimit-limit-{}", of), std::to_string(standing->limit));
    exchange.add_header(fmt::format("x-ratelimit-remaining-{}", of),
                        std::to_string(standing->left));
    exchange.add_header(fmt::format("x-ratelimit-reset-{}", of), reset_text(standing->reset));
}

}  // namespace

bool within_quota(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
                  const Passage& passage) {
    const std::string& key = passage.key;
    if (key.empty()) return true;
    const base::TimePoint now = context.options.clock();
    const auto refusal = context.quotas.begin(now, key, passage.limits);
    tell_standing(*exchange, "requests", context.quotas.requests(now, key));
    tell_standing(*exchange, "tokens", context.quotas.tokens(now, key));
    if (refusal) {
        ApiError error = from_error({base::Errc::overloaded, refusal->why});
        error.retry_after_s = refusal->retry_after_s;
        context.refuse(*exchange, error);
        return false;
    }
    exchange->on_count([c = &context, key](std::string_view name, std::int64_t more) {
        const base::TimePoint used_at = c->options.clock();
        if (name == "prompt_tokens") c->quotas.used_prompt(used_at, key, more);
        if (name == "completion_tokens") c->quotas.used_output(used_at, key, more);
    });
    exchange->on_end([c = &context, key](const net::HttpExchange&) { c->quotas.end(key); });
    return true;
}

}  // namespace helix::api
