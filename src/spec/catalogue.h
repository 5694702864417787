#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace helix::spec {

// What public datasheets say of a machine type. A node with several cards (tensor parallel) is one
// machine: its memory, bandwidth and speed are the sums over the cards, and every layer pays for
// two all-reduces.
struct MachineType {
    enum class Kind { server_gpu, desktop_gpu, apple, cpu };

    std::string name;  // as people write it: "A100-40", "RTX 4090", "L4x2"
    Kind kind = Kind::server_gpu;
    std::int64_t memory_bytes = 0;  // for weights and KV; Apple: three quarters of what is built in
    double memory_bytes_per_s = 0;
    double flops_per_s = 0;       // dense, 16-bit factors, 32-bit sums
    double int8_ops_per_s = 0;    // dense; 0: no faster than 16 bits
    double nic_bytes_per_s = 0;   // what such machines usually have, each way
    double peer_bytes_per_s = 0;  // what an all-reduce between its cards reaches
    // Roughly the rent in 2025; for desktops, Macs and the like the purchase price spread over
    // three years. Only --advise uses it, to compare gains; give your own where it matters.
    double price_usd_per_hour = 0;
    std::int32_t n_devices = 1;
    // The shares of the datasheet figures that a layer reaches. They are calibrated for T4, L4,
    // V100 and A100 on data/paper/profiles (roofline_cost.h) and estimated for the others by
    // likeness.
    double memory_efficiency = 0.85;
    double compute_efficiency = 0.6;
    double layer_overhead_s = 50e-6;  // for starting the kernels of a layer
};

const char* to_string(MachineType::Kind kind);

// The built-in types, one card each, by family.
std::span<const MachineType> machine_catalogue();

// Finds a type by its name. Upper and lower case, spaces, '-' and '_' do not matter, nor "NVIDIA",
// "GeForce", "RTX" and the like before the name. "A100" is the 40 GB card, "H100" the SXM one.
// "L4x2" is a machine of two L4 (1 to 16 cards). Error: an unknown type, with names that are near.
base::Result<MachineType> find_machine_type(std::string_view name);

}  // namespace helix::spec
