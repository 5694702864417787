#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/devices.h"

// What `helix devices --prove` and `--measure` share.

namespace helix::cli {

struct DevicesArguments {
    bool json = false;
    bool prove = false;
    bool measure = false;
    bool full = false;   // with measure: operators one by one
    bool quick = false;  // little of everything
    std::string device;  // "" = those that are no software; where there are none, those that are
    std::string seed;    // "" = of the clock
    std::string budget = "2min";  // of full
    std::string like;             // a type of the catalogue
    std::string record;           // a file that gets a line of JSON for each device
};

// invalid: --device names no device, or several. not_found: it names one that is not there.
base::Result<std::vector<engine::NamedDevice>> chosen_devices(const DevicesArguments& arguments,
                                                              bool with_cpu);
// Of --seed.
base::Result<std::uint64_t> chosen_seed(const DevicesArguments& arguments);
// What every record begins with: when, with what, on what.
nlohmann::ordered_json record_head(const char* kind, const engine::NamedDevice& device,
                                   std::uint64_t seed);
std::string date_now();  // "2026-11-25", UTC
// Appends it to the file of --record, if there is one. io: names the file.
base::Status write_record(const DevicesArguments& arguments, const nlohmann::ordered_json& record);
// What drivers say of themselves need not be UTF-8.
std::string json_line(const nlohmann::ordered_json& json, int indent);

// `helix devices --prove`. unavailable: a device computes wrongly; names device, operator and
// shape.
base::Status prove_devices(const DevicesArguments& arguments);
// `helix devices --measure`.
base::Status measure_devices(const DevicesArguments& arguments);

}  // namespace helix::cli
