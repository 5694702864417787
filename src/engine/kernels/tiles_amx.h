// The tile unit of a CPU with AMX-INT8. Included in a variant's namespace (see kernels_amx.cc).
//
// As assembly and not as the compilers' intrinsics: g++ 12 takes the number of a tile as a literal
// only, and its loads do not tell the compiler that they read memory.

class AmxTiles {
  public:
    // Products of so many columns, see tile_config().
    HELIX_INLINE void configure(int columns) {
        const TileConfig config = tile_config(columns);
        asm volatile("ldtilecfg %0" ::"m"(config));
    }
    // After the last product: a thread without tiles in use is cheaper to switch.
    HELIX_INLINE void release() { asm volatile("tilerelease"); }

    template <int kTile>
    HELIX_INLINE void zero() {
        asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
    }
    // The tile's rows from `stride` bytes apart.
    template <int kTile>
    HELIX_INLINE void load(const void* from, std::int64_t stride) {
        asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(from), "r"(stride)
                     : "memory");
    }
    template <int kTile>
    HELIX_INLINE void store(void* to, std::int64_t stride) {
        asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(kTile), "r"(to), "r"(stride)
                     : "memory");
    }
    // sums[r][lane] += sum over g and j < 4 of x[r][4 g + j] * w[g][4 lane + j], all bytes signed.
    template <int kSum, int kX, int kW>
    HELIX_INLINE void add_product() {
        asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kX), "i"(kW));
    }
};
