#include "hub/pull.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "hub/file_choice.h"
#include "hub/helix_server.h"
#include "hub/hub_client.h"
#include "hub/model_name.h"
#include "spec/near_names.h"
#include "spec/units.h"

namespace helix::hub {
namespace {

namespace fs = std::filesystem;

// Of a disk that is left to others.
constexpr std::uint64_t kSpareBytes = std::uint64_t{16} << 20U;
constexpr std::size_t kHashReadBytes = std::size_t{1} << 20U;

World make_world(const PullOptions& options, Http& http) {
    World world;
    world.http = &http;
    world.patience = options.patience;
    world.disk = options.disk;
    world.pause = [&options](base::Duration pause, const std::string& why) {
        if (options.note) options.note(pause, why);
        std::this_thread::sleep_for(std::chrono::nanoseconds(pause.ns));
    };
    return world;
}

base::Status check_room(const World& world, const fs::path& folder, std::uint64_t needed,
                        const std::string& what) {
    if (needed == 0) return base::Ok{};
    TRY_VOID(make_folder(folder));
    TRY(const std::uint64_t free, world.disk.free_bytes(folder));
    if (free >= needed + kSpareBytes) return base::Ok{};
    return base::Error{
        base::Errc::io,
        fmt::format("{}: {} are still to come, and {} are free in {}; make room, or set "
                    "HELIX_CACHE to another folder",
                    what, spec::format_bytes(static_cast<std::int64_t>(needed)),
                    spec::format_bytes(static_cast<std::int64_t>(free)), folder.string())};
}

base::Error is_offline(const std::string& what) {
    return {base::Errc::unavailable,
            what + ": is not on this machine, and HF_HUB_OFFLINE forbids to pull it"};
}

// The chosen files of a commit, with what the hub says of them.
base::Result<std::vector<RemoteFile>> chosen_files(const std::vector<RemoteFile>& files,
                                                   const ModelName& name) {
    std::map<std::string, RemoteFile> by_path;
    std::vector<std::string> paths;
    for (const RemoteFile& file : files) {
        by_path[file.path] = file;
        paths.push_back(file.path);
    }
    TRY(const FileChoice choice, choose_files(paths, name.tag, name.repository()));
    std::vector<RemoteFile> chosen;
    for (const std::string& path : choice.paths) chosen.push_back(by_path.at(path));
    return chosen;
}

// One model of the hub on its way.
class HubPull {
  public:
    HubPull(const ModelName& name, const PullOptions& options)
        : name_(name),
          options_(options),
          cache_(options.settings.cache),
          http_(options.patience.http),
          world_(make_world(options, http_)),
          client_(options.settings, world_) {}

    base::Result<Pulled> run() {
        TRY(commit_, client_.commit_of(name_));
        TRY(const std::vector<RemoteFile> all, client_.files_of(name_, commit_));
        TRY(const std::vector<RemoteFile> files, chosen_files(all, name_));
        std::uint64_t missing = 0;
        for (const RemoteFile& file : files) {
            total_ += file.bytes;
            missing += missing_bytes(file);
        }
        TRY_VOID(check_room(world_, cache_.root(), missing, name_.text()));
        Pulled pulled;
        for (const RemoteFile& file : files) {
            TRY(const Downloaded done, bring(file));
            TRY_VOID(cache_.link(name_, commit_, file.path, file.etag));
            before_ += file.bytes;
            pulled.received += done.received;
            pulled.files.push_back({file.path, file.bytes, file.etag});
        }
        TRY_VOID(cache_.write_ref(name_, commit_));
        // Another process may have moved the branch on meanwhile.
        ModelName here = name_;
        here.revision = commit_;
        TRY(pulled.model, cache_.find(here));
        pulled.model.name = name_.text();
        return pulled;
    }

  private:
    std::uint64_t missing_bytes(const RemoteFile& file) const {
        const fs::path path = cache_.blob(name_, file.etag);
        std::error_code error;
        const std::uint64_t there = fs::file_size(path, error);
        if (!error && there == file.bytes) return 0;
        return file.bytes - std::min(file.bytes, arrived_bytes(path));
    }

