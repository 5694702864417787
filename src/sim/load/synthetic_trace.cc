#include "sim/load/synthetic_trace.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace helix::sim {
namespace {

constexpr std::int64_t kMostRequests = 100'000'000;
constexpr double kMostGapCv = 20;

// Natural logarithms of tokens.
struct Component {
    double weight;
    double prompt_mean;
    double prompt_deviation;
    double output_mean;
    double output_deviation;
};

// Fitted by expectation maximisation to the 16,657 public pairs of lengths, then shifted by 1 % so
// that the means after cutting are the published ones.
constexpr std::array<Component, 6> kConversation = {{
    {0.0763, 4.9948, 1.242, 4.0838, 1.029},
    {0.1058, 5.2966, 0.082, 5.0016, 0.364},
    {0.2852, 6.0005, 0.050, 4.5356, 0.248},
    {0.3229, 6.9872, 0.068, 5.9991, 0.050},
    {0.0615, 6.9950, 0.065, 6.2542, 0.180},
    {0.1483, 7.1530, 0.264, 4.6217, 0.501},
}};

// Box and Muller (1958), one of the pair.
double draw_normal(base::Random& random) {
    const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
    return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// Marsaglia and Tsang (2000); shapes below 1 by Gamma(a) = Gamma(a + 1) U^(1/a).
double draw_gamma(base::Random& random, double shape) {
    if (shape < 1) {
        const double power = std::pow(1 - random.uniform(), 1 / shape);
        return draw_gamma(random, shape + 1) * power;
    }
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    while (true) {
        const double x = draw_normal(random);
        const double cube = std::pow(1 + c * x, 3);
        if (cube <= 0) continue;
        const double u = 1 - random.uniform();
        if (std::log(u) < 0.5 * x * x + d - d * cube + d * std::log(cube)) return d * cube;
    }
}

// 0 when outside [least, most].
std::int32_t draw_tokens(base::Random& random, double mean, double deviation, std::int32_t most) {
    const double tokens = std::round(std::exp(mean + deviation * draw_normal(random)));
    if (tokens < kConversationLeastTokens || tokens > most) return 0;
    return static_cast<std::int32_t>(tokens);
}

}  // namespace

TraceRequest draw_conversation(base::Random& random) {
    while (true) {
        double left = random.uniform();
        std::size_t k = 0;
        while (k + 1 < kConversation.size() && left >= kConversation[k].weight) {
            left -= kConversation[k++].weight;
        }
        const Component& c = kConversation[k];
        TraceRequest request;
        request.prompt_tokens =
            draw_tokens(random, c.prompt_mean, c.prompt_deviation, kConversationMostPrompt);
        request.output_tokens =
            draw_tokens(random, c.output_mean, c.output_deviation, kConversationMostOutput);
        if (request.prompt_tokens > 0 && request.output_tokens > 0) return request;
    }
}

double draw_gap(base::Random& random, double requests_per_s, double gap_cv) {
    CHECK(requests_per_s > 0 && gap_cv >= 0);
    const double mean_s = 1 / requests_per_s;
    if (gap_cv == 0) return mean_s;
    if (gap_cv == 1) return -mean_s * std::log1p(-random.uniform());
    const double shape = 1 / (gap_cv * gap_cv);
    return mean_s * draw_gamma(random, shape) / shape;
}

base::Result<std::vector<TraceRequest>> synthetic_trace(const SyntheticTraceOptions& options) {
    if (options.requests < 1 || options.requests > kMostRequests) {
        return base::invalid(
            fmt::format("requests: expected 1 to {}, found {}", kMostRequests, options.requests));
    }
    if (!(options.requests_per_s > 0) || !std::isfinite(options.requests_per_s)) {
        return base::invalid(fmt::format("rate: expected requests per second above 0, found {}",
                                         options.requests_per_s));
    }
    if (!(options.gap_cv >= 0 && options.gap_cv <= kMostGapCv)) {
        return base::invalid(
            fmt::format("burst: expected a coefficient of variation from 0 to {}, found {}",
                        kMostGapCv, options.gap_cv));
    }
    // Streams of their own, so that another rate keeps the lengths.
    base::Random lengths(base::hash_pair(options.seed, 1));
    base::Random gaps(base::hash_pair(options.seed, 2));
    std::vector<TraceRequest> requests;
    requests.reserve(static_cast<std::size_t>(options.requests));
    double at_s = 0;
    for (std::int64_t i = 0; i < options.requests; ++i) {
        TraceRequest request = draw_conversation(lengths);
        at_s += draw_gap(gaps, options.requests_per_s, options.gap_cv);
        request.arrival_s = at_s;
        requests.push_back(request);
    }
    return requests;
}

LengthSource conversation_lengths() {
    constexpr int kRows = 20'000;
    base::Random random(1);
    std::vector<RequestLength> rows;
    for (int i = 0; i < kRows; ++i) {
        const TraceRequest request = draw_conversation(random);
        rows.push_back({request.prompt_tokens, request.output_tokens});
    }
    return {std::move(rows), LengthOrder::sampled};
}

}  // namespace helix::sim
