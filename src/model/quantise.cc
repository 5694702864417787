#include "model/quantise.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "base/check.h"
#include "base/machine.h"
#include "model/gguf_format.h"
#include "model/gguf_writer.h"
#include "model/model_config.h"
#include "model/quant/searched.h"

namespace helix::model {
namespace {

namespace fs = std::filesystem;

// Elements that each thread gets at a time.
constexpr std::uint64_t kEncodedPerThread = std::uint64_t{1} << 20U;
constexpr std::string_view kImportanceKeys = "quantize.imatrix.";

// Scales of blocks are binary16, as large as its greatest number.
bool holds(TensorType type, std::span<const float> values) {
    constexpr float kGreatestHalf = 65504.0F;
    if (type == TensorType::f32 || type == TensorType::bf16) return true;
    return std::all_of(values.begin(), values.end(),
                       [](float value) { return std::fabs(value) <= kGreatestHalf; });
}

struct RowSums {
    double errors = 0;
    double squares = 0;
};

// The rows of a tensor from one type to another.
struct RowEncoder {
    const PlannedTensor& tensor;
    std::span<const std::byte> stored;
    std::span<const float> weights;  // [matrices, columns], or empty: all one
    std::uint64_t rows_per_matrix = 1;

    std::uint64_t columns() const { return static_cast<std::uint64_t>(tensor.info.row_length()); }
    std::uint64_t rows() const { return static_cast<std::uint64_t>(tensor.info.rows()); }
    std::uint64_t row_bytes() const { return tensor.bytes / rows(); }

    // Rows [begin, end) to out, and their sums to sums.
    void encode(std::uint64_t begin, std::uint64_t end, std::byte* out, RowSums* sums) const {
        const std::uint64_t from_bytes = tensor.info.bytes / rows();
        std::vector<float> values(columns());
        std::vector<float> kept(columns());
        const std::vector<float> ones(weights.empty() ? columns() : 0, 1.0F);
        for (std::uint64_t row = begin; row < end; ++row, out += row_bytes(), ++sums) {
            dequantize_row(tensor.info.type, stored.subspan(row * from_bytes, from_bytes),
                           values.data());
            const std::span<const float> of_row =
                weights.empty() ? std::span<const float>(ones)
                                : weights.subspan(row / rows_per_matrix * columns(), columns());
            for (std::size_t i = 0; i < values.size(); ++i)
                sums->squares += double{of_row[i]} * double{values[i]} * double{values[i]};
            if (!std::isfinite(sums->squares)) return;
            if (!holds(tensor.to, values)) {
                sums->errors = std::numeric_limits<double>::infinity();
                return;
            }
            if (quant::find_search(tensor.to) != nullptr) {
                sums->errors = quant::search_row(tensor.to, values, of_row, out);
                continue;
            }
            quantize_row(tensor.to, values, out);
            dequantize_row(tensor.to, {out, row_bytes()}, kept.data());
            for (std::size_t i = 0; i < values.size(); ++i) {
                const double off = double{values[i]} - double{kept[i]};
                sums->errors += double{of_row[i]} * off * off;
            }
        }
    }

    void encode_on(unsigned threads, std::uint64_t begin, std::uint64_t end, std::byte* out,
                   RowSums* sums) const {
        std::vector<std::thread> pool;
        const std::uint64_t each = (end - begin + threads - 1) / threads;
        for (std::uint64_t from = begin; from < end; from += each) {
            const std::uint64_t to = std::min(end, from + each);
            std::byte* at = out + (from - begin) * row_bytes();
            RowSums* its = sums + (from - begin);
            if (to == end) {
                encode(from, to, at, its);
            } else {
                pool.emplace_back([this, from, to, at, its] { encode(from, to, at, its); });
            }
        }
        for (std::thread& thread : pool) thread.join();
    }
};

class Quantiser {
  public:
    Quantiser(WeightSource& source, const QuantisePlan& plan, const QuantiseRun& run,
              const QuantiseProgress& progress)
        : source_(source), plan_(plan), run_(run), progress_(progress) {
        for (const PlannedTensor& tensor : plan.tensors) total_ += elements(tensor);
    }

