#include "model/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "model/limits.h"

namespace helix::model {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie");

using gguf::ValueType;

constexpr std::uint64_t kMaxKeyBytes = 65535;      // the format's limit
constexpr std::uint64_t kMaxTensorNameBytes = 64;  // the format's limit
// Keeps every sum of bytes and of elements within 63 bits, even when only the header is at hand.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 60;
constexpr std::uint64_t kMaxAlignment = 1U << 20;
constexpr std::uint64_t kFirstReadBytes = std::uint64_t{64} << 10U;
// What an entry takes beside its name and value: nodes of maps, and strings.
constexpr std::uint64_t kRecordBytes = 256;
// The sizes of the smallest records of their kinds: an 8-byte length, then type and a one-byte
// value; or an 8-byte length, then dimension count, one dimension, type and offset.
constexpr std::uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// The fewest bytes that an array element takes; 0 for what cannot be an element.
std::uint64_t element_bytes(ValueType type) {
    switch (type) {
        case ValueType::u8:
        case ValueType::i8:
        case ValueType::boolean:
            return 1;
        case ValueType::u16:
        case ValueType::i16:
            return 2;
        case ValueType::u32:
        case ValueType::i32:
        case ValueType::f32:
            return 4;
        case ValueType::u64:
        case ValueType::i64:
        case ValueType::f64:
        case ValueType::string:
            return 8;
        case ValueType::array:
            return 0;
    }
    return 0;
}

bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
    return !__builtin_mul_overflow(a, b, &product) &&
           product <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

std::shared_ptr<GgufFile> GgufParser::make(std::string label) {
    std::shared_ptr<GgufFile> file(new GgufFile());
    file->label_ = std::move(label);
    return file;
}

GgufParser::GgufParser(GgufFile& file)
    : file_(file),
      bytes_(file.bytes_),
      size_(file.file_ != nullptr ? file.file_->bytes() : file.bytes_.size()) {}

base::Status GgufParser::open(GgufFile& file, const std::string& path) {
    TRY(file.file_, base::RegularFile::open(path));
    if (file.file_->bytes() == 0) {
        return base::invalid(path + ": the file is empty, expected a GGUF file");
    }
    TRY_VOID(GgufParser(file).parse());
    file.bytes_.resize(file.data_offset_);
    file.bytes_.shrink_to_fit();
    return base::Ok{};
}

base::Status GgufParser::adopt(GgufFile& file, std::vector<std::byte> bytes, bool header_only) {
    file.bytes_ = std::move(bytes);
    file.header_only_ = header_only;
    return GgufParser(file).parse();
}

base::Error GgufParser::fail(const std::string& text) const {
    return base::invalid(fmt::format("{}: {}: {}", file_.label_, context_, text));
}

base::Status GgufParser::need(std::uint64_t bytes, std::string_view what) {
    const std::uint64_t left = size_ - position_;
    if (bytes > left) {
        if (bytes > std::numeric_limits<std::uint64_t>::max() - position_) {
            return fail(fmt::format("{} has {} bytes, {} are left in the file", what, bytes, left));
        }
        return fail(
            fmt::format("{} ends at byte {}, the file has {}", what, position_ + bytes, size_));
    }
    const std::uint64_t end = position_ + bytes;
    if (end <= bytes_.size()) return base::Ok{};
    if (end > limits::kMaxHeaderBytes) {
        return fail(fmt::format("{} ends at byte {}, the limit for a header is {}", what, end,
                                limits::kMaxHeaderBytes));
    }
    // The header is read by doubling, so that few reads are needed and little is read of the
    // tensors behind it.
    const std::size_t before = bytes_.size();
    const std::uint64_t wanted = std::max<std::uint64_t>({end, 2 * before, kFirstReadBytes});
    bytes_.resize(std::min({wanted, size_, limits::kMaxHeaderBytes}));
    return file_.file_->read(before, std::span(bytes_).subspan(before));
}

base::Status GgufParser::charge(std::uint64_t bytes) {
    if (bytes <= limits::kMaxHeaderBytes - kept_) {
        kept_ += bytes;
        return base::Ok{};
    }
    return fail(fmt::format("with it the header takes more than {} bytes of memory, the limit",
                            limits::kMaxHeaderBytes));
}

template <typename T>
base::Result<T> GgufParser::number(std::string_view what) {
    TRY_VOID(need(sizeof(T), what));
    T value{};
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
}

base::Result<std::string> GgufParser::string(std::string_view what) {
    TRY(const std::uint64_t length, number<std::uint64_t>(what));
    TRY_VOID(need(length, what));
    TRY_VOID(charge(length));
    std::string text(length, '\0');
    if (length > 0) std::memcpy(text.data(), bytes_.data() + position_, length);
    position_ += length;
    return text;
}

base::Result<std::string> GgufParser::name(std::string_view what, std::uint64_t max_length) {
    TRY(std::string text, string(what));
    if (text.empty() || text.size() > max_length) {
        return fail(
            fmt::format("{} has {} bytes, expected 1 to {}", what, text.size(), max_length));
    }
    const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
    const auto bad = std::find_if_not(text.begin(), text.end(), printable);
    if (bad != text.end()) {
        return fail(fmt::format("{} holds the byte 0x{:02x}, expected printable ASCII", what,
                                static_cast<unsigned char>(*bad)));
    }
    return text;
}

base::Status GgufParser::check_count(std::uint64_t count, std::uint64_t record_bytes,
                                     std::string_view what) const {
    const std::uint64_t left = size_ - position_;
    if (count <= left / record_bytes) return base::Ok{};
    return fail(fmt::format("{} {} cannot fit in the {} bytes that are left of the file", count,
                            what, left));
}

base::Status GgufParser::parse() {
    TRY_VOID(read_preamble());
    for (std::uint64_t i = 0; i < n_metadata_; ++i) TRY_VOID(read_metadata(i));
    TRY_VOID(read_alignment());
    if (n_tensors_ > static_cast<std::uint64_t>(limits::kMaxTensors)) {
        context_ = "header";
        return fail(fmt::format("{} tensors, the limit is {}", n_tensors_, limits::kMaxTensors));
    }
    file_.tensors_.reserve(n_tensors_);
    for (std::uint64_t i = 0; i < n_tensors_; ++i) TRY_VOID(read_tensor(i));
    return place_tensors();
}

base::Status GgufParser::read_preamble() {
    TRY_VOID(need(sizeof gguf::kMagic, "magic"));
    if (std::memcmp(bytes_.data(), gguf::kMagic, sizeof gguf::kMagic) != 0) {
        return fail("the first four bytes are not \"GGUF\": this is no GGUF file");
    }
    position_ += sizeof gguf::kMagic;
    TRY(const std::uint32_t version, number<std::uint32_t>("version"));
    if (const std::uint32_t swapped = __builtin_bswap32(version); swapped >= 1 && swapped <= 3) {
        return fail("the file is big-endian, only little-endian files are read");
    }
    if (version != 2 && version != 3) {
        return fail(fmt::format("version {}, expected 2 or 3", version));
    }
    file_.version_ = version;
    TRY(n_tensors_, number<std::uint64_t>("tensor count"));
    TRY(n_metadata_, number<std::uint64_t>("metadata count"));
    TRY_VOID(check_count(n_metadata_, kMinMetadataBytes, "metadata entries"));
    return check_count(n_tensors_, kMinTensorBytes, "tensors");
}

base::Status GgufParser::read_metadata(std::uint64_t index) {
    context_ = fmt::format("metadata entry {} of {}", index + 1, n_metadata_);
    TRY(std::string key, name("key", kMaxKeyBytes));
    TRY_VOID(charge(kRecordBytes));
    context_ = "metadata " + key;
    if (file_.metadata_.contains(key)) return fail("the key appears twice");
    const std::uint64_t begin = position_;
    TRY(MetaValue value, read_value());
    const auto added = file_.metadata_.emplace(std::move(key), std::move(value)).first;
    file_.entries_.push_back({added->first, begin, position_});
    return base::Ok{};
}

base::Result<MetaValue> GgufParser::read_value() {
    TRY(const std::uint32_t type, number<std::uint32_t>("value type"));
    const auto widened = [&]<typename T, typename Wide>(T, Wide) -> base::Result<MetaValue> {
        TRY(const T value, number<T>("value"));
        return MetaValue(static_cast<Wide>(value));
    };
    switch (static_cast<ValueType>(type)) {
        case ValueType::u8:
            return widened(std::uint8_t{}, std::uint64_t{});
        case ValueType::u16:
            return widened(std::uint16_t{}, std::uint64_t{});
        case ValueType::u32:
            return widened(std::uint32_t{}, std::uint64_t{});
        case ValueType::u64:
            return widened(std::uint64_t{}, std::uint64_t{});
        case ValueType::i8:
            return widened(std::int8_t{}, std::int64_t{});
        case ValueType::i16:
            return widened(std::int16_t{}, std::int64_t{});
        case ValueType::i32:
            return widened(std::int32_t{}, std::int64_t{});
        case ValueType::i64:
            return widened(std::int64_t{}, std::int64_t{});
        case ValueType::f32:
            return widened(float{}, double{});
        case ValueType::f64:
            return widened(double{}, double{});
        case ValueType::boolean: {
            TRY(const std::uint8_t value, number<std::uint8_t>("value"));
            if (value > 1) return fail(fmt::format("boolean is {}, expected 0 or 1", value));
            return MetaValue(value == 1);
        }
        case ValueType::string: {
            TRY(std::string value, string("value"));
            return MetaValue(std::move(value));
        }
        case ValueType::array:
            return read_array();
    }
    return fail(fmt::format("value type {}, expected 0 to 12", type));
}

base::Result<MetaValue> GgufParser::read_array() {
    TRY(const std::uint32_t type_number, number<std::uint32_t>("array element type"));
    TRY(const std::uint64_t count, number<std::uint64_t>("array length"));
    const auto type = static_cast<ValueType>(type_number);
    if (type == ValueType::array)
        return fail("an array of arrays, expected an array of plain values");
    const std::uint64_t record_bytes = element_bytes(type);
    if (record_bytes == 0) {
        return fail(fmt::format("array element type {}, expected 0 to 8 or 10 to 12", type_number));
    }
    TRY_VOID(check_count(count, record_bytes, "array elements"));
    const auto read_all = [&]<typename T, typename Kept>(T, Kept) -> base::Result<MetaValue> {
        TRY_VOID(charge(count * (std::is_same_v<Kept, bool> ? 1 : sizeof(Kept))));
        std::vector<Kept> values(count);
        for (std::uint64_t i = 0; i < count; ++i) {
            TRY(const T value, number<T>("array element"));
            if constexpr (std::is_same_v<T, std::uint64_t>) {
                if (value > std::numeric_limits<std::int64_t>::max()) {
                    return fail(
                        fmt::format("array element {} is {}, expected less than 2^63", i, value));
                }
            }
            values[i] = static_cast<Kept>(value);
        }
        return MetaValue(MetaArray(std::move(values)));
    };
    switch (type) {
        case ValueType::u8:
            return read_all(std::uint8_t{}, std::int64_t{});
        case ValueType::i8:
            return read_all(std::int8_t{}, std::int64_t{});
        case ValueType::u16:
            return read_all(std::uint16_t{}, std::int64_t{});
        case ValueType::i16:
            return read_all(std::int16_t{}, std::int64_t{});
        case ValueType::u32:
            return read_all(std::uint32_t{}, std::int64_t{});
        case ValueType::i32:
            return read_all(std::int32_t{}, std::int64_t{});
        case ValueType::u64:
            return read_all(std::uint64_t{}, std::int64_t{});
        case ValueType::i64:
            return read_all(std::int64_t{}, std::int64_t{});
        case ValueType::f32:
            return read_all(float{}, double{});
        case ValueType::f64:
            return read_all(double{}, double{});
        case ValueType::boolean:
            return read_all(std::uint8_t{}, bool{});
        default:
            break;
    }
    TRY_VOID(charge(count * sizeof(std::string)));
    std::vector<std::string> strings;
    strings.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        TRY(std::string value, string("array element"));
        strings.push_back(std::move(value));
    }
    return MetaValue(MetaArray(std::move(strings)));
}

