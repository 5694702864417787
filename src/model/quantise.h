#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/importance.h"
#include "model/quantise_plan.h"
#include "model/weight_source.h"

// Writes a model with other tensor types: what `helix model quantize` does.

namespace helix::model {

struct QuantiseRun {
    std::string output;
    bool replace = false;         // a file that is there
    unsigned threads = 0;         // 0: one for each core; does not change the file
    std::string importance_path;  // written into the file, without folders
    // By which the errors of a matrix' columns are weighed; null: evenly.
    const ImportanceMatrix* importance = nullptr;
};

struct QuantisedTensor {
    std::string name;
    TensorType type = TensorType::f32;
    // The root of the sum of squared errors over that of squared values, weighed.
    double error = 0;
    bool weighed = false;  // by an importance matrix
};

struct QuantiseReport {
    std::vector<QuantisedTensor> tensors;  // those that changed
    std::uint64_t file_bytes = 0;
    // Matrices that the importance matrix says nothing of, but for the embedding: their errors were
    // weighed evenly.
    std::vector<std::string> unweighed;
};

// Told how many elements are done, and of how many.
using QuantiseProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// The same file for the same model, plan and importance matrix, on any number of threads. It
// appears under its name when it is whole. Errors: it is there, or is the model's own; an
// importance matrix of another model; values that are no numbers, or too large for the type, which
// name the tensor. progress may be empty.
base::Result<QuantiseReport> quantise_model(WeightSource& source, const QuantisePlan& plan,
                                            const QuantiseRun& run,
                                            const QuantiseProgress& progress = {});

}  // namespace helix::model
