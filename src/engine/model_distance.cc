#include "engine/model_distance.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "engine/prompt_runner.h"

namespace helix::engine {
namespace {

// The log-probabilities of a text's tokens, of the whole vocabulary in each place.
struct Predictions {
    std::vector<float> all;  // [tokens but the first, vocabulary]
    std::vector<float> of_next;
    std::vector<spec::Token> top;

    base::Status predict(PromptRunner& runner, std::span<const spec::Token> text) {
        const std::size_t vocab = base::size_of(runner.config().vocab);
        all.assign((text.size() - 1) * vocab, 0);
        of_next.clear();
        top.clear();
        return runner.run(text, runner.config().vocab,
                          [&](std::span<const core::ProducedToken> scored) -> base::Status {
                              for (const core::ProducedToken& one : scored) {
                                  CHECK(one.top.size() == vocab);
                                  float* row = all.data() + of_next.size() * vocab;
                                  for (const spec::TokenLogprob& each : one.top)
                                      row[base::at(each.token)] = each.logprob;
                                  of_next.push_back(one.logprob);
                                  top.push_back(one.top.front().token);
                              }
                              return base::Ok{};
                          });
    }
};

double divergence(std::span<const float> p, std::span<const float> q) {
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        const double log_p = p[i];
        const double probability = std::exp(log_p);
        if (probability > 0) sum += probability * (log_p - double{q[i]});
    }
    return std::max(sum, 0.0);
}

class DistanceSums {
  public:
    void add(const Predictions& base, const Predictions& other, std::size_t vocab) {
        for (std::size_t i = 0; i < base.of_next.size(); ++i) {
            divergences_.push_back(divergence(std::span(base.all).subspan(i * vocab, vocab),
                                              std::span(other.all).subspan(i * vocab, vocab)));
            base_loss_ -= double{base.of_next[i]};
            loss_ -= double{other.of_next[i]};
            same_ += base.top[i] == other.top[i] ? 1 : 0;
        }
    }

    ModelDistance distance() {
        ModelDistance found;
        found.tokens = std::ssize(divergences_);
        const auto n = static_cast<double>(found.tokens);
        std::sort(divergences_.begin(), divergences_.end());
        double sum = 0;
        double squares = 0;
        for (const double kl : divergences_) {
            sum += kl;
            squares += kl * kl;
        }
        found.base_perplexity = std::exp(base_loss_ / n);
        found.perplexity = std::exp(loss_ / n);
        found.mean_kl = sum / n;
        found.mean_kl_error =
            std::sqrt(std::max(0.0, squares / n - found.mean_kl * found.mean_kl) / n);
        found.p99_kl = divergences_[static_cast<std::size_t>(0.99 * (n - 1))];
        found.max_kl = divergences_.back();
        found.same_top = same_ / n;
        return found;
    }

  private:
    std::vector<double> divergences_;
    double base_loss_ = 0;
    double loss_ = 0;
    double same_ = 0;
};

}  // namespace

base::Result<ModelDistance> measure_distance(std::shared_ptr<model::WeightSource> base,
                                             std::shared_ptr<model::WeightSource> other,
                                             const std::vector<std::vector<spec::Token>>& texts,
                                             const DistanceOptions& options) {
    std::size_t longest = 0;
    std::uint64_t total = 0;
    for (const auto& text : texts) {
        longest = std::max(longest, text.size());
        total += text.size();
    }
    CHECK(longest > 1);
    CpuDeviceOptions device;
    device.threads = options.threads;
    const auto tokens = static_cast<std::int32_t>(longest);
    const std::string label = other->file().label();
    TRY(const auto base_runner, PromptRunner::open(std::move(base), tokens, device));
    TRY(const auto runner, PromptRunner::open(std::move(other), tokens, device));
    if (runner->config().vocab != base_runner->config().vocab) {
        return base::invalid(fmt::format("{}: a vocabulary of {}, the other model has {}", label,
                                         runner->config().vocab, base_runner->config().vocab));
    }
    DistanceSums sums;
    Predictions of_base;
    Predictions of_other;
    std::uint64_t done = 0;
    for (const auto& text : texts) {
        done += text.size();
        if (text.size() < 2) continue;
        TRY_VOID(of_base.predict(*base_runner, text));
        TRY_VOID(of_other.predict(*runner, text));
        sums.add(of_base, of_other, base::size_of(base_runner->config().vocab));
        if (options.on_progress) options.on_progress(done, total);
    }
    return sums.distance();
}

}  // namespace helix::engine
