#include "model/split_weights.h"

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/overloaded.h"
#include "model/gguf_writer.h"
#include "model/limits.h"

namespace helix::model {
namespace {

constexpr const char* kPartCount = "split.count";
constexpr const char* kPartNumber = "split.no";  // from 0
constexpr const char* kAllTensors = "split.tensors.count";

GgufValue stored(const MetaValue& value) {
    return std::visit(base::Overloaded{[](const MetaArray& array) {
                                           return std::visit(
                                               [](const auto& a) { return GgufValue(a); }, array);
                                       },
                                       [](const auto& one) { return GgufValue(one); }},
                      value);
}

std::string part_ending(std::int64_t number, std::int64_t count) {
    return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

}  // namespace

bool SplitWeights::is_part(const GgufFile& file) {
    const auto count = file.get_int(kPartCount);
    return count.ok() && *count > 1;
}

base::Status SplitWeights::open_parts(std::shared_ptr<const GgufFile> first) {
    const std::string path = first->label();
    TRY(const std::int64_t count, first->get_int(kPartCount));
    if (count > limits::kMaxShards) {
        return base::invalid(fmt::format("{}: {}: is {}, expected at most {}", path, kPartCount,
                                         count, limits::kMaxShards));
    }
    const std::string ending = part_ending(1, count);
    if (!path.ends_with(ending)) {
        return base::invalid(
            fmt::format("{}: is one of {} parts of a model; open the first one, "
                        "whose name ends with {}",
                        path, count, ending));
    }
    const std::string stem = path.substr(0, path.size() - ending.size());
    parts_.push_back(std::move(first));
    for (std::int64_t number = 2; number <= count; ++number) {
        TRY(auto part, GgufFile::open(stem + part_ending(number, count)));
        parts_.push_back(std::move(part));
    }
    for (std::int64_t number = 0; number < count; ++number) {
        const GgufFile& part = *parts_[static_cast<std::size_t>(number)];
        TRY(const std::int64_t its_count, part.get_int(kPartCount));
        TRY(const std::int64_t its_number, part.get_int(kPartNumber));
        if (its_count == count && its_number == number) continue;
        return base::invalid(
            fmt::format("{}: says that it is part {} of {}, expected part {} of {}", part.label(),
                        its_number + 1, its_count, number + 1, count));
    }
    return base::Ok{};
}

base::Status SplitWeights::join() {
    const GgufFile& first = *parts_.front();
    GgufBuilder builder(static_cast<std::uint32_t>(first.alignment()));
    for (const auto& [key, value] : first.metadata()) {
        // How it was split is no property of the model; the builder writes the alignment itself.
        if (!key.starts_with("split.") && key != "general.alignment") {
            builder.set(key, stored(value));
        }
    }
    for (const auto& part : parts_) {
        for (const TensorInfo& tensor : part->tensors()) {
            if (!tensors_.emplace(tensor.name, Place{part, &tensor}).second) {
                return base::invalid(fmt::format("{}: tensor {}: is in another part, too",
                                                 part->label(), tensor.name));
            }
            builder.add_tensor(tensor.name, tensor.type, tensor.shape);
        }
    }
    const auto all = first.get_int(kAllTensors);
    if (all.ok() && *all != std::ssize(tensors_)) {
        return base::invalid(fmt::format("{}: the parts have {} tensors together, {} are expected",
                                         first.label(), tensors_.size(), *all));
    }
    TRY(file_, GgufFile::from_header(builder.header(), first.label()));
    return base::Ok{};
}

base::Result<std::unique_ptr<SplitWeights>> SplitWeights::open(
    std::shared_ptr<const GgufFile> first) {
    std::unique_ptr<SplitWeights> split(new SplitWeights());
    TRY_VOID(split->open_parts(std::move(first)));
    TRY_VOID(split->join());
    return split;
}

base::Result<SplitWeights::Place> SplitWeights::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return found->second;
    return base::Error{base::Errc::not_found,
                       fmt::format("{}: tensor {}: missing", file_->label(), name)};
}

base::Result<std::span<const std::byte>> SplitWeights::tensor(std::string_view name) {
    TRY(const Place place, find(name));
    return held_.use(name, [&] { return place.part->read(*place.info); });
}

std::optional<base::Status> SplitWeights::read_part(std::string_view name, std::uint64_t offset,
                                                    std::span<std::byte> to) {
    const auto place = find(name);
    if (!place.ok()) return base::Status(place.error());
    return place->part->read(*place->info, offset, to);
}

void SplitWeights::release(std::string_view name) {
    held_.release(name);
}

base::Result<std::vector<base::FileStamp>> SplitWeights::stamps() const {
    std::vector<base::FileStamp> stamps;
    for (const auto& part : parts_) {
        TRY(const base::FileStamp stamp, part->stamp());
        stamps.push_back(stamp);
    }
    return stamps;
}

}  // namespace helix::model
