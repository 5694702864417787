// helix key new

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "net/key.h"

namespace helix::cli {
namespace {

base::Result<std::string> default_key_path() {
    const char* home = std::getenv("HOME");
    if (home == nullptr) return base::invalid("HOME is not set: say where with --file");
    const std::filesystem::path folder = std::filesystem::path(home) / ".helix";
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return base::Error{base::Errc::io, folder.string() + ": " + error.message()};
    return (folder / "coordinator.key").string();
}

base::Status new_key(std::string file, const std::string& worker, std::string out) {
    if (file.empty()) {
        TRY(file, default_key_path());
    }
    if (worker.empty()) {
        TRY(const auto key, net::new_coordinator_key(file));
        std::printf(
            "The coordinator's key is in %s; it stays on this machine.\n"
            "Next, a key for each machine that may join:\n\n"
            "  helix key new --worker NAME\n",
            file.c_str());
        return base::Ok{};
    }
    if (!std::filesystem::exists(file)) {
        TRY(const auto made, net::new_coordinator_key(file));
        std::printf("Made the coordinator's key %s.\n", file.c_str());
    }
    if (out.empty()) out = worker + ".key";
    TRY(const auto key, net::new_worker_key(file, worker, out));
    std::printf(
        "%s may join now. Copy %s to that machine, then start\n\n"
        "  here:   helix serve --model FILE --listen HOST:8080 --key %s\n"
        "  there:  helix worker --join HOST:8080 --key %s\n",
        worker.c_str(), out.c_str(), file.c_str(), out.c_str());
    return base::Ok{};
}

}  // namespace

void add_key(App& app) {
    CLI::App* key = app.parser.add_subcommand("key", "Keys for machines that meet over a network");
    key->require_subcommand(1);
    key->footer("Examples:\n  helix key new\n  helix key new --worker den");
    CLI::App* made = key->add_subcommand(
        "new", "Makes the coordinator's key, or with --worker a key that lets one machine join");
    auto file = std::make_shared<std::string>();
    auto worker = std::make_shared<std::string>();
    auto out = std::make_shared<std::string>();
    made->add_option("--file", *file, "the coordinator's key file [~/.helix/coordinator.key]");
    made->add_option("--worker", *worker, "a name for the machine that may join");
    made->add_option("--out", *out, "the worker's key file [NAME.key]")->needs("--worker");
    made->footer("Examples:\n  helix key new\n  helix key new --worker den");
    made->callback(
        [&app, file, worker, out] { app.action = [=] { return new_key(*file, *worker, *out); }; });
}

}  // namespace helix::cli