base::Status GgufParser::read_alignment() {
    file_.alignment_ = gguf::kDefaultAlignment;
    if (file_.find(gguf::kAlignmentKey) == nullptr) return base::Ok{};
    TRY(const std::int64_t alignment, file_.get_int(gguf::kAlignmentKey));
    context_ = fmt::format("metadata {}", gguf::kAlignmentKey);
    const auto value = static_cast<std::uint64_t>(alignment);
    if (alignment < 8 || value > kMaxAlignment || !std::has_single_bit(value)) {
        return fail(
            fmt::format("{}, expected a power of two from 8 to {}", alignment, kMaxAlignment));
    }
    file_.alignment_ = value;
    return base::Ok{};
}

base::Status GgufParser::read_tensor(std::uint64_t index) {
    context_ = fmt::format("tensor {} of {}", index + 1, n_tensors_);
    TensorInfo tensor;
    TRY(tensor.name, name("name", kMaxTensorNameBytes));
    TRY_VOID(charge(kRecordBytes));
    context_ = "tensor " + tensor.name;
    if (file_.tensor_index_.contains(tensor.name)) return fail("the name appears twice");
    TRY(const std::uint32_t dimensions, number<std::uint32_t>("dimension count"));
    if (dimensions < 1 || dimensions > gguf::kMaxDimensions) {
        return fail(
            fmt::format("{} dimensions, expected 1 to {}", dimensions, gguf::kMaxDimensions));
    }
    for (std::uint32_t d = 0; d < dimensions; ++d) {
        TRY(const std::uint64_t length, number<std::uint64_t>("dimension"));
        if (length < 1 ||
            length > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
            return fail(fmt::format("dimension {} is {}, expected 1 to 2^63 - 1", d, length));
        }
        tensor.shape.push_back(static_cast<std::int64_t>(length));
    }
    TRY(const std::uint32_t type, number<std::uint32_t>("type"));
    tensor.type = static_cast<TensorType>(type);
    if (tensor_type_info(tensor.type) == nullptr) {
        const char* known = ggml_type_name(type);
        return fail(fmt::format("type {}{} is not supported; supported are {}", type,
                                known != nullptr ? fmt::format(" ({})", known) : "",
                                tensor_type_names()));
    }
    TRY(tensor.offset, number<std::uint64_t>("offset"));
    if (tensor.offset % file_.alignment_ != 0) {
        return fail(fmt::format("offset {} is not a multiple of the alignment {}", tensor.offset,
                                file_.alignment_));
    }
    TRY(tensor.bytes, tensor_bytes(tensor));
    file_.tensor_index_.emplace(tensor.name, file_.tensors_.size());
    file_.tensors_.push_back(std::move(tensor));
    return base::Ok{};
}

