#include "engine/proof/device_proof.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "engine/ops/kv_type.h"
#include "engine/proof/made_data.h"

namespace helix::engine::proof {
namespace {

using ProofClock = std::chrono::steady_clock;

constexpr ModelCase kModels[] = {
    {"small", model::TensorType::q4_k, ops::KvType::f16},
    {"tiny-qwen3moe", model::TensorType::q8_0, ops::KvType::q8},
    {"tiny-mistral", model::TensorType::bf16, ops::KvType::f32},
    {"bge", model::TensorType::q8_0, ops::KvType::f16},
};

// The seed of a case, so that no two have the same numbers.
std::uint64_t case_seed(std::uint64_t seed, std::size_t check, std::size_t number) {
    return base::hash_pair(base::hash_pair(seed, check), number);
}

std::string compare(const std::string& what, std::uint64_t seed, const Values& got,
                    const Values& right) {
    std::string wrong;
    if (!right.ok()) {
        wrong = "the device to compare with: " + right.error().message;
    } else {
        wrong = got.ok() ? first_difference(*got, *right) : got.error().message;
    }
    return wrong.empty() ? "" : fmt::format("{}, --seed {}: {}", what, seed, wrong);
}

class Prover {
  public:
    explicit Prover(const ProofRequest& request) : request_(request) {}

    std::vector<CheckOutcome> run() {
        const std::vector<Check> checks = operator_checks(request_.seed, request_.quick);
        total_ = checks.size() + std::size(kModels);
        model::ModelConfig config;
        config.n_kv_heads = 1;
        auto device = request_.device(config);
        auto right = request_.right(config);
        for (const auto* opened : {&device, &right}) {
            if (opened->ok()) continue;
            CheckOutcome refused;
            refused.name = "opening";
            refused.wrong = opened->error().message;
            finish(std::move(refused));
            return std::move(outcomes_);
        }
        for (std::size_t i = 0; i < checks.size(); ++i)
            operator_check(checks[i], i, **device, **right);
        device = base::Error{};  // models open their own
        for (std::size_t i = 0; i < std::size(kModels); ++i)
            model_check(kModels[i], checks.size() + i);
        return std::move(outcomes_);
    }

  private:
    void operator_check(const Check& check, std::size_t number, Device& device, Device& right) {
        CheckOutcome outcome;
        outcome.name = check.name;
        const auto began = ProofClock::now();
        for (const Check::Case& c : check.cases) {
            const std::uint64_t seed =
                case_seed(request_.seed, number, static_cast<std::size_t>(outcome.cases));
            ++outcome.cases;
            const Values wanted = c.values(right, seed);
            outcome.wrong = compare(c.shape, request_.seed, c.values(device, seed), wanted);
            if (!outcome.wrong.empty()) break;
        }
        outcome.seconds = std::chrono::duration<double>(ProofClock::now() - began).count();
        finish(std::move(outcome));
    }

    void model_check(const ModelCase& c, std::size_t number) {
        CheckOutcome outcome;
        outcome.name =
            fmt::format("model {} {}, KV {}", c.shape, model::tensor_type_info(c.weights)->name,
                        ops::to_string(c.kv_type));
        const auto began = ProofClock::now();
        const std::uint64_t seed = case_seed(request_.seed, number, 0);
        outcome.cases = 1;
        const Values right = model_values(request_.right, c, seed);
        outcome.wrong = compare("what the model answers", request_.seed,
                                model_values(request_.device, c, seed), right);
        outcome.seconds = std::chrono::duration<double>(ProofClock::now() - began).count();
        finish(std::move(outcome));
    }

    void finish(CheckOutcome outcome) {
        if (request_.on_check) request_.on_check(outcome);
        outcomes_.push_back(std::move(outcome));
        if (request_.on_progress) request_.on_progress(outcomes_.size(), total_);
    }

    const ProofRequest& request_;
    std::size_t total_ = 0;
    std::vector<CheckOutcome> outcomes_;
};

}  // namespace

std::vector<CheckOutcome> prove_device(const ProofRequest& request) {
    return Prover(request).run();
}

bool all_right(const std::vector<CheckOutcome>& outcomes) {
    return !outcomes.empty() &&
           std::all_of(outcomes.begin(), outcomes.end(),
                       [](const CheckOutcome& outcome) { return outcome.wrong.empty(); });
}

}  // namespace helix::engine::proof