    base::Result<QuantiseReport> quantise() {
        TRY_VOID(check_output());
        TRY_VOID(find_weights());
        GgufBuilder builder(static_cast<std::uint32_t>(source_.file().alignment()));
        set_metadata(builder);
        for (const PlannedTensor& tensor : plan_.tensors)
            builder.add_tensor(tensor.info.name, tensor.to, tensor.info.shape);
        TRY(out_, GgufOutput::create(run_.output, builder));
        report_.file_bytes = builder.header().size() + builder.data_bytes();
        for (const PlannedTensor& tensor : plan_.tensors) TRY_VOID(write(tensor));
        TRY_VOID(out_->finish());
        return std::move(report_);
    }

  private:
    static std::uint64_t elements(const PlannedTensor& tensor) {
        return static_cast<std::uint64_t>(tensor.info.row_length() * tensor.info.rows());
    }
    static std::int64_t matrices_of(const TensorInfo& info) {
        return info.shape.size() > 2 ? info.rows() / info.shape[1] : 1;
    }

    base::Status check_output() const {
        std::error_code error;
        if (!fs::exists(run_.output, error)) return base::Ok{};
        if (fs::equivalent(run_.output, source_.file().label(), error))
            return base::invalid(run_.output + ": is the model itself");
        const auto stamps = source_.stamps();
        TRY(const auto there, base::RegularFile::open(run_.output));
        TRY(const base::FileStamp stamp, there->stamp());
        for (const base::FileStamp& one : stamps.ok() ? *stamps : std::vector<base::FileStamp>()) {
            if (one.device == stamp.device && one.inode == stamp.inode)
                return base::invalid(run_.output + ": is a file of the model itself");
        }
        if (run_.replace) return base::Ok{};
        return base::invalid(run_.output + ": is there already; --force writes over it");
    }

    // Before anything is written: an importance matrix of another model says so here.
    base::Status find_weights() {
        if (run_.importance == nullptr) return base::Ok{};
        bool any = false;
        for (const PlannedTensor& tensor : plan_.tensors) {
            if (!tensor.changes()) continue;
            const auto found = run_.importance->tensors.find(tensor.info.name);
            if (found == run_.importance->tensors.end()) {
                // Nothing is multiplied by an embedding that is no head.
                if (tensor.info.name != "token_embd.weight" && tensor.info.name != kLayerInputTable)
                    report_.unweighed.push_back(tensor.info.name);
                continue;
            }
            any = true;
            TRY_VOID(weights_of(tensor.info));
        }
        if (any || report_.unweighed.empty()) return base::Ok{};
        return base::invalid(run_.importance_path + ": names none of the model's matrices");
    }

    base::Result<std::vector<float>> weights_of(const TensorInfo& info) const {
        if (run_.importance == nullptr) return std::vector<float>();
        const auto found = run_.importance->tensors.find(info.name);
        if (found == run_.importance->tensors.end()) return std::vector<float>();
        auto weights = error_weights(found->second, matrices_of(info), info.row_length());
        if (weights.ok()) return weights;
        return base::invalid(fmt::format("{}: tensor {}: {}", run_.importance_path, info.name,
                                         weights.error().message));
    }

