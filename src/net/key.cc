#include "net/key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::net {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

Error io_error(const std::string& path, const char* what) {
    return {Errc::io, fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno))};
}

Status write_all(int fd, const std::string& path, const std::string& text) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    const bool good = written == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
    Error error = io_error(path, "write");
    ::close(fd);
    if (!good) return error;
    return Ok{};
}

Status write_secret(const std::string& path, const std::string& text) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        return Error{Errc::invalid,
                     fmt::format("{} exists; a key file is never overwritten", path)};
    }
    if (fd < 0) return io_error(path, "create");
    return write_all(fd, path, text);
}

using Fields = std::map<std::string, std::string>;

Result<Fields> read_fields(const std::string& path, const std::string& role) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return io_error(path, "read");
    if ((info.st_mode & 077U) != 0) {
        return Error{Errc::denied,
                     fmt::format("{} can be read by others; run: chmod 600 {}", path, path)};
    }
    std::ifstream file(path);
    if (!file) return io_error(path, "read");
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

bool is_name(std::string_view name) {
    if (name.empty() || name.size() > 64) return false;
    for (const char c : name) {
        const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
        if (!good) return false;
    }
    return true;
}

}  // namespace

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
    TRY_VOID(write_secret(path, fmt::format("helix-key coordinator\npublic {}\nsecret {}\n",
                                            pair.public_key, pair.secret_key)));
    return CoordinatorKey{pair, path + ".allow"};
}

Result<WorkerKey> new_worker_key(const std::string& coordinator_path, const std::string& name,
                                 const std::string& worker_path) {
    if (!is_name(name)) {
        return base::invalid(fmt::format(
            "worker name \"{}\": expected 1 to 64 letters, digits, dots, dashes or underscores",
            name));
    }
    TRY(const CoordinatorKey coordinator, read_coordinator_key(coordinator_path));
    TRY(const std::vector<AllowedWorker> allowed, read_allow_list(coordinator.allow_path));
    for (const AllowedWorker& worker : allowed) {
        if (worker.name == name) {
            return base::invalid(
                fmt::format("{} already lists a worker \"{}\"; remove its line first",
                            coordinator.allow_path, name));
        }
    }
    const KeyPair pair = make_key_pair();
    TRY_VOID(write_secret(
        worker_path,
        fmt::format("helix-key worker {}\npublic {}\nsecret {}\ncoordinator {}\n", name,
                    pair.public_key, pair.secret_key, coordinator.pair.public_key)));
    const std::string& list = coordinator.allow_path;
    const int fd = ::open(list.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return io_error(list, "open");
    TRY_VOID(write_all(fd, list, fmt::format("{} {}\n", name, pair.public_key)));
    return WorkerKey{name, pair, coordinator.pair.public_key};
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

Result<std::vector<AllowedWorker>> read_allow_list(const std::string& path) {
    std::vector<AllowedWorker> allowed;
    std::ifstream file(path);
    std::string line;
    int number = 0;
    while (file && std::getline(file, line)) {
        ++number;
        std::istringstream words(line);
        AllowedWorker worker;
        if (!(words >> worker.name) || worker.name.front() == '#') continue;
        words >> worker.public_key;
        if (!is_z85_key(worker.public_key)) {
            return base::invalid(fmt::format(
                "{}:{}: expected \"NAME KEY\" with a key of 40 Z85 characters", path, number));
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
