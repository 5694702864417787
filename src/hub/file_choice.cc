#include "hub/file_choice.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace helix::hub {
namespace {

constexpr std::string_view kGguf = ".gguf";
constexpr int kMostParts = 99'999;
// Files of a published folder that are read when it is opened as a model.
constexpr std::string_view kFolderFiles[] = {"config.json",
                                             "tokenizer.json",
                                             "tokenizer_config.json",
                                             "chat_template.jinja",
                                             "generation_config.json",
                                             "special_tokens_map.json",
                                             "modules.json",
                                             "1_Pooling/config.json",
                                             "model.safetensors.index.json",
                                             "2_Dense/config.json",
                                             "2_Dense/model.safetensors",
                                             "3_Dense/config.json",
                                             "3_Dense/model.safetensors"};

std::string lowered(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

std::string_view file_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool is_gguf_model(std::string_view path) {
    const std::string name = lowered(file_name(path));
    if (!name.ends_with(kGguf) || name.size() == kGguf.size()) return false;
    for (const std::string_view other : {"mmproj", "imatrix"}) {
        if (name.find(other) != std::string::npos) return false;
    }
    return !name.starts_with("mtp-") && !name.starts_with("eagle3-") && !name.starts_with("lora-");
}

bool ends_with_tag(const std::string& path, const std::string& tag) {
    const std::string stem = lowered(file_name(file_part(path).stem));
    const std::string wanted = lowered(tag);
    if (stem == wanted) return true;
    return stem.ends_with("-" + wanted) || stem.ends_with("." + wanted);
}

// The models with a tag whose names are shortest.
std::vector<std::string> with_tag(const std::vector<std::string>& models, const std::string& tag) {
    std::vector<std::string> found;
    std::size_t shortest = std::string::npos;
    for (const std::string& path : models) {
        if (!ends_with_tag(path, tag) || path.size() > shortest) continue;
        if (path.size() < shortest) found.clear();
        shortest = path.size();
        found.push_back(path);
    }
    return found;
}

// The file, or all of its parts.
base::Result<FileChoice> all_parts(std::span<const std::string> paths, const std::string& first,
                                   const std::string& repository) {
    const FilePart part = file_part(first);
    FileChoice choice;
    if (part.count == 1) {
        choice.paths = {first};
        return choice;
    }
    const std::set<std::string> there(paths.begin(), paths.end());
    const std::string_view extension = std::string_view(first).substr(first.rfind('.'));
    for (int number = 1; number <= part.count; ++number) {
        choice.paths.push_back(part_path(part, number, extension));
        if (there.count(choice.paths.back()) != 0) continue;
        return base::Error{base::Errc::not_found,
                           fmt::format("{}: {} is missing, part {} of {} of the model", repository,
                                       choice.paths.back(), number, part.count)};
    }
    return choice;
}

std::vector<std::string> folder_files(std::span<const std::string> paths) {
    std::vector<std::string> chosen;
    bool named_model = false;
    for (const std::string& path : paths) {
        named_model |= path.starts_with("model") && path.ends_with(".safetensors");
    }
    for (const std::string& path : paths) {
        const bool weights = path.find('/') == std::string::npos &&
                             path.ends_with(".safetensors") &&
                             (!named_model || path.starts_with("model"));
        if (weights || std::find(std::begin(kFolderFiles), std::end(kFolderFiles), path) !=
                           std::end(kFolderFiles)) {
            chosen.push_back(path);
        }
    }
    return chosen;
}

base::Result<FileChoice> choose_folder(std::span<const std::string> paths,
                                       const std::string& repository) {
    FileChoice choice;
    choice.folder = true;
    choice.paths = folder_files(paths);
    const auto has = [&](std::string_view name) {
        return std::find(choice.paths.begin(), choice.paths.end(), name) != choice.paths.end();
    };
    const auto weights =
        std::find_if(choice.paths.begin(), choice.paths.end(), [](const std::string& p) {
            return p.ends_with(".safetensors") && p.find('/') == std::string::npos;
        });
    if (!has("config.json") || !has("tokenizer.json") || weights == choice.paths.end()) {
        return base::Error{
            base::Errc::not_found,
            repository +
                ": neither a GGUF file nor config.json, tokenizer.json and *.safetensors "
                "are in it"};
    }
    for (const std::string& path : choice.paths) {
        if (const auto parts = all_parts(paths, path, repository); !parts.ok()) {
            return parts.error();
        }
    }
    return choice;
}

}  // namespace

FilePart file_part(std::string_view path) {
    const std::size_t dot = path.rfind('.');
    FilePart part;
    part.stem = path.substr(0, dot);
    constexpr std::string_view kShape = "-00001-of-00001";
    if (part.stem.size() <= kShape.size()) return part;
    const std::string_view end =
        std::string_view(part.stem).substr(part.stem.size() - kShape.size());
    int numbers[2] = {};
    for (int i = 0; i < 2; ++i) {
        const std::string_view digits = end.substr(i == 0 ? 1 : 10, 5);
        const auto read = std::from_chars(digits.data(), digits.data() + 5, numbers[i]);
        if (read.ec != std::errc() || read.ptr != digits.data() + 5 || digits[0] == '-')
            return part;
    }
    if (end[0] != '-' || end.substr(6, 4) != "-of-") return part;
    if (numbers[0] < 1 || numbers[0] > numbers[1] || numbers[1] > kMostParts) return part;
    part.number = numbers[0];
    part.count = numbers[1];
    part.stem.resize(part.stem.size() - kShape.size());
    return part;
}

std::string part_path(const FilePart& part, int number, std::string_view extension) {
    return fmt::format("{}-{:05}-of-{:05}{}", part.stem, number, part.count, extension);
}

std::vector<std::string> gguf_models(std::span<const std::string> paths) {
    std::vector<std::string> models;
    for (const std::string& path : paths) {
        if (is_gguf_model(path) && file_part(path).number == 1) models.push_back(path);
    }
    std::sort(models.begin(), models.end());
    return models;
}

std::string shortest_tag(std::span<const std::string> paths, const std::string& path) {
    const std::vector<std::string> models = gguf_models(paths);
    const std::string stem(file_name(file_part(path).stem));
    for (std::size_t at = stem.size(); at-- > 1;) {
        if (stem[at - 1] != '-' && stem[at - 1] != '.') continue;
        const std::string tag = stem.substr(at);
        if (with_tag(models, tag) == std::vector<std::string>{path}) return tag;
    }
    return path;
}

base::Result<FileChoice> choose_files(std::span<const std::string> paths, const std::string& tag,
                                      const std::string& repository) {
    const std::vector<std::string> models = gguf_models(paths);
    if (!tag.empty() && std::find(paths.begin(), paths.end(), tag) != paths.end()) {
        const FilePart part = file_part(tag);
        if (part.count == 1) return all_parts(paths, tag, repository);
        return all_parts(paths, part_path(part, 1, std::string_view(tag).substr(tag.rfind('.'))),
                         repository);
    }
    if (tag.empty()) {
        for (const std::string usual : {"Q4_K_M", "Q8_0"}) {
            const std::vector<std::string> found = with_tag(models, usual);
            if (!found.empty()) return all_parts(paths, found.front(), repository);
        }
        if (!models.empty()) return all_parts(paths, models.front(), repository);
        return choose_folder(paths, repository);
    }
    const std::vector<std::string> found = with_tag(models, tag);
    if (found.size() == 1) return all_parts(paths, found.front(), repository);
    if (found.size() > 1) {
        return base::invalid(fmt::format("{}: the tag {} may mean {}: name the file's path instead",
                                         repository, tag, fmt::join(found, " or ")));
    }
    std::vector<std::string> tags;
    for (const std::string& model : models) tags.push_back(shortest_tag(paths, model));
    return base::Error{base::Errc::not_found,
                       models.empty()
                           ? fmt::format("{}: no GGUF file is in it, so no tag {}", repository, tag)
                           : fmt::format("{}: no GGUF file has the tag {}; there are {}",
                                         repository, tag, fmt::join(tags, ", "))};
}

}  // namespace helix::hub
