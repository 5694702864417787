#include "cli/pairing_option.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

#include <fmt/format.h>

#include "api/pairing.h"
#include "base/file.h"
#include "base/log.h"
#include "net/private_file.h"
#include "node/join.h"
#include "node/pair.h"

namespace helix::cli {
namespace {

using base::Errc;
using base::Result;
using Key = std::optional<net::WorkerKey>;

constexpr int kAskTimeoutMs = 3000;
constexpr std::chrono::seconds kPairTimeout{10};
constexpr int kAskTimes = 3;  // on a terminal

// The folder of keys; "" where there is none.
std::filesystem::path key_folder() {
    const char* home = std::getenv("HOME");
    return home == nullptr ? std::filesystem::path() : std::filesystem::path(home) / ".helix";
}

constexpr std::string_view kFileBegin = "worker-of-";

// The key files whose names begin so; with a worker's name only its.
std::vector<std::string> key_files(const std::string& begin, const std::string& name) {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator(key_folder(), ignored)) {
        const std::string base = file.path().filename().string();
        const bool fits =
            name.empty() ? base.ends_with(".key") : base.ends_with("-" + name + ".key");
        if (base.starts_with(begin) && fits) out.push_back(file.path().string());
    }
    return out;
}

Result<std::string> code_in(const std::string& file) {
    std::string line;
    if (file == "-") {
        std::getline(std::cin, line);
    } else {
        std::ifstream in(file);
        if (!in) return base::Error{Errc::io, "--pair-code-file: cannot read " + file};
        std::getline(in, line);
    }
    const auto code = api::typed_code(line);
    if (!code) return base::invalid("--pair-code-file: expected a code of 8 digits");
    return *code;
}

Result<std::string> asked_code() {
    for (int i = 0; i < kAskTimes; ++i) {
        std::fputs("Pairing code ('helix pair' at the coordinator shows one, or its page): ",
                   stderr);
        std::string line;
        if (!std::getline(std::cin, line)) break;
        if (const auto code = api::typed_code(line)) return *code;
        std::fputs("A pairing code has 8 digits.\n", stderr);
    }
    return base::invalid("no pairing code was given");
}

Result<net::WorkerKey> pair(const PairingArguments& a, const node::Address& address,
                            const std::string& name) {
    for (int tries = 1;; ++tries) {
        std::string code;
        if (a.code_file.empty()) {
            TRY(code, asked_code());
        } else {
            TRY(code, code_in(a.code_file));
        }
        auto key = node::pair_with(address, name, code, kPairTimeout);
        const bool wrong = !key.ok() && key.error().code == Errc::denied;
        if (!wrong || !a.code_file.empty() || tries == kAskTimes) return key;
        std::fprintf(stderr, "%s\n", key.error().message.c_str());
    }
}

// The key file for this coordinator and name. Without a name it is the one that is there, if there
// is only one.
Result<std::string> file_for(const std::string& coordinator, const std::string& name) {
    const std::filesystem::path folder = key_folder();
    if (folder.empty()) return base::invalid("HOME is not set: say with --key where the key goes");
    const std::string begin = fmt::format("{}{}-", kFileBegin, net::key_fingerprint(coordinator));
    const std::vector<std::string> there = key_files(begin, name);
    if (there.size() == 1) return there.front();
    const std::string called = name.empty() ? node::machine_worker_name() : name;
    return (folder / fmt::format("{}{}.key", begin, called)).string();
}

Result<Key> key_in(const std::string& file) {
    TRY(net::WorkerKey key, net::read_worker_key(file));
    LOG_INFO("joining with the key {}, made by pairing", file);
    return Key(std::move(key));
}

// While the coordinator is away nobody says which one it is, and a worker with a key waits for it.
Result<Key> key_without_asking(const node::Address& address, const std::string& name) {
    const std::vector<std::string> there = key_files(std::string(kFileBegin), name);
    if (there.size() != 1 || net::is_loopback(address.host)) return Key();
    return key_in(there.front());
}

}  // namespace

void add_pairing_options(CLI::App& command, PairingArguments& a) {
    command.add_flag("--pair", a.pair,
                     "where it has no key yet, get one by the code that 'helix pair' shows at the "
                     "coordinator; it is kept in --key or in ~/.helix [asks on a terminal]");
    command.add_option("--pair-code-file", a.code_file,
                       "a file with the code, or - for standard input, in place of asking");
}

Result<Key> key_for(const PairingArguments& a, const PairingWish& wish) {
    if (!wish.name.empty()) TRY_VOID(net::check_worker_name(wish.name));
    const bool wanted = a.pair || !a.code_file.empty();
    std::error_code ignored;
    const bool has_file = !wish.key_file.empty() && std::filesystem::exists(wish.key_file, ignored);
    if (has_file || (!wish.key_file.empty() && !wanted)) {
        TRY(net::WorkerKey key, net::read_worker_key(wish.key_file));
        return Key(std::move(key));
    }
    TRY(const node::Address address, node::parse_address(wish.join));
    const auto info = node::ask_join_info(address, kAskTimeoutMs);
    if (!info.ok()) {
        TRY(Key key, key_without_asking(address, wish.name));
        if (wanted && !key) return info.error();
        return key;
    }
    if (info->public_key.empty()) {
        if (wanted) LOG_INFO("the coordinator asks for no key, so no pairing is needed");
        return Key();
    }
    std::string file = wish.key_file;
    if (file.empty()) {
        auto named = file_for(info->public_key, wish.name);
        if (!named.ok()) return wanted ? Result<Key>(named.error()) : Result<Key>(Key());
        file = *named;
    }
    if (std::filesystem::exists(file, ignored)) return key_in(file);
    if (!wanted && ::isatty(STDIN_FILENO) == 0) return Key();
    TRY_VOID(wish.check_single());
    if (wish.key_file.empty()) TRY_VOID(base::make_private_folder(key_folder().string()));
    TRY(net::WorkerKey key,
        pair(a, address, wish.name.empty() ? node::machine_worker_name() : wish.name));
    const base::Status kept = net::create_private(file, net::key_file_text(key));
    if (!kept.ok()) {
        return base::Error{kept.error().code,
                           fmt::format("{}; the coordinator lists the worker already: helix key "
                                       "revoke {} there takes it off",
                                       kept.error().message, key.name)};
    }
    LOG_INFO("paired: the key is kept in {}, so the next start needs no code", file);
    return Key(std::move(key));
}

}  // namespace helix::cli