base::Result<std::uint64_t> GgufParser::tensor_bytes(const TensorInfo& tensor) const {
    const TensorTypeInfo& type = *tensor_type_info(tensor.type);
    if (tensor.row_length() % type.block_size != 0) {
        return fail(fmt::format("rows of {} elements, expected a multiple of {} for type {}",
                                tensor.row_length(), type.block_size, type.name));
    }
    std::uint64_t elements = 1;
    for (const std::int64_t length : tensor.shape) {
        if (!checked_multiply(elements, static_cast<std::uint64_t>(length), elements)) {
            return fail("the product of the dimensions overflows 63 bits");
        }
    }
    std::uint64_t bytes = 0;
    if (!checked_multiply(elements / static_cast<std::uint64_t>(type.block_size),
                          static_cast<std::uint64_t>(type.block_bytes), bytes)) {
        return fail("the size in bytes overflows 63 bits");
    }
    return bytes;
}

base::Status GgufParser::place_tensors() {
    context_ = "header";
    const std::uint64_t data_offset = gguf::align_up(position_, file_.alignment_);
    if (file_.header_only_ && size_ > data_offset) {
        return fail(fmt::format("{} bytes, expected at most {}", size_, data_offset));
    }
    file_.data_offset_ = std::min<std::uint64_t>(data_offset, size_);
    position_ = file_.data_offset_;
    TRY_VOID(need(0, "header"));  // its padding
    for (const TensorInfo& tensor : file_.tensors_) {
        context_ = "tensor " + tensor.name;
        std::uint64_t end = 0;
        if (__builtin_add_overflow(tensor.offset, tensor.bytes, &end) ||
            __builtin_add_overflow(end, data_offset, &end) || end > kMaxFileBytes) {
            return fail(fmt::format("offset {} with {} bytes ends beyond 2^60", tensor.offset,
                                    tensor.bytes));
        }
        if (!file_.header_only_ && end > size_) {
            return fail(fmt::format("data ends at byte {}, the file has {}", end, size_));
        }
    }
    return check_overlaps();
}

base::Status GgufParser::check_overlaps() const {
    std::vector<const TensorInfo*> by_offset;
    by_offset.reserve(file_.tensors_.size());
    for (const TensorInfo& tensor : file_.tensors_) by_offset.push_back(&tensor);
    std::sort(by_offset.begin(), by_offset.end(),
              [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < by_offset.size(); ++i) {
        const TensorInfo& before = *by_offset[i - 1];
        if (before.offset + before.bytes <= by_offset[i]->offset) continue;
        return base::invalid(fmt::format("{}: tensor {}: data at offset {} overlaps tensor {}",
                                         file_.label_, by_offset[i]->name, by_offset[i]->offset,
                                         before.name));
    }
    return base::Ok{};
}

}  // namespace helix::model
