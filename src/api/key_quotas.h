#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"

// What a key may use in a minute and at once, and what it has used. It has no clock: time is passed
// in.

namespace helix::api {

// 0 = without a limit.
struct KeyLimits {
    std::int64_t requests_per_minute = 0;
    std::int64_t tokens_per_minute = 0;  // of prompts and answers together
    std::int64_t concurrent_requests = 0;
};

// So many a minute, all at once or evenly: what is taken comes back at the limit's pace. More may
// be taken than is left; then it is away for longer. limit is at least 1, at most kMostPerMinute.
class MinuteBudget {
  public:
    static constexpr std::int64_t kMostPerMinute = 100'000'000;

    std::int64_t left(base::TimePoint now, std::int64_t limit) const;
    void take(base::TimePoint now, std::int64_t limit, std::int64_t amount);
    // Until one is left; until all are.
    base::Duration until_one(base::TimePoint now, std::int64_t limit) const;
    base::Duration until_all(base::TimePoint now) const;

  private:
    base::TimePoint full_at_;
};

// What a key has used since the server began.
struct KeyUsage {
    std::uint64_t requests = 0;  // that were let in
    std::uint64_t refused = 0;   // by its limits
    std::uint64_t prompt_tokens = 0;
    std::uint64_t output_tokens = 0;
};

class KeyQuotas {
  public:
    struct Refusal {
        std::string why;                 // names the limit
        std::int32_t retry_after_s = 1;  // at least 1
    };
    // A request of this key comes, with the limits that are set for it now. Without a refusal it is
    // let in, and end() follows when it is over.
    std::optional<Refusal> begin(base::TimePoint now, const std::string& key,
                                 const KeyLimits& limits);
    void end(const std::string& key);
    // Tokens are counted when they are used, so a request may go beyond what was left, and those
    // after it wait for longer.
    void used_prompt(base::TimePoint now, const std::string& key, std::int64_t tokens);
    void used_output(base::TimePoint now, const std::string& key, std::int64_t tokens);

    // One limit of a key as its clients are told of it.
    struct Standing {
        std::int64_t limit = 0;
        std::int64_t left = 0;
        base::Duration reset;  // until all are left
    };
    // Nothing where there is no such limit.
    std::optional<Standing> requests(base::TimePoint now, const std::string& key) const;
    std::optional<Standing> tokens(base::TimePoint now, const std::string& key) const;
    std::map<std::string, KeyUsage> usage() const;

  private:
    struct Key {
        KeyLimits limits;  // as begin() saw them last
        MinuteBudget requests;
        MinuteBudget tokens;
        std::int64_t running = 0;
        KeyUsage usage;
    };
    static std::optional<Refusal> refusal(base::TimePoint now, const std::string& name,
                                          const Key& key);
    const Key* find(const std::string& key) const;

    std::map<std::string, Key> keys_;
};

}  // namespace helix::api