    base::Result<Downloaded> bring(const RemoteFile& file) {
        Download download_file;
        download_file.what = name_.repository() + "/" + file.path;
        download_file.path = cache_.blob(name_, file.etag);
        download_file.lock = cache_.lock(name_, file.etag);
        download_file.bytes = file.bytes;
        (file.large ? download_file.sha256 : download_file.git_sha1) = file.etag;
        download_file.address = [&] { return client_.address_of(name_, commit_, file); };
        download_file.progress = [&](std::uint64_t done, std::uint64_t) {
            if (options_.progress) options_.progress({file.path, before_ + done, total_});
        };
        return download(download_file, world_);
    }

    const ModelName& name_;
    const PullOptions& options_;
    Cache cache_;
    Http http_;
    World world_;
    HubClient client_;
    std::string commit_;
    std::uint64_t total_ = 0;
    std::uint64_t before_ = 0;  // of the files that are there
};

std::string last_part_of(const std::string& address) {
    const std::string shown = shown_address(address);
    return shown.substr(shown.rfind('/') + 1);
}

// The addresses of all parts of a file; one for a file that is whole.
std::vector<std::string> part_addresses(const std::string& address) {
    const std::size_t end = std::min(address.find_first_of("?#"), address.size());
    const std::string path = address.substr(0, end);
    const FilePart part = file_part(path);
    if (part.count == 1) return {address};
    std::vector<std::string> addresses;
    for (int number = 1; number <= part.count; ++number) {
        addresses.push_back(part_path(part, number, path.substr(path.rfind('.'))) +
                            address.substr(end));
    }
    return addresses;
}

base::Result<std::string> hash_of(const fs::path& path) {
    TRY(const auto file, base::RegularFile::open(path.string()));
    Digest digest = Digest::sha256();
    std::vector<std::byte> buffer(kHashReadBytes);
    for (std::uint64_t at = 0; at < file->bytes();) {
        TRY(const std::size_t count, file->read_some(at, buffer));
        if (count == 0) break;
        digest.add(std::span(buffer).first(count));
        at += count;
    }
    return digest.hex();
}

base::Status check_gguf(const fs::path& path, const std::string& address) {
    std::ifstream file(path, std::ios::binary);
    char magic[4] = {};
    file.read(magic, sizeof magic);
    if (file && std::string_view(magic, 4) == "GGUF") return base::Ok{};
    std::error_code ignored;
    fs::remove(path, ignored);
    return base::invalid(shown_address(address) + ": is no GGUF file");
}

// What an address leads to, on its way.
class AddressPull {
  public:
    AddressPull(const std::string& address, const PullOptions& options)
        : address_(address),
          options_(options),
          cache_(options.settings.cache),
          http_(options.patience.http),
          world_(make_world(options, http_)) {}

    // The same of another Helix, which serves a model as one file, whatever it is made of.
    base::Result<Pulled> run_helix() {
        CHECK(options_.check_model);
        TRY(const HelixModel found, find_on_helix(world_, address_, options_.key));
        address_ = found.address;
        TRY(const Downloaded done, bring(found.address, found.file_name, &found));
        return keep({{found.file_name, done.bytes, done.hash}}, done.received);
    }

    base::Result<Pulled> run() {
        const std::vector<std::string> addresses = part_addresses(address_);
        if (addresses.size() > 1 && !options_.sha256.empty()) {
            return base::invalid("--sha256: the address leads to a file in several parts");
        }
        std::vector<PulledFile> files;
        std::uint64_t received = 0;
        for (const std::string& address : addresses) {
            const std::string name = last_part_of(address);
            if (!is_safe_path(name) || !name.ends_with(".gguf")) {
                return base::invalid(shown_address(address) +
                                     ": expected the address of a .gguf file");
            }
            TRY(const Downloaded done, bring(address, name, nullptr));
            received += done.received;
            files.push_back({name, done.bytes, done.hash});
        }
        return keep(std::move(files), received);
    }

