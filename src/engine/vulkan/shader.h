#pragma once

#include <cstdint>
#include <span>

namespace helix::engine {

// A compute shader as SPIR-V, compiled at build time from shaders/NAME.comp
// (cmake/helix_shaders.cmake).
struct Shader {
    const char* name;
    std::span<const std::uint32_t> fused;  // for devices whose fma rounds once
    // For others that have doubles; empty in what is for matrix cores, whose devices are no such.
    std::span<const std::uint32_t> exact;
};

namespace shaders {
// Every shader there is.
std::span<const Shader* const> all();
}  // namespace shaders

}  // namespace helix::engine
