#include "engine/input_squares.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "engine/prompt_runner.h"

namespace helix::engine {
namespace {

class SquareCounter final : public InputWatcher {
  public:
    // Where several matrices are of one tensor, as with rows of queries, keys and values together,
    // the same rows come to all of them; the first one counts.
    void matrix(const Matrix& matrix, std::string_view tensor) override {
        const auto [at, is_first] = sums_.try_emplace(std::string(tensor));
        if (!is_first) return;
        const MatrixShape& shape = matrix.shape();
        at->second.squares.resize(base::size_of(shape.count * shape.cols));
        at->second.counts.resize(base::size_of(shape.count));
        of_matrix_.emplace(&matrix, &at->second);
    }

    void rows(const Matrix& matrix, std::int64_t expert, std::span<const float> rows) override {
        const auto found = of_matrix_.find(&matrix);
        if (found == of_matrix_.end()) return;
        const std::size_t cols = base::size_of(matrix.shape().cols);
        double* squares = found->second->squares.data() + base::at(expert) * cols;
        found->second->counts[base::at(expert)] += static_cast<std::int64_t>(rows.size() / cols);
        for (std::size_t first = 0; first < rows.size(); first += cols) {
            for (std::size_t c = 0; c < cols; ++c) {
                const double value = rows[first + c];
                squares[c] += value * value;
            }
        }
    }

    // Those that a row has come to.
    std::map<std::string, model::InputSquares, std::less<>> take() const {
        std::map<std::string, model::InputSquares, std::less<>> all;
        for (const auto& [name, sums] : sums_) {
            const auto& counts = sums.counts;
            if (std::all_of(counts.begin(), counts.end(), [](auto n) { return n == 0; })) continue;
            model::InputSquares& to = all[name];
            for (const double square : sums.squares) to.sums.push_back(static_cast<float>(square));
            for (const std::int64_t count : counts) to.counts.push_back(static_cast<float>(count));
        }
        return all;
    }

  private:
    struct Sums {
        std::vector<double> squares;  // [matrices, columns]
        std::vector<std::int64_t> counts;
    };
    std::map<std::string, Sums, std::less<>> sums_;
    std::map<const Matrix*, Sums*> of_matrix_;
};

}  // namespace

base::Result<model::ImportanceMatrix> measure_input_squares(
    std::shared_ptr<model::WeightSource> weights,
    const std::vector<std::vector<spec::Token>>& texts, const InputSquaresOptions& options) {
    std::size_t longest = 1;
    std::uint64_t total = 0;
    for (const auto& text : texts) {
        longest = std::max(longest, text.size());
        total += text.size();
    }
    SquareCounter counter;
    CpuDeviceOptions device;
    device.threads = options.threads;
    device.watcher = &counter;
    TRY(const auto runner,
        PromptRunner::open(std::move(weights), static_cast<std::int32_t>(longest), device));
    std::uint64_t done = 0;
    for (const auto& text : texts) {
        TRY_VOID(runner->run(text, 0));
        done += text.size();
        if (options.on_progress) options.on_progress(done, total);
    }
    model::ImportanceMatrix made;
    made.tensors = counter.take();
    made.chunks = std::ssize(texts);
    made.chunk_tokens = static_cast<std::int64_t>(longest);
    return made;
}

}  // namespace helix::engine
