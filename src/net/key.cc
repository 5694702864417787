#include "net/key.h"

#include <sys/stat.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "base/check.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/hex.h"
#include "net/private_file.h"
#include "net/secret_keys.h"

namespace helix::net {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

constexpr std::uint64_t kMaxKeyFileBytes = std::uint64_t{64} << 10U;
constexpr std::uint64_t kMaxAllowListBytes = std::uint64_t{16} << 20U;

// The whole text of the list; "" when there is none.
Result<std::string> read_list_text(const std::string& path) {
    if (!std::filesystem::exists(path)) return std::string();
    TRY_VOID(check_only_ours(path));
    return base::read_file(path, kMaxAllowListBytes);
}

using Fields = std::map<std::string, std::string>;

Result<Fields> read_fields(const std::string& path, const std::string& role) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return io_error(path, "read");
    if ((info.st_mode & 077U) != 0) {
        return Error{Errc::denied,
                     fmt::format("{} can be read by others; run: chmod 600 {}", path, path)};
    }
    TRY_VOID(check_only_ours(path));
    TRY(const std::string text, base::read_file(path, kMaxKeyFileBytes));
    std::istringstream file(text);
    Fields fields;
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string name;
        std::string value;
        if (words >> name && name.front() != '#') {
            words >> value;
            fields[name] = value;
            if (name == "helix-key") words >> fields["name"];
        }
    }
    if (fields["helix-key"] != role) {
        return base::invalid(
            fmt::format("{} is no {} key file (helix key new makes one)", path, role));
    }
    return fields;
}

Result<std::string> key_field(const std::string& path, const Fields& fields, const char* name) {
    const auto found = fields.find(name);
    if (found != fields.end() && is_z85_key(found->second)) return found->second;
    return base::invalid(fmt::format("{}: \"{}\" must be a key of 40 Z85 characters", path, name));
}

}  // namespace

bool is_worker_name(std::string_view name) {
    if (name.empty() || name.size() > 64) return false;
    for (const char c : name) {
        const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
        if (!good) return false;
    }
    return true;
}

Status check_worker_name(const std::string& name) {
    if (is_worker_name(name)) return Ok{};
    return base::invalid(fmt::format(
        "worker name \"{}\": expected 1 to 64 letters, digits, dots, dashes or underscores",
        base::escaped(name)));
}

Status check_key_name(const std::string& name) {
    const bool prefix = name.size() > 1 && name.back() == '*';
    return check_worker_name(prefix ? name.substr(0, name.size() - 1) : name);
}

bool is_key_for(std::string_view key_name, std::string_view worker) {
    if (!key_name.ends_with('*')) return !key_name.empty() && key_name == worker;
    key_name.remove_suffix(1);
    return is_worker_name(worker) && worker.starts_with(key_name) && worker != key_name;
}

KeyPair make_key_pair() {
    std::array<char, 41> public_key = {};
    std::array<char, 41> secret_key = {};
    CHECK(zmq_curve_keypair(public_key.data(), secret_key.data()) == 0);
    return {public_key.data(), secret_key.data()};
}

bool is_z85_key(std::string_view text) {
    if (text.size() != 40) return false;
    std::array<std::uint8_t, 32> bytes = {};
    const std::string copy(text);
    return zmq_z85_decode(bytes.data(), copy.c_str()) != nullptr;
}

Result<CoordinatorKey> new_coordinator_key(const std::string& path) {
    const KeyPair pair = make_key_pair();
    TRY_VOID(create_private(path, fmt::format("helix-key coordinator\npublic {}\nsecret {}\n",
                                              pair.public_key, pair.secret_key)));
    return CoordinatorKey{pair, path + ".allow"};
}

namespace {

bool is_listed(const std::vector<AllowedWorker>& allowed, const std::string& name) {
    return std::any_of(allowed.begin(), allowed.end(),
                       [&](const AllowedWorker& worker) { return worker.name == name; });
}

// A key for a worker of a name that the list does not have yet.
Result<WorkerKey> make_worker_key(const CoordinatorKey& coordinator, const std::string& name) {
    TRY_VOID(check_key_name(name));
    TRY(const std::vector<AllowedWorker> allowed, read_allow_list(coordinator.allow_path));
    if (is_listed(allowed, name)) {
        return base::invalid(
            fmt::format("{} already lists a worker \"{}\"; helix key revoke {} takes it off",
                        coordinator.allow_path, name, name));
    }
    return WorkerKey{name, make_key_pair(), coordinator.pair.public_key};
}

Status append_to_list(const std::string& list, const std::string& name,
                      const std::string& public_key) {
    TRY(std::string text, read_list_text(list));
    if (!text.empty() && text.back() != '\n') text += '\n';
    return replace_private(list, text + fmt::format("{} {}\n", name, public_key));
}

}  // namespace

std::string key_file_text(const WorkerKey& key) {
    return fmt::format("helix-key worker {}\npublic {}\nsecret {}\ncoordinator {}\n", key.name,
                       key.pair.public_key, key.pair.secret_key, key.coordinator_public_key);
}

