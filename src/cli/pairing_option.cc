#include "cli/pairing_option.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
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
constexpr std::chrono::seconds kAskAgain{1};
constexpr std::chrono::seconds kPairTimeout{10};
constexpr int kAskTimes = 3;  // on a terminal

// The folder of keys; "" where there is none.
std::filesystem::path key_folder() {
    const char* home = std::getenv("HOME");
    return home == nullptr ? std::filesystem::path() : std::filesystem::path(home) / ".helix";
}

constexpr std::string_view kFileBegin = "worker-of-";

bool has_paired_before(const std::filesystem::path& folder) {
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
        if (file.path().filename().string().starts_with(kFileBegin)) return true;
    }
    return false;
}

// What the coordinator says about joining; a worker that has a key waits until it says something.
Result<node::JoinInfo> join_info(const node::Address& address, bool wait) {
    bool told = false;
    while (true) {
        auto info = node::ask_join_info(address, kAskTimeoutMs);
        if (info.ok() || !wait || info.error().code != Errc::unavailable) return info;
        if (!told) LOG_WARN("{}; waiting for it", info.error().message);
        told = true;
        std::this_thread::sleep_for(kAskAgain);
    }
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
        std::fputs("Pairing code shown by 'helix pair' at the coordinator: ", stderr);
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
    std::vector<std::string> there;
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
        if (file.path().filename().string().starts_with(begin)) there.push_back(file.path());
    }
    if (name.empty() && there.size() == 1) return there.front();
    return (folder /
            fmt::format("{}{}.key", begin, name.empty() ? node::machine_worker_name() : name))
        .string();
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
    const auto info = join_info(address, has_paired_before(key_folder()));
    if (!info.ok()) return wanted ? Result<Key>(info.error()) : Result<Key>(Key());
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
    if (std::filesystem::exists(file, ignored)) {
        TRY(net::WorkerKey key, net::read_worker_key(file));
        LOG_INFO("joining with the key {}, made by pairing", file);
        return Key(std::move(key));
    }
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
