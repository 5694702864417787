#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch_line.h"
#include "store/job_store.h"

namespace helix::api {

struct BatchLimits {
    std::int64_t max_lines = 50'000;
    std::size_t max_line_bytes = std::size_t{4} << 20U;
    std::size_t max_problems = 100;  // more are not looked for
    RequestLimits request;           // of each line
};

// Reads a batch's input file a part at a time, so that others who wait for the store get their
// turn. Every line must be a request to the batch's endpoint with a custom id of its own, all for
// one model that is served. What its body asks for is judged when it runs.
class BatchValidator {
  public:
    using Serves = std::function<bool(const std::string& model)>;
    BatchValidator(const store::BatchRecord& batch, BatchLimits limits, Serves serves)
        : file_(batch.input_file),
          endpoint_(batch.endpoint),
          limits_(limits),
          serves_(std::move(serves)) {}

    // Reads one more part; true if that was all.
    base::Result<bool> step(const store::JobStore& store);

    const std::vector<BatchProblem>& problems() const { return problems_; }
    const std::vector<store::BatchLine>& lines() const { return lines_; }
    const std::string& model() const { return model_; }

  private:
    void take_lines();
    void take_line(std::string_view text);
    void check_model(const std::string& model);
    void problem(BatchProblem problem);
    bool enough() const {
        return problems_.size() >= limits_.max_problems ||
               static_cast<std::int64_t>(lines_.size()) > limits_.max_lines;
    }
    void finish();

    std::string file_;
    std::string endpoint_;
    BatchLimits limits_;
    Serves serves_;
    std::string text_;         // read, not taken; begins a line
    std::int64_t offset_ = 0;  // of text_ in the file
    std::int64_t line_ = 0;    // of the last line that was taken
    bool skipping_ = false;    // text_ is the rest of a line that is too long
    std::vector<store::BatchLine> lines_;
    std::set<std::string> custom_ids_;
    std::string model_;
    std::vector<BatchProblem> problems_;
};

}  // namespace helix::api
