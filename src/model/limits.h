#pragma once

#include <cstdint>

// The largest models that are read: several times those that exist, and small enough that no
// product of their sizes leaves 63 bits and nothing that is made of a size fills the memory.

namespace helix::model::limits {

inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxHidden = 1 << 20;
inline constexpr std::int64_t kMaxHeads = 1 << 14;
inline constexpr std::int64_t kMaxHeadDim = 1 << 14;
inline constexpr std::int64_t kMaxHeadsWidth = 1 << 22;  // all heads of a layer together
inline constexpr std::int64_t kMaxFeedForward = 1 << 22;
inline constexpr std::int64_t kMaxVocabulary = 1 << 24;
inline constexpr std::int64_t kMaxExperts = 1 << 14;
inline constexpr std::int64_t kMaxExpertGroups = 32;  // each has a bit where experts are chosen
inline constexpr std::int64_t kMaxContext = 1 << 24;
// Tensors that a model is made of. Each expert's tensors in each layer count.
inline constexpr std::int64_t kMaxTensors = 1 << 20;
inline constexpr std::int64_t kMaxShards = 4096;  // files that an index names
// Bytes before the tensors' data, and bytes of what is kept of them.
inline constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{256} << 20U;
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = std::uint64_t{32} << 20U;

}  // namespace helix::model::limits