    void set_metadata(GgufBuilder& builder) const {
        std::map<std::string, std::uint32_t> ours{{"general.file_type", plan_.file_type},
                                                  {"general.quantization_version", 2}};
        for (const RawEntry& entry : source_.file().raw_metadata()) {
            // The builder has written the alignment.
            if (entry.key == gguf::kAlignmentKey || entry.key.starts_with(kImportanceKeys))
                continue;
            if (const auto own = ours.extract(entry.key)) {
                builder.set(own.key(), own.mapped());
            } else {
                builder.set_raw(entry.key, {entry.value.begin(), entry.value.end()});
            }
        }
        for (const auto& [key, value] : ours) builder.set(key, value);
        if (run_.importance == nullptr) return;
        const auto key = [](const char* rest) { return std::string(kImportanceKeys) + rest; };
        builder.set(key("file"), fs::path(run_.importance_path).filename().string());
        if (!run_.importance->datasets.empty())
            builder.set(key("dataset"), run_.importance->datasets.front());
        builder.set(key("entries_count"),
                    static_cast<std::int32_t>(run_.importance->tensors.size()));
        builder.set(key("chunks_count"), static_cast<std::int32_t>(run_.importance->chunks));
    }

    base::Status write(const PlannedTensor& tensor) {
        TRY(const std::span<const std::byte> stored, source_.tensor(tensor.info.name));
        base::Status written = base::Ok{};
        if (tensor.changes()) {
            written = encode(tensor, stored);
        } else {
            written = out_->append(stored);
            tell(elements(tensor));
        }
        source_.release(tensor.info.name);
        return written;
    }

    base::Status encode(const PlannedTensor& tensor, std::span<const std::byte> stored) {
        TRY(const std::vector<float> weights, weights_of(tensor.info));
        const RowEncoder rows{
            tensor, stored, weights,
            static_cast<std::uint64_t>(tensor.info.rows() / matrices_of(tensor.info))};
        const unsigned threads = run_.threads > 0
                                     ? run_.threads
                                     : static_cast<unsigned>(std::max(1, base::usable_threads()));
        const std::uint64_t step =
            std::max<std::uint64_t>(1, kEncodedPerThread * threads / rows.columns());
        std::vector<std::byte> batch(std::min(step, rows.rows()) * rows.row_bytes());
        RowSums all;
        for (std::uint64_t begin = 0; begin < rows.rows(); begin += step) {
            const std::uint64_t end = std::min(rows.rows(), begin + step);
            std::vector<RowSums> sums(end - begin);
            rows.encode_on(threads, begin, end, batch.data(), sums.data());
            for (const RowSums& row : sums) {
                all.errors += row.errors;
                all.squares += row.squares;
            }
            TRY_VOID(check_sums(tensor, all));
            TRY_VOID(out_->append(std::span(batch).first((end - begin) * rows.row_bytes())));
            tell((end - begin) * rows.columns());
        }
        const double share = all.squares > 0 ? all.errors / all.squares : 0;
        report_.tensors.push_back(
            {tensor.info.name, tensor.to, std::sqrt(share), !weights.empty()});
        return base::Ok{};
    }

    base::Status check_sums(const PlannedTensor& tensor, const RowSums& sums) const {
        if (std::isfinite(sums.squares) && std::isfinite(sums.errors)) return base::Ok{};
        const std::string problem = std::isfinite(sums.squares)
                                        ? fmt::format("has values that are too large for {}",
                                                      tensor_type_info(tensor.to)->name)
                                        : "has values that are no numbers";
        return base::invalid(
            fmt::format("{}: tensor {}: {}", source_.file().label(), tensor.info.name, problem));
    }

    void tell(std::uint64_t elements) {
        done_ += elements;
        if (progress_) progress_(done_, total_);
    }

    WeightSource& source_;
    const QuantisePlan& plan_;
    const QuantiseRun& run_;
    const QuantiseProgress& progress_;
    std::unique_ptr<GgufOutput> out_;
    QuantiseReport report_;
    std::uint64_t done_ = 0;
    std::uint64_t total_ = 0;
};

}  // namespace

base::Result<QuantiseReport> quantise_model(WeightSource& source, const QuantisePlan& plan,
                                            const QuantiseRun& run,
                                            const QuantiseProgress& progress) {
    return Quantiser(source, plan, run, progress).quantise();
}

}  // namespace helix::model
