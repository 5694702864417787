// What this machine's processor computes, a line for each case: of every operator on numbers drawn
// from a seed, of the angles of rotary embeddings, and of models with random weights a hash of the
// bits. Programs for other processors print the same.
//
// usage: helix_device_values SEED [portable|avx2|avx512|amx]

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "engine/cpu/cpu_device.h"
#include "engine/ops/kv_type.h"
#include "engine/ops/rope.h"
#include "engine/proof/device_proof.h"
#include "engine/proof/made_data.h"

namespace helix::engine::device_values {
namespace {

struct Chosen {
    std::uint64_t seed = 0;
    std::optional<ops::Isa> isa;
};

std::optional<Chosen> chosen_by(std::span<char*> arguments) {
    if (arguments.size() < 2 || arguments.size() > 3) return std::nullopt;
    Chosen chosen;
    const std::string_view seed = arguments[1];
    const auto read = std::from_chars(seed.data(), seed.data() + seed.size(), chosen.seed);
    if (read.ec != std::errc() || read.ptr != seed.data() + seed.size()) return std::nullopt;
    if (arguments.size() == 2) return chosen;
    for (const ops::Isa isa :
         {ops::Isa::portable, ops::Isa::avx2, ops::Isa::avx512, ops::Isa::amx}) {
        if (std::string_view(arguments[2]) == ops::to_string(isa)) chosen.isa = isa;
    }
    return chosen.isa ? std::optional(chosen) : std::nullopt;
}

// Which NaN a NaN is does not matter (docs/numerics.md).
std::string hash_of(std::vector<float> values) {
    for (float& value : values) {
        if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
    }
    return base::to_hex(base::hash128(std::as_bytes(std::span(values))));
}

class Printer {
  public:
    explicit Printer(const Chosen& chosen) : chosen_(chosen) {}

    // Whether all could be computed.
    bool run() {
        operators();
        angles();
        models();
        return good_;
    }

  private:
    base::Result<std::unique_ptr<Device>> open(const model::ModelConfig& config) const {
        CpuDeviceOptions options;
        options.threads = 2;
        options.isa = chosen_.isa;
        return CpuDevice::create(options, config);
    }

    void print(const std::string& name, const std::string& shape, const proof::Values& values) {
        if (!values.ok()) {
            good_ = false;
            fmt::print(stderr, "{}, {}: {}\n", name, shape, values.error().message);
            return;
        }
        fmt::print("{}, {}: {} values, {}\n", name, shape, values->size(), hash_of(*values));
    }

    void operators() {
        model::ModelConfig config;
        config.n_kv_heads = 1;
        auto device = open(config);
        if (!device.ok()) return print("the processor", "opened", device.error());
        std::uint64_t number = 0;
        for (const proof::Check& check : proof::operator_checks(chosen_.seed, false)) {
            for (const proof::Check::Case& c : check.cases)
                print(check.name, c.shape,
                      c.values(**device, base::hash_pair(chosen_.seed, ++number)));
        }
    }

    // Of positions drawn from the seed.
    void angles() {
        base::Random random(chosen_.seed);
        for (const float rope_base : {10000.0F, 500000.0F, 1e6F}) {
            model::ModelConfig config;
            config.rope_dim = 128;
            config.rope_base = rope_base;
            const ops::RopeTable angles(config);
            std::vector<float> values, table(128);
            for (int i = 0; i < 1000; ++i) {
                angles.fill(static_cast<std::int32_t>(random.between(0, 1 << 17)), table);
                values.insert(values.end(), table.begin(), table.end());
            }
            print("angles", fmt::format("base {}", rope_base), values);
        }
    }

    // Every format of weights, every type of KV, every architecture.
    void models() {
        constexpr ops::KvType kKvTypes[] = {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32,
                                            ops::KvType::q8};
        std::vector<proof::ModelCase> cases;
        for (const model::TensorType type : proof::kAllTypes)
            cases.push_back({"small", type, kKvTypes[cases.size() % std::size(kKvTypes)]});
        for (const char* shape :
             {"tiny-qwen2", "tiny-qwen3", "tiny-mistral", "tiny-mixtral", "tiny-qwen3moe"})
            cases.push_back(
                {shape, model::TensorType::q8_0, kKvTypes[cases.size() % std::size(kKvTypes)]});
        for (const proof::ModelCase& c : cases) {
            const auto values = proof::model_values(
                [this](const model::ModelConfig& config) { return open(config); }, c,
                base::hash_pair(chosen_.seed, 0));
            print(fmt::format("model {}", c.shape),
                  fmt::format("{}, KV {}", model::tensor_type_info(c.weights)->name,
                              ops::to_string(c.kv_type)),
                  values);
        }
    }

    const Chosen& chosen_;
    bool good_ = true;
};

}  // namespace
}  // namespace helix::engine::device_values

int main(int argc, char** argv) {
    using namespace helix::engine::device_values;
    const auto chosen = chosen_by({argv, static_cast<std::size_t>(argc)});
    if (!chosen) {
        fmt::print(stderr, "usage: helix_device_values SEED [portable|avx2|avx512|amx]\n");
        return 2;
    }
    return Printer(*chosen).run() ? 0 : 1;
}