Result<WorkerKey> list_new_worker(const std::string& coordinator_path, const std::string& name) {
    TRY_VOID(check_key_name(name));
    TRY(const CoordinatorKey coordinator, read_coordinator_key(coordinator_path));
    TRY(WorkerKey key, make_worker_key(coordinator, name));
    TRY_VOID(append_to_list(coordinator.allow_path, name, key.pair.public_key));
    return key;
}

Status list_worker(const std::string& coordinator_path, const std::string& name,
                   const std::string& public_key) {
    TRY_VOID(check_worker_name(name));
    if (!is_z85_key(public_key)) return base::invalid("the machine's public key is no key");
    TRY(const CoordinatorKey coordinator, read_coordinator_key(coordinator_path));
    TRY(const std::vector<AllowedWorker> allowed, read_allow_list(coordinator.allow_path));
    if (is_listed(allowed, name)) {
        return base::invalid(
            fmt::format("a worker \"{}\" is listed already: \"helix key revoke {}\" at the "
                        "coordinator takes it "
                        "off, or take another name (--name)",
                        name, name));
    }
    bool used = public_key == coordinator.pair.public_key;
    for (const AllowedWorker& worker : allowed) used = used || worker.public_key == public_key;
    if (used) return base::invalid("the machine's public key is another's");
    return append_to_list(coordinator.allow_path, name, public_key);
}

std::string key_fingerprint(const std::string& public_key) {
    const SecretHash hash = hash_secret(public_key);
    return base::to_hex(std::as_bytes(std::span(hash)).first(8));
}

Result<WorkerKey> new_worker_key(const std::string& coordinator_path, const std::string& name,
                                 const std::string& worker_path) {
    TRY_VOID(check_key_name(name));
    TRY(const CoordinatorKey coordinator, read_coordinator_key(coordinator_path));
    TRY(WorkerKey key, make_worker_key(coordinator, name));
    TRY_VOID(create_private(worker_path, key_file_text(key)));
    TRY_VOID(append_to_list(coordinator.allow_path, name, key.pair.public_key));
    return key;
}

Result<CoordinatorKey> read_coordinator_key(const std::string& path) {
    TRY(const Fields fields, read_fields(path, "coordinator"));
    CoordinatorKey key;
    TRY(key.pair.public_key, key_field(path, fields, "public"));
    TRY(key.pair.secret_key, key_field(path, fields, "secret"));
    key.allow_path = path + ".allow";
    return key;
}

Result<WorkerKey> read_worker_key(const std::string& path) {
    TRY(const Fields fields, read_fields(path, "worker"));
    WorkerKey key;
    key.name = fields.at("name");
    TRY(key.pair.public_key, key_field(path, fields, "public"));
    TRY(key.pair.secret_key, key_field(path, fields, "secret"));
    TRY(key.coordinator_public_key, key_field(path, fields, "coordinator"));
    return key;
}

Status revoke_worker_key(const std::string& coordinator_path, const std::string& name) {
    const std::string list = coordinator_path + ".allow";
    TRY(const std::string text, read_list_text(list));
    std::istringstream lines(text);
    std::string kept;
    std::string line;
    bool found = false;
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string first;
        if (words >> first && first == name) {
            found = true;
        } else {
            kept += line + "\n";
        }
    }
    if (!found) {
        return Error{Errc::not_found,
                     fmt::format("{} lists no worker \"{}\"", list, base::escaped(name))};
    }
    return replace_private(list, kept);
}

Result<std::vector<AllowedWorker>> read_allow_list(const std::string& path) {
    std::vector<AllowedWorker> allowed;
    TRY(const std::string text, read_list_text(path));
    std::istringstream file(text);
    std::string line;
    int number = 0;
    while (std::getline(file, line)) {
        ++number;
        std::istringstream words(line);
        AllowedWorker worker;
        if (!(words >> worker.name) || worker.name.front() == '#') continue;
        words >> worker.public_key;
        if (!is_z85_key(worker.public_key)) {
            return base::invalid(fmt::format(
                "{}:{}: expected \"NAME KEY\" with a key of 40 Z85 characters", path, number));
        }
        TRY_VOID(check_key_name(worker.name));
        for (const AllowedWorker& other : allowed) {
            if (other.public_key != worker.public_key) continue;
            return base::invalid(
                fmt::format("{}:{}: this key is listed twice, for {} and {}: a key is one worker's",
                            path, number, other.name, worker.name));
        }
        allowed.push_back(std::move(worker));
    }
    return allowed;
}

bool is_loopback(std::string_view host) {
    return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

Status check_key_needed(std::string_view host, bool have_key, bool insecure) {
    if (have_key || insecure || is_loopback(host)) return Ok{};
    return Error{
        Errc::denied,
        fmt::format("{} can be reached from other machines, so a key is needed: run \"helix key "
                    "new\" here and \"helix key new --worker NAME\" for each worker, then give the "
                    "files with --key (or --insecure to do without)",
                    host)};
}

}  // namespace helix::net
