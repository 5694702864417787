#include "spec/catalogue.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <vector>

#include "base/check.h"
#include "spec/catalogue_table.h"
#include "spec/near_names.h"

namespace helix::spec {
namespace {

using Kind = MachineType::Kind;

constexpr std::int32_t kMostDevices = 16;
constexpr double kPciBytesPerS =
    4e9;  // measured on the machines of two and four cards in data/paper/profiles

// Cards that come joined by NVLink or Infinity Fabric when there are several in a machine.
double peer_bandwidth(const std::string& folded) {
    const std::pair<const char*, double> linked[] = {
        {"v100", 80e9},  {"a100", 180e9}, {"h100", 280e9}, {"gh200", 280e9},
        {"h200", 280e9}, {"b200", 560e9}, {"mi2", 120e9},  {"mi3", 250e9}};
    if (folded == "h100pcie") return kPciBytesPerS;
    for (const auto& [prefix, bandwidth] : linked) {
        if (folded.starts_with(prefix)) return bandwidth;
    }
    return kPciBytesPerS;
}

MachineType type_of(const CatalogueRow& row, Kind kind) {
    MachineType type;
    type.name = row.name;
    type.kind = kind;
    const double share = kind == Kind::apple ? 0.75 : 1.0;
    type.memory_bytes = static_cast<std::int64_t>(row.memory_gb * share * 1e9);
    type.memory_bytes_per_s = row.memory_gb_per_s * 1e9;
    type.flops_per_s = row.tflops * 1e12;
    type.int8_ops_per_s = row.int8_tops * 1e12;
    type.nic_bytes_per_s = row.nic_gbit_per_s * 1e9 / 8;
    type.peer_bytes_per_s = peer_bandwidth(folded_name(row.name));
    type.price_usd_per_hour = row.price_usd_per_hour;
    type.compute_efficiency = row.compute_efficiency;
    type.memory_efficiency = kind == Kind::cpu ? 0.75 : kind == Kind::apple ? 0.8 : 0.85;
    type.layer_overhead_s = kind == Kind::cpu ? 20e-6 : 50e-6;
    return type;
}

struct Catalogue {
    std::vector<MachineType> types;
    std::map<std::string, std::size_t> by_name;  // folded names, all of them

    Catalogue() {
        add(server_gpu_rows(), Kind::server_gpu);
        add(desktop_gpu_rows(), Kind::desktop_gpu);
        add(apple_rows(), Kind::apple);
        add(cpu_rows(), Kind::cpu);
    }

    void add(std::span<const CatalogueRow> rows, Kind kind) {
        for (const CatalogueRow& row : rows) {
            add_name(folded_name(row.name));
            std::string other;
            for (const char c : std::string(row.other_names) + " ") {
                if (c != ' ') {
                    other += c;
                } else if (!other.empty()) {
                    add_name(other);
                    other.clear();
                }
            }
            types.push_back(type_of(row, kind));
        }
    }

    void add_name(const std::string& folded) {
        CHECK(by_name.emplace(folded, types.size()).second);
        // "rtx3090" is also known as "3090"; "applem1" has its other name "m1".
        if (folded.starts_with("rtx"))
            CHECK(by_name.emplace(folded.substr(3), types.size()).second);
    }
};

const Catalogue& catalogue() {
    static const Catalogue instance;
    return instance;
}

// Drops maker and brand before the name and "gb" behind it.
std::string plain(std::string folded) {
    constexpr std::string_view kBrands[] = {"nvidia", "geforce", "tesla",   "quadro",
                                            "amd",    "radeon",  "instinct"};
    bool again = true;
    while (again) {
        again = false;
        for (const std::string_view brand : kBrands) {
            if (!folded.starts_with(brand) || folded.size() == brand.size()) continue;
            folded.erase(0, brand.size());
            again = true;
        }
    }
    if (folded.ends_with("gb")) folded.resize(folded.size() - 2);
    return folded;
}

const MachineType* find_one(const std::string& folded) {
    const std::string name = plain(folded);
    for (const std::string& candidate : {name, name.starts_with("rtx") ? name.substr(3) : name}) {
        const auto found = catalogue().by_name.find(candidate);
        if (found != catalogue().by_name.end()) return &catalogue().types[found->second];
    }
    return nullptr;
}

// Splits "l4x2" into "l4" and 2.
std::optional<std::pair<std::string, std::int32_t>> several(const std::string& folded) {
    const std::size_t x = folded.rfind('x');
    if (x == std::string::npos || x == 0 || x + 1 == folded.size() || folded.size() - x > 3)
        return std::nullopt;
    std::int32_t count = 0;
    for (const char c : folded.substr(x + 1)) {
        if (c < '0' || c > '9') return std::nullopt;
        count = count * 10 + (c - '0');
    }
    return std::pair(folded.substr(0, x), count);
}

}  // namespace

const char* to_string(MachineType::Kind kind) {
    switch (kind) {
        case Kind::server_gpu:
            return "server GPU";
        case Kind::desktop_gpu:
            return "desktop GPU";
        case Kind::apple:
            return "Apple";
        case Kind::cpu:
            return "CPU";
    }
    return "?";
}

std::span<const MachineType> machine_catalogue() {
    return catalogue().types;
}

base::Result<MachineType> find_machine_type(std::string_view name) {
    const std::string folded = folded_name(name);
    if (const MachineType* type = find_one(folded)) return *type;
    if (const auto parts = several(folded)) {
        const auto& [one, count] = *parts;
        const MachineType* type = find_one(one);
        if (type != nullptr && (count < 1 || count > kMostDevices)) {
            return base::invalid(fmt::format("machine type \"{}\": a machine has 1 to {} cards",
                                             name, kMostDevices));
        }
        if (type != nullptr) {
            MachineType node = *type;
            if (count > 1) node.name += fmt::format("x{}", count);
            node.n_devices = count;
            node.memory_bytes *= count;
            node.memory_bytes_per_s *= count;
            node.flops_per_s *= count;
            node.int8_ops_per_s *= count;
            node.price_usd_per_hour *= count;
            return node;
        }
    }
    std::vector<std::string> known;
    for (const MachineType& type : catalogue().types) known.push_back(type.name);
    return base::invalid(
        fmt::format("machine type \"{}\" is not in the catalogue{}; `helix machines` lists them",
                    name, did_you_mean(name, known)));
}

}  // namespace helix::spec
