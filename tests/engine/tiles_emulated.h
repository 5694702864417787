// A tile unit in plain C++: what Intel's manual says of LDTILECFG, TILEZERO, TILELOADD, TILESTORED,
// TDPBSSD and TILERELEASE, faults included. Included in a variant's namespace, in place of
// tiles_amx.h.

class EmulatedTiles {
  public:
    static inline std::int64_t products = 0;

    void configure(int columns) {
        config_ = tile_config(columns);
        CHECK(config_.palette == 1 && config_.start_row == 0);
        for (const std::uint8_t byte : config_.reserved) CHECK(byte == 0);
        for (std::size_t t = 0; t < 16; ++t) {
            CHECK(config_.row_bytes[t] <= (t < 8 ? 64 : 0) && config_.rows[t] <= (t < 8 ? 16 : 0));
            CHECK((config_.row_bytes[t] == 0) == (config_.rows[t] == 0));
        }
        std::memset(tile_, 0, sizeof tile_);
        configured_ = true;
    }
    void release() {
        CHECK(configured_);
        configured_ = false;
    }
    template <int kTile>
    void zero() {
        check<kTile>();
        std::memset(tile_[kTile], 0, sizeof tile_[kTile]);
    }
    // Bytes and rows beyond the tile's shape become zero.
    template <int kTile>
    void load(const void* from, std::int64_t stride) {
        zero<kTile>();
        const auto* row = static_cast<const std::byte*>(from);
        for (std::size_t r = 0; r < config_.rows[kTile]; ++r, row += stride)
            std::memcpy(tile_[kTile][r], row, config_.row_bytes[kTile]);
    }
    template <int kTile>
    void store(void* to, std::int64_t stride) {
        check<kTile>();
        auto* row = static_cast<std::byte*>(to);
        for (std::size_t r = 0; r < config_.rows[kTile]; ++r, row += stride)
            std::memcpy(row, tile_[kTile][r], config_.row_bytes[kTile]);
    }
    template <int kSum, int kX, int kW>
    void add_product() {
        add_products<kSum, kX, kW, std::int8_t>();
    }

  protected:
    template <int kSum, int kX, int kW, class Weight>
    void add_products() {
        check<kSum>();
        check<kX>();
        check<kW>();
        static_assert(kSum != kX && kX != kW && kSum != kW);
        CHECK(config_.rows[kSum] == config_.rows[kX]);
        CHECK(config_.row_bytes[kSum] == config_.row_bytes[kW]);
        CHECK(config_.row_bytes[kX] == 4 * config_.rows[kW]);
        CHECK(config_.row_bytes[kX] % 4 == 0 && config_.row_bytes[kW] % 4 == 0);
        ++products;
        for (std::size_t m = 0; m < config_.rows[kSum]; ++m) {
            for (std::size_t k = 0; k < config_.rows[kW]; ++k) {
                for (std::size_t n = 0; n < config_.row_bytes[kSum] / 4U; ++n)
                    add_four<Weight>(tile_[kSum][m] + 4 * n, tile_[kX][m] + 4 * k,
                                     tile_[kW][k] + 4 * n);
            }
        }
    }

  private:
    template <int kTile>
    void check() const {
        CHECK(configured_ && config_.rows[kTile] > 0);
    }
    template <class Weight>
    static void add_four(std::uint8_t* at, const std::uint8_t* x, const std::uint8_t* w) {
        std::uint32_t sum = 0;
        std::memcpy(&sum, at, sizeof sum);
        for (std::size_t j = 0; j < 4; ++j) {
            const int product = static_cast<std::int8_t>(x[j]) * static_cast<Weight>(w[j]);
            sum += static_cast<std::uint32_t>(product);  // wraps round, does not saturate
        }
        std::memcpy(at, &sum, sizeof sum);
    }

    TileConfig config_;
    bool configured_ = false;
    std::uint8_t tile_[8][16][64];
};
