#include "model/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "model/gguf_parser.h"

namespace helix::model {
namespace {

const char* kind_name(const MetaValue& value) {
    constexpr const char* kNames[] = {"a boolean", "an integer", "an integer",
                                      "a float",   "a string",   "an array"};
    static_assert(std::variant_size_v<MetaValue> == std::size(kNames));
    return kNames[value.index()];
}

base::Error absent(const GgufFile& file, std::string_view key) {
    return {base::Errc::not_found, fmt::format("{}: metadata {}: missing", file.label(), key)};
}

base::Error wrong_kind(const GgufFile& file, std::string_view key, const MetaValue& value,
                       const char* expected) {
    return base::invalid(fmt::format("{}: metadata {}: is {}, expected {}", file.label(), key,
                                     kind_name(value), expected));
}

template <typename T>
base::Result<T> get(const GgufFile& file, std::string_view key, const char* expected) {
    const MetaValue* value = file.find(key);
    if (value == nullptr) return absent(file, key);
    if (const T* typed = std::get_if<T>(value)) return *typed;
    return wrong_kind(file, key, *value, expected);
}

}  // namespace

std::int64_t TensorInfo::rows() const {
    std::int64_t product = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) product *= shape[d];
    return product;
}

base::Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
    const std::shared_ptr<GgufFile> file = GgufParser::make(path);
    TRY_VOID(GgufParser::open(*file, path));
    return std::shared_ptr<const GgufFile>(file);
}

base::Result<std::shared_ptr<const GgufFile>> GgufFile::from_header(std::vector<std::byte> header,
                                                                    std::string label) {
    const std::shared_ptr<GgufFile> file = GgufParser::make(std::move(label));
    TRY_VOID(GgufParser::adopt(*file, std::move(header), true));
    return std::shared_ptr<const GgufFile>(file);
}

base::Result<std::shared_ptr<const GgufFile>> GgufFile::from_image(std::vector<std::byte> image,
                                                                   std::string label) {
    const std::shared_ptr<GgufFile> file = GgufParser::make(std::move(label));
    TRY_VOID(GgufParser::adopt(*file, std::move(image), false));
    return std::shared_ptr<const GgufFile>(file);
}

std::vector<RawEntry> GgufFile::raw_metadata() const {
    std::vector<RawEntry> raw;
    raw.reserve(entries_.size());
    for (const EntryPlace& entry : entries_) {
        raw.push_back({std::string(entry.key),
                       std::span(bytes_).subspan(entry.begin, entry.end - entry.begin)});
    }
    return raw;
}

const MetaValue* GgufFile::find(std::string_view key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
}

base::Result<std::int64_t> GgufFile::get_int(std::string_view key) const {
    const MetaValue* value = find(key);
    if (value == nullptr) return absent(*this, key);
    if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
    if (const auto* number = std::get_if<std::uint64_t>(value)) {
        if (*number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
            return static_cast<std::int64_t>(*number);
        }
        return base::invalid(
            fmt::format("{}: metadata {}: is {}, expected less than 2^63", label_, key, *number));
    }
    return wrong_kind(*this, key, *value, "an integer");
}

base::Result<double> GgufFile::get_float(std::string_view key) const {
    return get<double>(*this, key, "a float");
}

base::Result<std::string> GgufFile::get_string(std::string_view key) const {
    return get<std::string>(*this, key, "a string");
}

base::Result<bool> GgufFile::get_bool(std::string_view key) const {
    return get<bool>(*this, key, "a boolean");
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
    const auto found = tensor_index_.find(name);
    return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

base::Status GgufFile::read(const TensorInfo& tensor, std::uint64_t offset,
                            std::span<std::byte> to) const {
    CHECK(offset <= tensor.bytes && to.size() <= tensor.bytes - offset);
    const std::uint64_t begin = data_offset_ + tensor.offset + offset;
    if (file_ != nullptr) {
        const base::Status done = file_->read(begin, to);
        if (done.ok()) return done;
        return base::Error{done.error().code,
                           fmt::format("tensor {}: {}", tensor.name, done.error().message)};
    }
    if (header_only_) {
        return base::invalid(fmt::format("{}: tensor {}: its data is needed and a header has none",
                                         label_, tensor.name));
    }
    CHECK(begin <= bytes_.size() && to.size() <= bytes_.size() - begin);
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + begin, to.size());
    return base::Ok{};
}

base::Result<std::vector<std::byte>> GgufFile::read(const TensorInfo& tensor) const {
    if (header_only_) return base::invalid(fmt::format("{}: has no tensor data", label_));
    TRY(auto bytes, base::make_bytes(tensor.bytes, label_ + ": tensor " + tensor.name));
    TRY_VOID(read(tensor, 0, bytes));
    return bytes;
}

std::span<const std::byte> GgufFile::header() const {
    return std::span(bytes_).first(std::min(data_offset_, bytes_.size()));
}

base::Result<base::FileStamp> GgufFile::stamp() const {
    if (file_ != nullptr) return file_->stamp();
    return base::Error{base::Errc::not_found, label_ + ": is no file"};
}

}  // namespace helix::model
