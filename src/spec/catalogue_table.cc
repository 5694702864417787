#include "spec/catalogue_table.h"

// Public datasheet figures, dense (without the doubling of structured sparsity). Prices are of 2025
// and rough.

namespace helix::spec {
namespace {

// Cards of 70 W (T4, L4) reach 0.42 of their figure, those with power to spare 0.78. Both are
// measured; the others lie between by their power. MI and Blackwell cards reach less of their
// 16-bit figure.
constexpr CatalogueRow kServerGpus[] = {
    // name, other names, GB, GB/s, TFLOP/s, int8, efficiency, USD/h, NIC Gbit/s
    {"T4", "", 16, 320, 65, 130, 0.42, 0.35, 10},
    {"L4", "", 24, 300, 121, 242, 0.42, 0.70, 10},
    {"L40", "", 48, 864, 181, 362, 0.70, 1.00, 25},
    {"L40S", "", 48, 864, 362, 733, 0.55, 1.20, 25},
    {"V100", "v10016 v100sxm2 v100pcie", 16, 900, 112, 0, 0.78, 0.90, 10},
    {"V100-32", "", 32, 900, 112, 0, 0.78, 1.10, 10},
    {"A10", "a10g", 24, 600, 125, 250, 0.50, 0.75, 10},
    {"A30", "", 24, 933, 165, 330, 0.55, 0.80, 25},
    {"A40", "", 48, 696, 150, 299, 0.65, 0.60, 25},
    {"A6000", "", 48, 768, 155, 310, 0.65, 0.60, 10},
    {"RTX 6000 Ada", "a6000ada", 48, 960, 364, 728, 0.55, 0.90, 10},
    {"A100-40", "a100 a100sxm40 a100pcie40", 40, 1555, 312, 624, 0.78, 1.50, 50},
    {"A100-80", "a100sxm80 a100pcie80", 80, 2039, 312, 624, 0.78, 2.00, 50},
    {"H100", "h100sxm h10080 h100sxm5", 80, 3350, 989, 1979, 0.65, 2.80, 100},
    {"H100 PCIe", "", 80, 2000, 756, 1513, 0.55, 2.30, 50},
    {"H100 NVL", "", 94, 3938, 835, 1671, 0.60, 2.60, 50},
    {"GH200", "", 96, 4000, 989, 1979, 0.65, 2.50, 100},
    {"H200", "h200sxm", 141, 4800, 989, 1979, 0.65, 3.60, 100},
    {"B200", "b200sxm", 180, 7700, 2250, 4500, 0.60, 5.50, 100},
    {"MI210", "", 64, 1638, 181, 181, 0.50, 1.00, 25},
    {"MI250", "", 128, 3277, 362, 362, 0.45, 1.40, 50},
    {"MI250X", "", 128, 3277, 383, 383, 0.45, 1.50, 50},
    {"MI300X", "", 192, 5300, 1307, 2615, 0.45, 2.50, 100},
    {"MI325X", "", 256, 6000, 1307, 2615, 0.45, 3.00, 100},
    {"Jetson AGX Orin", "orin jetsonorin", 64, 205, 42.5, 85, 0.42, 0.08, 10},
};

// For 16-bit factors with 32-bit sums the speed is half the figure that is advertised for GeForce.
constexpr CatalogueRow kDesktopGpus[] = {
    {"RTX 3060", "306012", 12, 360, 25.5, 102, 0.75, 0.08, 1},
    {"RTX 3060 Ti", "", 8, 448, 32.4, 130, 0.75, 0.08, 1},
    {"RTX 3070", "", 8, 448, 40.6, 163, 0.75, 0.10, 1},
    {"RTX 3070 Ti", "", 8, 608, 43.5, 174, 0.75, 0.11, 1},
    {"RTX 3080", "308010", 10, 760, 59.5, 238, 0.75, 0.15, 1},
    {"RTX 3080 Ti", "", 12, 912, 68, 273, 0.75, 0.17, 1},
    {"RTX 3090", "", 24, 936, 71, 284, 0.75, 0.22, 1},
    {"RTX 3090 Ti", "", 24, 1008, 80, 320, 0.75, 0.25, 1},
    {"RTX 4060", "", 8, 272, 30, 121, 0.75, 0.09, 1},
    {"RTX 4060 Ti", "4060ti8", 8, 288, 44, 177, 0.75, 0.11, 1},
    {"RTX 4060 Ti 16", "", 16, 288, 44, 177, 0.75, 0.13, 1},
    {"RTX 4070", "", 12, 504, 58, 233, 0.75, 0.16, 1},
    {"RTX 4070 Super", "", 12, 504, 71, 284, 0.75, 0.17, 1},
    {"RTX 4070 Ti", "", 12, 504, 80, 321, 0.75, 0.20, 1},
    {"RTX 4070 Ti Super", "", 16, 672, 88, 353, 0.75, 0.22, 1},
    {"RTX 4080", "", 16, 717, 97.5, 390, 0.75, 0.27, 1},
    {"RTX 4080 Super", "", 16, 736, 104, 418, 0.75, 0.27, 1},
    {"RTX 4090", "", 24, 1008, 165, 661, 0.75, 0.40, 1},
    {"RTX 5060", "", 8, 448, 38, 154, 0.75, 0.10, 1},
    {"RTX 5060 Ti", "5060ti8", 8, 448, 47, 190, 0.75, 0.12, 1},
    {"RTX 5060 Ti 16", "", 16, 448, 47, 190, 0.75, 0.14, 1},
    {"RTX 5070", "", 12, 672, 62, 247, 0.75, 0.18, 1},
    {"RTX 5070 Ti", "", 16, 896, 88, 351, 0.75, 0.25, 1},
    {"RTX 5080", "", 16, 960, 113, 450, 0.75, 0.35, 1},
    {"RTX 5090", "", 32, 1792, 210, 838, 0.75, 0.65, 1},
};

// The graphics processor in a common size. It shares the memory with the rest of the machine and
// may use three quarters of it.
constexpr CatalogueRow kApple[] = {
    {"Apple M1", "m1", 16, 68, 2.6, 0, 0.65, 0.03, 1},
    {"Apple M1 Pro", "m1pro", 32, 200, 5.2, 0, 0.65, 0.06, 1},
    {"Apple M1 Max", "m1max", 64, 400, 10.4, 0, 0.65, 0.09, 1},
    {"Apple M1 Ultra", "m1ultra", 128, 800, 21, 0, 0.60, 0.18, 10},
    {"Apple M2", "m2", 24, 100, 3.6, 0, 0.65, 0.04, 1},
    {"Apple M2 Pro", "m2pro", 32, 200, 6.8, 0, 0.65, 0.07, 1},
    {"Apple M2 Max", "m2max", 96, 400, 13.5, 0, 0.65, 0.12, 10},
    {"Apple M2 Ultra", "m2ultra", 192, 800, 27.2, 0, 0.60, 0.25, 10},
    {"Apple M3", "m3", 24, 100, 4.1, 0, 0.65, 0.05, 1},
    {"Apple M3 Pro", "m3pro", 36, 150, 7.4, 0, 0.65, 0.08, 1},
    {"Apple M3 Max", "m3max", 128, 400, 16.3, 0, 0.65, 0.18, 10},
    {"Apple M3 Ultra", "m3ultra", 512, 819, 32.5, 0, 0.60, 0.36, 10},
    {"Apple M4", "m4", 32, 120, 4.6, 0, 0.65, 0.04, 1},
    {"Apple M4 Pro", "m4pro", 64, 273, 9.2, 0, 0.65, 0.08, 10},
    {"Apple M4 Max", "m4max", 128, 546, 18.4, 0, 0.65, 0.14, 10},
};

constexpr CatalogueRow kCpus[] = {
    {"Desktop DDR4", "cpu ddr4 desktopcpu", 32, 51, 0.7, 0, 0.50, 0.03, 1},
    {"Desktop DDR5", "ddr5", 64, 90, 1.5, 0, 0.50, 0.05, 1},
    {"Workstation DDR5 4-channel", "threadripper", 128, 166, 3.0, 0, 0.50, 0.15, 10},
    {"Server 8-channel DDR4", "server8 server8channel", 256, 205, 3.5, 0, 0.50, 0.60, 10},
    {"Server 8-channel DDR5 AMX", "xeonamx", 256, 307, 40, 80, 0.40, 1.00, 25},
    {"Server 12-channel DDR5", "server12 server12channel", 384, 461, 9.0, 0, 0.50, 1.20, 25},
    {"Mini PC", "n100", 16, 38, 0.2, 0, 0.50, 0.008, 1},
    {"Raspberry Pi 5", "pi5 raspberrypi", 8, 17, 0.15, 0, 0.50, 0.004, 1},
};

}  // namespace

std::span<const CatalogueRow> server_gpu_rows() {
    return kServerGpus;
}

std::span<const CatalogueRow> desktop_gpu_rows() {
    return kDesktopGpus;
}

std::span<const CatalogueRow> apple_rows() {
    return kApple;
}

std::span<const CatalogueRow> cpu_rows() {
    return kCpus;
}

}  // namespace helix::spec
