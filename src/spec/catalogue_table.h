#pragma once

#include "spec/catalogue.h"

namespace helix::spec {

// A row of the catalogue in the units of datasheets; catalogue.cc makes MachineType of it.
struct CatalogueRow {
    const char* name;
    const char* other_names;  // folded (near_names.h), separated by spaces
    double memory_gb;         // 1e9 bytes
    double memory_gb_per_s;
    double tflops;
    double int8_tops;
    double compute_efficiency;
    double price_usd_per_hour;
    double nic_gbit_per_s;
};

std::span<const CatalogueRow> server_gpu_rows();
std::span<const CatalogueRow> desktop_gpu_rows();
std::span<const CatalogueRow> apple_rows();
std::span<const CatalogueRow> cpu_rows();

}  // namespace helix::spec