  private:
    // Notes what the address leads to, so that it is found.
    base::Result<Pulled> keep(std::vector<PulledFile> files, std::uint64_t received) {
        nlohmann::json source = {{"address", address_}, {"files", nlohmann::json::array()}};
        for (const PulledFile& file : files) source["files"].push_back(file.path);
        const fs::path folder = cache_.address_folder(address_);
        const std::string text = source.dump();
        TRY_VOID(base::write_private_file((folder / "source.json").string(),
                                          std::as_bytes(std::span(text))));
        Pulled pulled;
        pulled.files = std::move(files);
        pulled.received = received;
        TRY(pulled.model, cache_.find_address(address_));
        return pulled;
    }

    // helix: null for an address that is no Helix's.
    base::Result<Downloaded> bring(const std::string& address, const std::string& name,
                                   const HelixModel* helix) {
        Download file;
        file.what = shown_address(address);
        file.path = cache_.address_folder(address_) / name;
        file.lock = cache_.address_lock(address_, name);
        file.sha256 = options_.sha256;
        if (helix != nullptr) file.bytes = helix->model.bytes;
        file.address = [&]() -> base::Result<FileAddress> {
            if (helix != nullptr) return FileAddress{address, helix->key, false};
            const bool hub = same_origin(address, options_.settings.endpoint);
            return FileAddress{address, hub ? options_.settings.token : "", false};
        };
        file.progress = [&](std::uint64_t done, std::uint64_t total) {
            if (options_.progress) options_.progress({name, done, total});
        };
        TRY(Downloaded done, download(file, world_));
        TRY_VOID(check_gguf(file.path, address));
        if (helix != nullptr) TRY_VOID(check_content(file.path, *helix));
        if (!done.hash.empty()) return done;
        TRY(done.hash, hash_of(file.path));
        if (file.sha256.empty() || done.hash == file.sha256) return done;
        return base::Error{base::Errc::io,
                           fmt::format("{}: its SHA-256 is {}, expected {}; 'helix model rm' "
                                       "removes it",
                                       file.path.string(), done.hash, file.sha256)};
    }

    // Nothing stays of a file with another content.
    base::Status check_content(const fs::path& path, const HelixModel& helix) const {
        const base::Status same = options_.check_model(path, helix.model.hash);
        std::error_code ignored;
        if (!same.ok()) fs::remove(path, ignored);
        return same;
    }

    std::string address_;
    const PullOptions& options_;
    Cache cache_;
    Http http_;
    World world_;
};

}  // namespace

base::Result<Pulled> pull(const ModelName& name, const PullOptions& options) {
    if (options.settings.offline) return is_offline(name.text());
    if (!options.sha256.empty()) {
        return base::invalid("--sha256: a hub says itself which hash its files have");
    }
    return HubPull(name, options).run();
}

base::Result<Pulled> pull_address(const std::string& address, const PullOptions& options) {
    if (options.settings.offline) return is_offline(shown_address(address));
    if (!options.sha256.empty() && !is_hex(options.sha256, 64)) {
        return base::invalid("--sha256: expected 64 hexadecimal digits in lower case");
    }
    AddressPull pull(address, options);
    return looks_like_helix_address(address) ? pull.run_helix() : pull.run();
}

base::Result<CachedModel> find_or_pull(const std::string& text, const PullOptions& options) {
    const Cache cache(options.settings.cache);
    const bool name_of_hub = looks_like_model_name(text);
    std::optional<ModelName> name;
    if (name_of_hub) {
        TRY(name, parse_model_name(text));
    }
    const auto there = name ? cache.find(*name) : cache.find_address(text);
    if (there.ok()) return there;
    auto pulled = name ? pull(*name, options) : pull_address(text, options);
    if (pulled.ok()) return std::move(pulled->model);
    std::vector<std::string> names;
    for (const CachedModel& model : cache.list()) names.push_back(model.name);
    base::Error error = pulled.error();
    error.message += spec::did_you_mean(text, names);
    return error;
}

}  // namespace helix::hub
