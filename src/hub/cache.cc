#include "hub/cache.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/file_lock.h"
#include "hub/digest.h"
#include "hub/disk.h"
#include "spec/near_names.h"

namespace helix::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--";
constexpr std::string_view kAddresses = "urls--";
constexpr std::uint64_t kLargestRef = 256;
constexpr std::uint64_t kLargestSource = 1 << 16;

base::Error file_error(const fs::path& path, const char* doing, const std::error_code& error) {
    return {base::Errc::io,
            fmt::format("{}: cannot {}: {}", path.string(), doing, error.message())};
}

// Paths of the files below a folder, relative to it; links that lead nowhere are left out.
std::vector<std::string> files_below(const fs::path& folder) {
    std::vector<std::string> paths;
    std::error_code error;
    fs::recursive_directory_iterator entry(folder, error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        std::error_code gone;
        if (fs::is_regular_file(entry->path(), gone)) {
            paths.push_back(entry->path().lexically_relative(folder).generic_string());
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::uint64_t bytes_of(const fs::path& file) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(file, error);
    return error ? 0 : bytes;
}

// "models--owner--repo" taken apart.
std::optional<ModelName> name_of_folder(const fs::path& folder) {
    std::string text = folder.filename().string();
    if (!text.starts_with(kModels)) return std::nullopt;
    text = text.substr(kModels.size());
    const std::size_t gap = text.find("--");
    if (gap == std::string::npos) return std::nullopt;
    auto name = parse_model_name(text.substr(0, gap) + "/" + text.substr(gap + 2));
    if (!name.ok()) return std::nullopt;
    return *name;
}

base::Status replace_text(const fs::path& path, const std::string& text) {
    TRY_VOID(make_folder(path.parent_path()));
    const fs::path part = path.string() + fmt::format(".{}.new", ::getpid());
    {
        std::ofstream file(part, std::ios::binary);
        file << text;
        file.close();
        if (!file) {
            ::unlink(part.c_str());
            return base::Error{base::Errc::io, path.string() + ": cannot be written"};
        }
    }
    std::error_code error;
    fs::rename(part, path, error);
    if (error) return file_error(path, "write", error);
    return base::Ok{};
}

}  // namespace

fs::path Cache::repository(const ModelName& name) const {
    return root_ / fmt::format("{}{}--{}", kModels, name.owner, name.repo);
}

fs::path Cache::blob(const ModelName& name, const std::string& etag) const {
    return repository(name) / "blobs" / etag;
}

fs::path Cache::lock(const ModelName& name, const std::string& etag) const {
    return root_ / ".locks" / repository(name).filename() / (etag + ".lock");
}

fs::path Cache::snapshot(const ModelName& name, const std::string& commit) const {
    return repository(name) / "snapshots" / commit;
}

fs::path Cache::address_folder(const std::string& address) const {
    Digest digest = Digest::sha256();
    digest.add(std::as_bytes(std::span(address)));
    return root_ / fmt::format("{}{}", kAddresses, digest.hex().substr(0, 16));
}

fs::path Cache::address_lock(const std::string& address, const std::string& file) const {
    return root_ / ".locks" / address_folder(address).filename() / (file + ".lock");
}

base::Status Cache::link(const ModelName& name, const std::string& commit, const std::string& path,
                         const std::string& etag) const {
    const fs::path at = snapshot(name, commit) / path;
    TRY_VOID(make_folder(at.parent_path()));
    const fs::path target = blob(name, etag).lexically_relative(at.parent_path());
    std::error_code error;
    if (fs::read_symlink(at, error) == target) return base::Ok{};
    const fs::path fresh = at.string() + fmt::format(".{}.new", ::getpid());
    fs::remove(fresh, error);
    fs::create_symlink(target, fresh, error);
    if (error) return file_error(at, "make this link", error);
    fs::rename(fresh, at, error);
    if (error) return file_error(at, "make this link", error);
    return base::Ok{};
}

base::Status Cache::write_ref(const ModelName& name, const std::string& commit) const {
    if (name.revision == commit) return base::Ok{};
    return replace_text(repository(name) / "refs" / name.revision, commit);
}

std::optional<std::string> Cache::commit_of(const ModelName& name) const {
    if (is_hex(name.revision, 40)) return name.revision;
    const fs::path ref = repository(name) / "refs" / name.revision;
    auto text = base::read_file(ref.string(), kLargestRef);
    if (!text.ok()) return std::nullopt;
    while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
    if (!is_hex(*text, 40)) return std::nullopt;
    return *text;
}

base::Result<CachedModel> Cache::chosen(const ModelName& name, const std::string& commit,
                                        const FileChoice& choice) const {
    const fs::path folder = snapshot(name, commit);
    CachedModel model{
        name.text(), choice.folder ? folder : folder / choice.paths.front(), {}, 0, commit};
    for (const std::string& path : choice.paths) {
        model.files.push_back(folder / path);
        model.bytes += bytes_of(folder / path);
    }
    return model;
}

base::Result<CachedModel> Cache::find(const ModelName& name) const {
    const base::Error absent{base::Errc::not_found,
                             fmt::format("{}: is not in {}", name.text(), root_.string())};
    const auto commit = commit_of(name);
    if (!commit) return absent;
    const std::vector<std::string> paths = files_below(snapshot(name, *commit));
    if (paths.empty()) return absent;
    TRY(const FileChoice choice, choose_files(paths, name.tag, name.repository()));
    return chosen(name, *commit, choice);
}

base::Result<CachedModel> Cache::find_address(const std::string& address) const {
    const fs::path folder = address_folder(address);
    const base::Error absent{base::Errc::not_found,
                             fmt::format("{}: is not in {}", address, root_.string())};
    const auto text = base::read_file((folder / "source.json").string(), kLargestSource);
    if (!text.ok()) return absent;
    const auto source = nlohmann::json::parse(*text, nullptr, false);
    if (!source.is_object() || !source.contains("files") || !source["files"].is_array()) {
        return absent;
    }
    CachedModel model{address, {}, {}, 0, {}};
    for (const auto& file : source["files"]) {
        if (!file.is_string() || !is_safe_path(file.get<std::string>())) return absent;
        const fs::path path = folder / file.get<std::string>();
        std::error_code error;
        if (!fs::is_regular_file(path, error)) return absent;
        model.files.push_back(path);
        model.bytes += bytes_of(path);
    }
    if (model.files.empty()) return absent;
    model.path = model.files.front();
    return model;
}

void Cache::list_repository(const fs::path& folder, std::vector<CachedModel>& to) const {
    const auto name = name_of_folder(folder);
    if (!name) return;
    for (const fs::path& at : base::folder_entries(folder / "snapshots")) {
        const std::string commit = at.filename().string();
        if (!is_hex(commit, 40)) continue;
        ModelName here = *name;
        if (commit_of(here) != commit) here.revision = commit;
        const std::vector<std::string> paths = files_below(at);
        for (const std::string& path : gguf_models(paths)) {
            here.tag = shortest_tag(paths, path);
            if (auto model = find(here); model.ok()) to.push_back(std::move(model).value());
        }
        if (!gguf_models(paths).empty()) continue;
        here.tag.clear();
        if (auto model = find(here); model.ok()) to.push_back(std::move(model).value());
    }
}

std::vector<CachedModel> Cache::list() const {
    std::vector<CachedModel> models;
    for (const fs::path& folder : base::folder_entries(root_)) {
        list_repository(folder, models);
        if (!folder.filename().string().starts_with(kAddresses)) continue;
        const auto text = base::read_file((folder / "source.json").string(), kLargestSource);
        if (!text.ok()) continue;
        const auto source = nlohmann::json::parse(*text, nullptr, false);
        if (!source.is_object() || !source.value("address", nlohmann::json()).is_string()) continue;
        auto model = find_address(source["address"].get<std::string>());
        if (model.ok()) models.push_back(std::move(model).value());
    }
    return models;
}

// A file of which nobody has the lock stays so only while we hold it ourselves.
base::Result<std::uint64_t> Cache::remove_folder(const fs::path& folder) const {
    std::vector<std::unique_ptr<base::FileLock>> held;
    for (const fs::path& lock : base::folder_entries(root_ / ".locks" / folder.filename())) {
        TRY(std::unique_ptr<base::FileLock> taken, base::FileLock::try_take(lock));
        if (taken == nullptr) {
            return base::Error{base::Errc::unavailable,
                               folder.string() + ": is being pulled; end that first"};
        }
        held.push_back(std::move(taken));
    }
    std::uint64_t freed = 0;
    for (const std::string& path : files_below(folder)) {
        if (!fs::is_symlink(folder / path)) freed += bytes_of(folder / path);
    }
    std::error_code error;
    fs::remove_all(folder, error);
    if (error) return file_error(folder, "remove", error);
    return freed;
}

base::Result<std::uint64_t> Cache::remove_files(const ModelName& name) const {
    TRY(const CachedModel model, find(name));
    std::set<fs::path> blobs;
    std::error_code error;
    for (const fs::path& file : model.files) {
        const fs::path blob = fs::weakly_canonical(file, error);
        if (!error && fs::is_symlink(file)) blobs.insert(blob);
    }
    std::uint64_t freed = 0;
    for (const fs::path& file : model.files) {
        if (!fs::is_symlink(file)) freed += bytes_of(file);
        fs::remove(file, error);
        if (error) return file_error(file, "remove", error);
    }
    // Other snapshots may have links to the same blobs.
    const fs::path snapshots = repository(name) / "snapshots";
    for (const std::string& path : files_below(snapshots)) {
        blobs.erase(fs::weakly_canonical(snapshots / path, error));
    }
    const fs::path ours = fs::weakly_canonical(repository(name) / "blobs", error);
    for (const fs::path& blob : blobs) {
        if (blob.parent_path() != ours) continue;
        freed += bytes_of(blob);
        fs::remove(blob, error);
        if (error) return file_error(blob, "remove", error);
    }
    return freed;
}

base::Result<std::uint64_t> Cache::remove(const std::string& text) const {
    std::error_code ignored;
    std::vector<std::string> names;
    for (const CachedModel& model : list()) names.push_back(model.name);
    const base::Error absent{
        base::Errc::not_found,
        fmt::format("{}: is not in {}{}", text, root_.string(), spec::did_you_mean(text, names))};
    if (is_web_address(text) && fs::is_directory(address_folder(text), ignored)) {
        return remove_folder(address_folder(text));
    }
    TRY(const ModelName name, parse_model_name(text));
    if (!fs::is_directory(repository(name), ignored)) return absent;
    if (name.tag.empty() && name.revision == "main") return remove_folder(repository(name));
    auto freed = remove_files(name);
    if (!freed.ok() && freed.error().code == base::Errc::not_found) return absent;
    return freed;
}

}  // namespace helix::hub
