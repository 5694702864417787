#include "hub/small_answer.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace helix::hub {
namespace {

constexpr std::size_t kLargestAnswer = std::size_t{64} << 20U;

base::Error useless(const std::string& address, const std::string& what) {
    return {base::Errc::io, fmt::format("{}: {}", shown_address(address), what)};
}

}  // namespace

base::Result<SmallAnswer> ask_small(const World& world, const std::string& address,
                                    const std::string& token, bool head_only) {
    base::Duration pause = world.patience.first_pause;
    int waits = 0;
    for (int tries = 1;; ++tries) {
        SmallAnswer answer;
        answer.address = address;
        bool too_large = false;
        HttpEnd end = world.http->send(
            HttpRequest{address, head_only, token, std::nullopt, std::nullopt, {}},
            [](const HttpHead& head) { return head.status / 100 == 2; },
            [&](std::span<const std::byte> bytes) {
                too_large = answer.body.size() + bytes.size() > kLargestAnswer;
                if (!too_large) {
                    answer.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                }
                return !too_large;
            });
        if (too_large) return useless(address, "the answer is too long");
        answer.head = std::move(end.head);
        base::Error error;
        if (answer.head.status == 0 || !end.transfer.ok()) {
            error = end.transfer.ok() ? useless(address, "no answer") : end.transfer.error();
            if (end.lasting) return error;
        } else {
            const Verdict verdict = judge_small(answer.head, address);
            error = verdict.error;
            if (verdict.next == Next::wait && ++waits <= world.patience.waits) {
                world.pause(verdict.pause, error.message);
                --tries;
                continue;
            }
            if (verdict.next != Next::try_again) return answer;
        }
        if (tries >= world.patience.tries) {
            error.message += fmt::format("; given up after {} tries", tries);
            return error;
        }
        world.pause(pause, error.message);
        pause = std::min(pause + pause, world.patience.longest_pause);
    }
}

}  // namespace helix::hub
