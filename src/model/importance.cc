#include "model/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/limits.h"

namespace helix::model {
namespace {

constexpr std::string_view kSumsEnding = ".in_sum2";
constexpr std::string_view kCountsEnding = ".counts";
constexpr std::uint64_t kMostImportanceBytes = std::uint64_t{4} << 30U;
constexpr double kSharedRows = 8;
constexpr float kLeastShare = 1e-3F;

bool all_counts(std::span<const float> values) {
    return std::all_of(values.begin(), values.end(),
                       [](float value) { return std::isfinite(value) && value >= 0; });
}

base::Result<std::vector<float>> read_floats(const GgufFile& file, const TensorInfo& info) {
    const auto wrong = [&](const char* what) {
        return base::invalid(fmt::format("{}: tensor {}: {}", file.label(), info.name, what));
    };
    if (info.type != TensorType::f32) return wrong("expected f32");
    TRY(const std::vector<std::byte> bytes, file.read(info));
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    if (!all_counts(values)) return wrong("has numbers that are no sums of squares or counts");
    return values;
}

base::Result<ImportanceMatrix> read_gguf(const std::string& path) {
    TRY(const auto file, GgufFile::open(path));
    if (const auto kind = file->get_string("general.type"); !kind.ok() || *kind != "imatrix") {
        return base::invalid(path + ": general.type is not \"imatrix\": no importance matrix");
    }
    ImportanceMatrix read;
    for (const TensorInfo& info : file->tensors()) {
        if (!info.name.ends_with(kSumsEnding)) continue;
        const std::string name = info.name.substr(0, info.name.size() - kSumsEnding.size());
        const TensorInfo* counts = file->find_tensor(name + std::string(kCountsEnding));
        if (counts == nullptr) {
            return base::invalid(
                fmt::format("{}: there is no tensor {}{}", path, name, kCountsEnding));
        }
        InputSquares squares;
        TRY(squares.sums, read_floats(*file, info));
        TRY(squares.counts, read_floats(*file, *counts));
        read.tensors.emplace(name, std::move(squares));
    }
    const auto number = [&](const char* key) {
        const auto value = file->get_int(key);
        return value.ok() ? *value : 0;
    };
    read.chunks = number("imatrix.chunk_count");
    read.chunk_tokens = number("imatrix.chunk_size");
    const MetaValue* names = file->find("imatrix.datasets");
    if (const auto* array = names == nullptr ? nullptr : std::get_if<MetaArray>(names)) {
        if (const auto* texts = std::get_if<std::vector<std::string>>(array))
            read.datasets = *texts;
    }
    return read;
}

// What a file of the old format says next.
class OldReader {
  public:
    OldReader(const std::string& path, std::string_view rest) : path_(path), rest_(rest) {}

    bool at_end() const { return rest_.empty(); }
    base::Error fail() const {
        return base::invalid(path_ +
                             ": is neither GGUF nor an importance matrix of the old format");
    }
    base::Status take(void* to, std::size_t bytes) {
        if (bytes > rest_.size()) return fail();
        if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
        rest_.remove_prefix(bytes);
        return base::Ok{};
    }
    base::Result<std::int32_t> number() {
        std::int32_t value = 0;
        TRY_VOID(take(&value, sizeof value));
        if (value < 0) return fail();
        return value;
    }
    base::Result<std::string> text() {
        TRY(const std::int32_t length, number());
        if (static_cast<std::size_t>(length) > rest_.size()) return fail();
        std::string value(static_cast<std::size_t>(length), '\0');
        TRY_VOID(take(value.data(), value.size()));
        return value;
    }
    base::Result<std::vector<float>> floats() {
        TRY(const std::int32_t count, number());
        if (static_cast<std::size_t>(count) > rest_.size() / sizeof(float)) return fail();
        std::vector<float> values(static_cast<std::size_t>(count));
        TRY_VOID(take(values.data(), values.size() * sizeof(float)));
        if (!all_counts(values)) return fail();
        return values;
    }

