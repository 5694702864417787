#pragma once

#include <cstdint>

// Numbers of the GGUF file format that its reader and its writer share.

namespace helix::model::gguf {

inline constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
inline constexpr std::uint32_t kWrittenVersion = 3;
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr char kAlignmentKey[] = "general.alignment";
inline constexpr std::uint32_t kMaxDimensions = 4;

enum class ValueType : std::uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

}  // namespace helix::model::gguf
