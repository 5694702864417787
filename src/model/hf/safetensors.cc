#include "model/hf/safetensors.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "model/limits.h"
#include "spec/bounded_json.h"

namespace helix::model {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
// The format allows 100 MB; what exists has less than ten.
constexpr std::uint64_t kMaxHeaderBytes = limits::kMaxSafetensorsHeaderBytes;
constexpr std::size_t kMaxDimensions = 8;

struct Dtype {
    std::string_view name;
    std::uint64_t bytes;
};
// Those the format knows; we compute with the first three.
constexpr Dtype kDtypes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8},     {"I64", 8},
                             {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
                             {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
constexpr TensorType kTypes[] = {TensorType::f32, TensorType::f16, TensorType::bf16};

base::Error wrong(const std::string& label, const std::string& name, const std::string& text) {
    return base::invalid(fmt::format("{}: tensor {}: {}", label, name, text));
}

base::Result<std::uint64_t> read_whole(const Json& value, const std::string& label,
                                       const std::string& name, const char* what) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() < (std::uint64_t{1} << 62)) {
        return value.get<std::uint64_t>();
    }
    return wrong(
        label, name,
        fmt::format("{}: expected a whole number, found {}", what,
                    value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40)));
}

base::Status read_dtype(const Json& entry, const std::string& label, SafeTensor& tensor,
                        std::uint64_t& element_bytes) {
    const auto found = entry.find("dtype");
    if (found == entry.end() || !found->is_string()) {
        return wrong(label, tensor.name, "dtype: missing, expected F32, F16 or BF16");
    }
    const auto& name = found->get_ref<const std::string&>();
    const auto* dtype = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                     [&](const Dtype& d) { return d.name == name; });
    const auto at = static_cast<std::size_t>(dtype - std::begin(kDtypes));
    element_bytes = dtype == std::end(kDtypes) ? 0 : dtype->bytes;
    for (const std::string_view packed : {"U8", "I32", "I64", "F8_E4M3"}) {
        if (name != packed) continue;
        tensor.packed = packed;
        return base::Ok{};
    }
    if (at >= std::size(kTypes)) {
        return wrong(label, tensor.name,
                     fmt::format("dtype {} is {}, expected F32, F16 or BF16", name.substr(0, 40),
                                 dtype == std::end(kDtypes) ? "unknown" : "not supported"));
    }
    tensor.type = kTypes[at];
    return base::Ok{};
}

base::Result<SafeTensor> read_entry(const std::string& name, const Json& entry,
                                    const std::string& label) {
    SafeTensor tensor;
    tensor.name = name;
    if (!entry.is_object()) return wrong(label, name, "expected an object");
    std::uint64_t expected = 0;
    TRY_VOID(read_dtype(entry, label, tensor, expected));
    const auto shape = entry.find("shape");
    if (shape == entry.end() || !shape->is_array() || shape->size() > kMaxDimensions) {
        return wrong(label, name, "shape: expected an array of at most 8 sizes");
    }
    for (const Json& size : *shape) {
        TRY(const std::uint64_t value, read_whole(size, label, name, "shape"));
        if (__builtin_mul_overflow(expected, value, &expected) ||
            expected >= (std::uint64_t{1} << 62)) {
            return wrong(label, name, "shape: more elements than any file holds");
        }
        tensor.shape.push_back(static_cast<std::int64_t>(value));
    }
    const auto offsets = entry.find("data_offsets");
    if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) {
        return wrong(label, name, "data_offsets: expected two whole numbers");
    }
    TRY(tensor.offset, read_whole((*offsets)[0], label, name, "data_offsets"));
    TRY(const std::uint64_t end, read_whole((*offsets)[1], label, name, "data_offsets"));
    if (end < tensor.offset) {
        return wrong(
            label, name,
            fmt::format("data_offsets: [{}, {}] end before they begin", tensor.offset, end));
    }
    tensor.bytes = end - tensor.offset;
    if (tensor.bytes != expected) {
        return wrong(label, name,
                     fmt::format("data_offsets: {} bytes, shape [{}] of {} takes {}", tensor.bytes,
                                 fmt::join(tensor.shape, ", "), entry["dtype"].get<std::string>(),
                                 expected));
    }
    return tensor;
}

}  // namespace

base::Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(
    const std::string& path) {
    std::shared_ptr<SafetensorsFile> file(new SafetensorsFile());
    file->label_ = path;
    TRY(file->file_, base::RegularFile::open(path));
    TRY_VOID(file->parse());
    return std::shared_ptr<const SafetensorsFile>(std::move(file));
}

