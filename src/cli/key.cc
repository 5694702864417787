// helix key new|revoke

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/escape.h"
#include "base/file.h"
#include "cli/command.h"
#include "net/key.h"
#include "net/private_file.h"

namespace helix::cli {
namespace {

base::Result<std::string> default_key_path() {
    const char* home = std::getenv("HOME");
    if (home == nullptr) return base::invalid("HOME is not set: say where with --file");
    const std::filesystem::path folder = std::filesystem::path(home) / ".helix";
    TRY_VOID(base::make_private_folder(folder.string()));
    return (folder / "coordinator.key").string();
}

// The name is looked at before anything is made.
base::Status new_key(std::string file, const std::string& worker, std::string out) {
    if (!worker.empty()) TRY_VOID(net::check_key_name(worker));
    if (file.empty()) {
        TRY(file, default_key_path());
    }
    if (worker.empty()) {
        TRY(const auto key, net::new_coordinator_key(file));
        std::printf(
            "The coordinator's key is in %s; it stays on this machine.\n"
            "Next, the coordinator on a network, where anyone may chat with it (--api-key-file\n"
            "FILE in place of --open: who has a key):\n\n"
            "  helix serve MODEL --listen 0.0.0.0:8080 --key %s --open\n\n"
            "Then other machines, by a code that is typed there once, or by a key for each:\n\n"
            "  helix pair\n"
            "  helix key new --worker NAME\n",
            file.c_str(), file.c_str());
        return base::Ok{};
    }
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) {
        TRY(const auto made, net::new_coordinator_key(file));
        std::printf("Made the coordinator's key %s.\n", file.c_str());
    }
    if (out.empty()) {
        out = worker;
        while (out.ends_with('*') || out.ends_with('-')) out.pop_back();
        out += ".key";
    }
    TRY(const auto key, net::new_worker_key(file, worker, out));
    std::printf(
        "%s may join now, under this name only. Copy %s to that machine, then start\n\n"
        "  here:   helix serve --model FILE --listen HOST:8080 --key %s\n"
        "  there:  helix worker --join HOST:8080 --key %s\n",
        worker.c_str(), out.c_str(), file.c_str(), out.c_str());
    return base::Ok{};
}

base::Status revoke_key(std::string file, const std::string& worker) {
    if (file.empty()) {
        TRY(file, default_key_path());
    }
    TRY_VOID(net::revoke_worker_key(file, worker));
    std::printf(
        "%s is off the list %s.allow: a coordinator that uses it ends the worker's session within "
        "a second or two.\n",
        base::escaped(worker).c_str(), file.c_str());
    return base::Ok{};
}

}  // namespace

void add_key(App& app) {
    CLI::App* key = app.parser.add_subcommand("key", "Keys for machines that meet over a network");
    key->require_subcommand(1);
    key->footer("Examples:\n  helix key new\n  helix key new --worker den\n  helix key revoke den");
    CLI::App* made = key->add_subcommand(
        "new", "Makes the coordinator's key, or with --worker a key that lets one machine join");
    auto file = std::make_shared<std::string>();
    auto worker = std::make_shared<std::string>();
    auto out = std::make_shared<std::string>();
    made->add_option("--file", *file, "the coordinator's key file [~/.helix/coordinator.key]");
    made->add_option("--worker", *worker,
                     "a name for the machine that may join; PREFIX* lets in any number of names "
                     "that begin so");
    made->add_option("--out", *out, "the worker's key file [NAME.key]")->needs("--worker");
    made->footer(
        "Examples:\n  helix key new\n  helix key new --worker den\n"
        "  helix key new --worker 'cloud-*'    for machines that a script starts");
    made->callback(
        [&app, file, worker, out] { app.action = [=] { return new_key(*file, *worker, *out); }; });
    CLI::App* revoked = key->add_subcommand(
        "revoke", "Takes a machine off the list: it cannot join any more, and its session ends");
    revoked->add_option("NAME", *worker, "as it was given to 'helix key new --worker'")->required();
    revoked->add_option("--file", *file, "the coordinator's key file [~/.helix/coordinator.key]");
    revoked->footer("Examples:\n  helix key revoke den");
    revoked->callback(
        [&app, file, worker] { app.action = [=] { return revoke_key(*file, *worker); }; });
}

}  // namespace helix::cli
