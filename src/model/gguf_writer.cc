#include "model/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <type_traits>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/check.h"
#include "model/gguf_format.h"

namespace helix::model {
namespace {

using gguf::ValueType;

static_assert(std::endian::native == std::endian::little, "GGUF numbers are written as they lie");

template <typename T>
constexpr ValueType value_type() {
    if constexpr (std::is_same_v<T, std::uint8_t>) return ValueType::u8;
    if constexpr (std::is_same_v<T, std::int8_t>) return ValueType::i8;
    if constexpr (std::is_same_v<T, std::uint16_t>) return ValueType::u16;
    if constexpr (std::is_same_v<T, std::int16_t>) return ValueType::i16;
    if constexpr (std::is_same_v<T, std::uint32_t>) return ValueType::u32;
    if constexpr (std::is_same_v<T, std::int32_t>) return ValueType::i32;
    if constexpr (std::is_same_v<T, float>) return ValueType::f32;
    if constexpr (std::is_same_v<T, bool>) return ValueType::boolean;
    if constexpr (std::is_same_v<T, std::string>) return ValueType::string;
    if constexpr (std::is_same_v<T, std::uint64_t>) return ValueType::u64;
    if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::i64;
    if constexpr (std::is_same_v<T, double>) return ValueType::f64;
    return ValueType::array;
}

class HeaderWriter {
  public:
    template <typename T>
    void number(T value) {
        static_assert(std::is_arithmetic_v<T>);
        raw(&value, sizeof value);
    }
    void type(ValueType value) { number(static_cast<std::uint32_t>(value)); }
    void string(const std::string& text) {
        number(std::uint64_t{text.size()});
        raw(text.data(), text.size());
    }
    void value(const GgufValue& any) {
        std::visit(
            [&]<typename T>(const T& v) {
                type(value_type<T>());
                element(v);
            },
            any);
    }
    void raw(const void* data, std::size_t size) {
        const auto* begin = static_cast<const std::byte*>(data);
        bytes_.insert(bytes_.end(), begin, begin + size);
    }
    std::vector<std::byte> finish(std::uint64_t alignment) && {
        bytes_.resize(gguf::align_up(bytes_.size(), alignment));
        return std::move(bytes_);
    }

  private:
    void element(const std::string& text) { string(text); }
    void element(bool value) { number(std::uint8_t{value}); }
    template <typename T>
    void element(T v) requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        number(v);
    }
    template <typename T>
    void element(const std::vector<T>& values) {
        type(value_type<T>());
        number(std::uint64_t{values.size()});
        for (const auto& v : values) element(static_cast<const T&>(v));
    }

    std::vector<std::byte> bytes_;
};

}  // namespace

GgufBuilder::GgufBuilder(std::uint32_t alignment) : alignment_(alignment) {
    CHECK(alignment >= 8 && std::has_single_bit(alignment));
    if (alignment != gguf::kDefaultAlignment) set(gguf::kAlignmentKey, alignment);
}

void GgufBuilder::set(std::string key, GgufValue value) {
    for (const auto& entry : metadata_) CHECK(entry.first != key);
    metadata_.emplace_back(std::move(key), std::move(value));
}

void GgufBuilder::set_raw(std::string key, RawGgufValue value) {
    for (const auto& entry : metadata_) CHECK(entry.first != key);
    CHECK(value.size() >= sizeof(std::uint32_t));
    metadata_.emplace_back(std::move(key), std::move(value));
}

void GgufBuilder::add_tensor(std::string name, TensorType type, std::vector<std::int64_t> shape) {
    const TensorTypeInfo* info = tensor_type_info(type);
    CHECK(info != nullptr);
    CHECK(!shape.empty() && shape.size() <= gguf::kMaxDimensions);
    for (const std::int64_t length : shape) CHECK(length > 0);
    CHECK(shape[0] % info->block_size == 0);
    TensorInfo tensor;
    tensor.name = std::move(name);
    tensor.type = type;
    tensor.shape = std::move(shape);
    tensor.offset = data_bytes();
    tensor.bytes = static_cast<std::uint64_t>(tensor.row_length() / info->block_size *
                                              info->block_bytes * tensor.rows());
    tensors_.push_back(std::move(tensor));
}

std::vector<std::byte> GgufBuilder::header() const {
    HeaderWriter out;
    out.raw(gguf::kMagic, sizeof gguf::kMagic);
    out.number(gguf::kWrittenVersion);
    out.number(std::uint64_t{tensors_.size()});
    out.number(std::uint64_t{metadata_.size()});
    for (const auto& [key, value] : metadata_) {
        out.string(key);
        if (const auto* raw = std::get_if<RawGgufValue>(&value)) {
            out.raw(raw->data(), raw->size());
        } else {
            out.value(std::get<GgufValue>(value));
        }
    }
    for (const TensorInfo& tensor : tensors_) {
        out.string(tensor.name);
        out.number(static_cast<std::uint32_t>(tensor.shape.size()));
        for (const std::int64_t length : tensor.shape) out.number(length);
        out.number(static_cast<std::uint32_t>(tensor.type));
        out.number(tensor.offset);
    }
    return std::move(out).finish(alignment_);
}

std::uint64_t GgufBuilder::data_bytes() const {
    if (tensors_.empty()) return 0;
    return gguf::align_up(tensors_.back().offset + tensors_.back().bytes, alignment_);
}

base::Error GgufOutput::failed(const char* doing) const {
    return {base::Errc::io,
            fmt::format("{}: cannot {}: {}", part_path_, doing, std::strerror(errno))};
}

base::Result<std::unique_ptr<GgufOutput>> GgufOutput::create(const std::string& path,
                                                             const GgufBuilder& builder) {
    std::unique_ptr<GgufOutput> out(new GgufOutput());
    out->path_ = path;
    out->part_path_ = path + ".part";
    out->alignment_ = builder.alignment();
    for (const TensorInfo& tensor : builder.tensors()) out->tensor_bytes_.push_back(tensor.bytes);
    out->descriptor_ =
        ::open(out->part_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out->descriptor_ < 0) return out->failed("create");
    const std::vector<std::byte> header = builder.header();
    const std::uint64_t total = header.size() + builder.data_bytes();
    std::error_code no_answer;
    const auto space = std::filesystem::space(out->part_path_, no_answer);
    if (!no_answer && space.available < total) {
        return base::Error{base::Errc::io,
                           fmt::format("{}: needs {} bytes, the file system has {} left", path,
                                       total, space.available)};
    }
    TRY_VOID(out->write_all(header));
    return out;
}

GgufOutput::~GgufOutput() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(part_path_.c_str());
}

base::Status GgufOutput::write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return failed("write");
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return base::Ok{};
}

base::Status GgufOutput::append(std::span<const std::byte> bytes) {
    CHECK(tensor_ < tensor_bytes_.size());
    const std::uint64_t size = tensor_bytes_[tensor_];
    CHECK(bytes.size() <= size - written_);
    TRY_VOID(write_all(bytes));
    written_ += bytes.size();
    if (written_ < size) return base::Ok{};
    const std::vector<std::byte> padding(gguf::align_up(size, alignment_) - size);
    TRY_VOID(write_all(padding));
    ++tensor_;
    written_ = 0;
    return base::Ok{};
}

base::Status GgufOutput::finish() {
    CHECK(tensor_ == tensor_bytes_.size());
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (::close(descriptor) != 0 || std::rename(part_path_.c_str(), path_.c_str()) != 0) {
        const base::Error error = failed("finish");
        ::unlink(part_path_.c_str());
        return error;
    }
    return base::Ok{};
}

}  // namespace helix::model
