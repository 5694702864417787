#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/backend/backend.h"
#include "engine/backend/provider.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "node/machine_profile.h"
#include "spec/model_shape.h"
#include "spec/profile_writer.h"

// How fast this machine runs a model's layers and how many it holds, as tables that the planner and
// the simulator read: what `helix profile` does.

namespace helix::node {

struct TableQuestion {
    std::string model;  // a GGUF file, or a folder of safetensors
    model::WeightOptions weights;
    std::string type;  // what this kind of machine is called
    std::string name;  // what the model is called; "": as its file says
    std::shared_ptr<engine::BackendProvider> backend;  // what is measured
    std::int32_t threads = 0;                          // of this machine; 0: one for each core
    std::string kv_type = "f16";
    std::int64_t memory_bytes = 0;  // for weights and KV cache; 0: what the device offers
    // What is measured; layers and pages are chosen by the model and the memory.
    ProfileRequest request;
};

// A model's layers on an engine, ready to be measured.
struct TableSubject {
    std::string type;
    spec::ModelSpec spec;
    model::ModelConfig config;
    ProfileRequest request;
    std::int64_t page_bytes = 0;
    std::int64_t memory_bytes = 0;  // that a worker would use
    double packed_share = 1;  // weights as the engine keeps them, as a share of what is stored
    std::unique_ptr<engine::Backend> backend;
};
base::Result<TableSubject> prepare_tables(TableQuestion question);

struct MachineTables {
    spec::MeasuredTables tables;
    MachineProfile profile;
};
// on_progress: 0 to 1. Error unavailable: the memory cannot hold one layer and its KV.
base::Result<MachineTables> measure_tables(TableSubject& subject,
                                           std::function<void(double share)> on_progress);

// What was measured, for people or as one JSON object; output: the folder that has the tables.
std::string tables_text(const TableSubject& subject, const MachineTables& measured,
                        const std::string& output);
std::string tables_json(const TableSubject& subject, const MachineTables& measured,
                        const std::string& output);

}  // namespace helix::node
