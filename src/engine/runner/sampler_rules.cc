#include "engine/runner/sampler_rules.h"

namespace helix::engine {

base::Status check_params(const spec::SamplingParams& p) {
    const auto bad = [](const char* name, float value, const char* range) {
        return base::invalid(fmt::format("{} is {}; it must be {}", name, value, range));
    };
    // Written so that NaN fails.
    if (!(p.temperature >= 0.0F && std::isfinite(p.temperature)))
        return bad("temperature", p.temperature, "0 or more");
    if (!(p.top_p >= 0.0F && p.top_p <= 1.0F)) return bad("top_p", p.top_p, "within [0, 1]");
    if (!(p.min_p >= 0.0F && p.min_p <= 1.0F)) return bad("min_p", p.min_p, "within [0, 1]");
    if (!(p.repetition_penalty > 0.0F && std::isfinite(p.repetition_penalty)))
        return bad("repetition_penalty", p.repetition_penalty, "above 0");
    if (!std::isfinite(p.frequency_penalty))
        return bad("frequency_penalty", p.frequency_penalty, "finite");
    if (!std::isfinite(p.presence_penalty))
        return bad("presence_penalty", p.presence_penalty, "finite");
    return base::Ok{};
}

}  // namespace helix::engine