  private:
    const std::string& path_;
    std::string_view rest_;
};

// A count of entries; of each its name, how often it was called and its sums; then, in newer files,
// the last call and the text's name.
base::Result<ImportanceMatrix> read_old(const std::string& path, std::string_view content) {
    OldReader reader(path, content);
    ImportanceMatrix read;
    TRY(const std::int32_t entries, reader.number());
    if (entries == 0 || entries > limits::kMaxTensors) return reader.fail();
    for (std::int32_t i = 0; i < entries; ++i) {
        TRY(std::string name, reader.text());
        TRY(const std::int32_t calls, reader.number());
        InputSquares squares;
        TRY(squares.sums, reader.floats());
        squares.counts = {static_cast<float>(calls)};
        if (!read.tensors.emplace(std::move(name), std::move(squares)).second) return reader.fail();
    }
    if (reader.at_end()) return read;
    TRY(read.chunks, reader.number());
    if (reader.at_end()) return read;
    TRY(std::string dataset, reader.text());
    read.datasets.push_back(std::move(dataset));
    return read;
}

}  // namespace

base::Result<ImportanceMatrix> read_importance(const std::string& path) {
    TRY(const auto file, base::RegularFile::open(path));
    char magic[4] = {};
    TRY(const std::size_t there, file->read_some(0, std::as_writable_bytes(std::span(magic))));
    ImportanceMatrix read;
    if (there == sizeof magic && std::memcmp(magic, "GGUF", sizeof magic) == 0) {
        TRY(read, read_gguf(path));
    } else {
        TRY(const std::string content, base::read_file(path, kMostImportanceBytes));
        TRY(read, read_old(path, content));
    }
    if (read.tensors.empty()) return base::invalid(path + ": names no tensor of a model");
    return read;
}

base::Status write_importance(const std::string& path, const ImportanceMatrix& importance) {
    GgufBuilder builder;
    builder.set("general.type", std::string("imatrix"));
    builder.set("imatrix.datasets", importance.datasets);
    builder.set("imatrix.chunk_count", static_cast<std::uint32_t>(importance.chunks));
    builder.set("imatrix.chunk_size", static_cast<std::uint32_t>(importance.chunk_tokens));
    for (const auto& [name, squares] : importance.tensors) {
        const auto matrices = std::ssize(squares.counts);
        builder.add_tensor(name + std::string(kSumsEnding), TensorType::f32,
                           {std::ssize(squares.sums) / matrices, matrices});
        builder.add_tensor(name + std::string(kCountsEnding), TensorType::f32, {1, matrices});
    }
    TRY(const auto out, GgufOutput::create(path, builder));
    for (const auto& [name, squares] : importance.tensors) {
        TRY_VOID(out->append(std::as_bytes(std::span(squares.sums))));
        TRY_VOID(out->append(std::as_bytes(std::span(squares.counts))));
    }
    return out->finish();
}

base::Result<std::vector<float>> error_weights(const InputSquares& squares, std::int64_t matrices,
                                               std::int64_t columns) {
    const auto n_matrices = static_cast<std::size_t>(matrices);
    const auto n_columns = static_cast<std::size_t>(columns);
    const std::size_t counts = squares.counts.size();
    if (squares.sums.size() != n_matrices * n_columns || (counts != n_matrices && counts != 1)) {
        return base::invalid(
            fmt::format("{} sums and {} counts, expected {} columns of {} matrices",
                        squares.sums.size(), counts, columns, matrices));
    }
    const auto count_of = [&](std::size_t m) -> double {
        return squares.counts[counts > 1 ? m : 0];
    };
    std::vector<double> shared(n_columns);
    double rows = 0;
    for (std::size_t m = 0; m < n_matrices; ++m) {
        rows += count_of(m);
        for (std::size_t c = 0; c < n_columns; ++c) shared[c] += squares.sums[m * n_columns + c];
    }
    const double mean = rows > 0 ? std::accumulate(shared.begin(), shared.end(), 0.0) /
                                       (rows * static_cast<double>(n_columns))
                                 : 0;
    if (!(mean > 0)) return std::vector<float>(squares.sums.size(), 1.0F);
    std::vector<float> weights(squares.sums.size());
    for (std::size_t m = 0; m < n_matrices; ++m) {
        for (std::size_t c = 0; c < n_columns; ++c) {
            const std::size_t at = m * n_columns + c;
            const double square =
                (squares.sums[at] + kSharedRows * shared[c] / rows) / (count_of(m) + kSharedRows);
            weights[at] = static_cast<float>(square / mean) + kLeastShare;
        }
    }
    return weights;
}

}  // namespace helix::model