base::Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::from_image(
    std::vector<std::byte> image, std::string label) {
    std::shared_ptr<SafetensorsFile> file(new SafetensorsFile());
    file->label_ = std::move(label);
    file->image_ = std::move(image);
    TRY_VOID(file->parse());
    return std::shared_ptr<const SafetensorsFile>(std::move(file));
}

base::Status SafetensorsFile::parse() {
    const std::uint64_t size = file_ != nullptr ? file_->bytes() : image_.size();
    if (size < kLengthBytes) {
        return base::invalid(
            fmt::format("{}: {} bytes, a safetensors file has at least 8", label_, size));
    }
    std::array<std::byte, kLengthBytes> length = {};
    TRY_VOID(read_at(0, length));
    std::uint64_t header_bytes = 0;
    for (std::size_t i = kLengthBytes; i-- > 0;) {
        header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(length[i]);
    }
    const std::uint64_t left = size - kLengthBytes;
    if (header_bytes > kMaxHeaderBytes || header_bytes > left) {
        return base::invalid(fmt::format("{}: header length {}, expected at most {}", label_,
                                         header_bytes, std::min(kMaxHeaderBytes, left)));
    }
    data_offset_ = kLengthBytes + header_bytes;
    data_bytes_ = size - data_offset_;
    std::vector<std::byte> bytes(header_bytes);
    TRY_VOID(read_at(kLengthBytes, bytes));
    Json header;
    spec::JsonFacts facts;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto problem = spec::read_bounded_json(text, {}, header, &facts);
    if (problem && problem->over_limit) {
        return base::invalid(fmt::format("{}: header: {}", label_, problem->message));
    }
    if (problem || !header.is_object()) {
        return base::invalid(label_ + ": header: expected a JSON object");
    }
    if (facts.repeated) return wrong(label_, *facts.repeated, "comes twice");
    if (std::ssize(header) > limits::kMaxTensors) {
        return base::invalid(fmt::format("{}: header: {} tensors, the limit is {}", label_,
                                         header.size(), limits::kMaxTensors));
    }
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        TRY(SafeTensor tensor, read_entry(name, entry, label_));
        tensors_.emplace(name, std::move(tensor));
    }
    return check_layout();
}

// The tensors fill the data exactly, in some order.
base::Status SafetensorsFile::check_layout() const {
    std::vector<const SafeTensor*> order;
    for (const auto& [name, tensor] : tensors_) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](const SafeTensor* a, const SafeTensor* b) {
        return a->offset != b->offset ? a->offset < b->offset : a->bytes < b->bytes;
    });
    std::uint64_t end = 0;
    for (const SafeTensor* tensor : order) {
        if (tensor->offset > data_bytes_ || tensor->bytes > data_bytes_ - tensor->offset) {
            return wrong(label_, tensor->name,
                         fmt::format("data_offsets: [{}, {}] are outside the {} bytes of data",
                                     tensor->offset, tensor->offset + tensor->bytes, data_bytes_));
        }
        if (tensor->offset != end) {
            return wrong(
                label_, tensor->name,
                fmt::format(
                    "data_offsets: begin at {}, expected {}: {}", tensor->offset, end,
                    tensor->offset < end ? "tensors overlap" : "bytes belong to no tensor"));
        }
        end += tensor->bytes;
    }
    if (end != data_bytes_) {
        return base::invalid(
            fmt::format("{}: {} bytes of data, the tensors take {}", label_, data_bytes_, end));
    }
    return base::Ok{};
}

const SafeTensor* SafetensorsFile::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

base::Status SafetensorsFile::read_at(std::uint64_t offset, std::span<std::byte> to) const {
    if (file_ != nullptr) return file_->read(offset, to);
    CHECK(offset <= image_.size() && to.size() <= image_.size() - offset);
    std::copy_n(image_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return base::Ok{};
}

base::Status SafetensorsFile::read(const SafeTensor& tensor, std::uint64_t offset,
                                   std::span<std::byte> to) const {
    CHECK(offset <= tensor.bytes && to.size() <= tensor.bytes - offset);
    const base::Status done = read_at(data_offset_ + tensor.offset + offset, to);
    if (done.ok()) return done;
    return base::Error{done.error().code,
                       fmt::format("tensor {}: {}", tensor.name, done.error().message)};
}

base::Result<std::vector<std::byte>> SafetensorsFile::read(const SafeTensor& tensor) const {
    TRY(auto bytes, base::make_bytes(tensor.bytes, label_ + ": tensor " + tensor.name));
    TRY_VOID(read(tensor, 0, bytes));
    return bytes;
}

}  // namespace helix::model
