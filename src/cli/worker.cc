// helix worker --join HOST:PORT

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/backend_option.h"
#include "cli/command.h"
#include "cli/coordinator_choice.h"
#include "cli/help_text.h"
#include "cli/interrupt.h"
#include "cli/pairing_option.h"
#include "cli/patience_option.h"
#include "cli/rehash_option.h"
#include "cli/role_option.h"
#include "cli/size_option.h"
#include "net/key.h"
#include "net/open_files.h"
#include "node/host_workers.h"
#include "node/join.h"
#include "node/tensor_cache.h"

namespace helix::cli {
namespace {

struct WorkerArguments {
    std::vector<std::string> join;
    std::string key;
    PairingArguments pairing;
    bool insecure = false;
    std::string name;
    std::string host;
    std::string region;
    std::string role = "both";
    std::string address;
    std::uint16_t port = 0;
    double lost_after_s = 2;
    double coordinator_wait_s = 60;
    std::string model;
    model::WeightOptions weights;
    bool rehash = false;
    std::string cache = "~";
    std::string cache_limit;
    BackendArguments backend;
};

// HOST, HOST:PORT, [v6] or [v6]:PORT.
base::Status fill_address(const std::string& text, node::WorkerOptions& options) {
    if (text.empty()) return base::Ok{};
    const std::size_t bracket = text.rfind(']');
    const std::size_t colon = text.rfind(':');
    const bool has_port =
        colon != std::string::npos && (bracket == std::string::npos || bracket < colon);
    if (!has_port) {
        options.peer_host = text;
        return base::Ok{};
    }
    const auto parsed = node::parse_address(text);
    if (!parsed.ok() || (bracket == std::string::npos && text.find(':') != colon)) {
        return base::invalid("--address: '" + text + "' is neither HOST nor HOST:PORT");
    }
    options.peer_host = text.substr(0, colon);
    options.peer_port = parsed->port;
    return base::Ok{};
}

// The workers of several devices have the ports from the one that was given on.
base::Status move_port(const char* option, std::size_t device, std::uint16_t& port) {
    if (port == 0) return base::Ok{};
    if (port + device > 65535) {
        return base::invalid(
            fmt::format("{}: {} is too high for one port for each device", option, port));
    }
    port = static_cast<std::uint16_t>(port + device);
    return base::Ok{};
}

// Pairing makes a key for one worker.
base::Status check_single(const BackendArguments& backend, const node::WorkerOptions& options) {
    TRY(const std::vector<node::WorkerOptions> devices, make_workers(backend, options));
    if (devices.size() == 1) return base::Ok{};
    return base::invalid(
        "--device: each of several devices is a worker with a name of its own, and pairing makes a "
        "key for one: make one for several at the coordinator (helix key new --worker 'NAME-*') "
        "and "
        "give it here with --key");
}

base::Status fill_cache_limit(const WorkerArguments& a, node::WorkerOptions& options) {
    if (a.cache_limit.empty()) return base::Ok{};
    if (a.cache == "none") return base::invalid("--cache-limit: there is no cache to limit");
    TRY(const std::int64_t bytes, parse_size("--cache-limit", a.cache_limit));
    options.cache_limit.bytes = static_cast<std::uint64_t>(bytes);
    return base::Ok{};
}

constexpr std::size_t kLeastWorkerFiles = 128;

base::Status run_worker(const WorkerArguments& arguments) {
    TRY_VOID(net::require_open_files("helix worker", kLeastWorkerFiles));
    node::WorkerOptions options;
    options.name = arguments.name;
    options.host = arguments.host;
    options.region = arguments.region;
    TRY(options.role, role_of(arguments.role));
    options.listen_port = arguments.port;
    TRY_VOID(fill_address(arguments.address, options));
    TRY_VOID(fill_lost_after(arguments.lost_after_s, options.transport));
    TRY(options.coordinator_wait, parse_wait("--coordinator-wait", arguments.coordinator_wait_s));
    options.model_file = arguments.model;
    options.model_options = arguments.weights;
    options.insecure = arguments.insecure;
    if (arguments.cache != "none") {
        options.cache_dir = arguments.cache == "~" ? node::default_cache_dir()
                                                   : std::filesystem::path(arguments.cache);
    }
    if (!arguments.rehash) options.digests = node::digests_in(options.cache_dir);
    TRY_VOID(fill_cache_limit(arguments, options));
    std::vector<std::string> join = arguments.join;
    if (join.empty()) {
        TRY(const std::string chosen, choose_coordinator());
        join.push_back(chosen);
    }
    const auto single = [&] { return check_single(arguments.backend, options); };
    TRY(options.key,
        key_for(arguments.pairing, {join.front(), arguments.key, arguments.name, single}));
    TRY(std::vector<node::WorkerOptions> devices, make_workers(arguments.backend, options));
    for (std::size_t i = 0; i < devices.size(); ++i) {
        TRY_VOID(move_port("--port", i, devices[i].listen_port));
        TRY_VOID(move_port("--address", i, devices[i].peer_port));
    }
    node::HostWorkers workers(std::move(devices));
    const Interrupt interrupt([&workers] { workers.stop(); });
    return workers.run(join);
}

void add_joining_options(CLI::App& command, WorkerArguments& a) {
    const OptionHeading heading(command, "The cluster");
    command.add_option("--join", a.join,
                       "HOST:PORT of the coordinator (its HTTP address); given several times: "
                       "where one may be, tried in turn [looks for some on the local network and "
                       "asks]");
    command.add_option("--key", a.key,
                       "this worker's key file, made by 'helix key new --worker NAME'");
    add_pairing_options(command, a.pairing);
    command.add_flag("--insecure", a.insecure, "join over a network without keys or encryption");
    command.add_option("--host-id", a.host,
                       "workers with one host id share its cores [this machine's]");
    command.add_option("--address", a.address,
                       "HOST or HOST:PORT at which other workers reach it, where that is not what "
                       "this machine sees of itself: behind NAT or port forwarding; each further "
                       "device has the next port [found out]");
    command.add_option(
        "--port", a.port,
        "it listens on for other workers; each further device has the next [any that is "
        "free]");
}

void add_identity_options(CLI::App& command, WorkerArguments& a) {
    const OptionHeading heading(command, "This worker");
    command.add_option("--name", a.name,
                       "how it is called in the cluster [host name and process id]");
    command.add_option("--region", a.region, "where it stands; for placement over slow links");
    command.add_option("--role", a.role, kRoleHelp)->capture_default_str();
}

void add_weight_options(CLI::App& command, WorkerArguments& a) {
    const OptionHeading heading(command, "Weights");
    command.add_option("--model", a.model,
                       "a local copy of the model, or OWNER/REPO:TAG of a hub: used if it is the "
                       "same, else weights are received");
    command.add_option("--quantize", a.weights.quantize,
                       "of a folder of safetensors as --model: as the coordinator was told");
    command.add_flag("--rehash", a.rehash, kRehashHelp);
    command.add_option("--cache", a.cache,
                       "folder for received weights, or 'none' [~/.cache/helix]");
    command.add_option("--cache-limit", a.cache_limit,
                       "of weights in that folder: before more come those go that were not used "
                       "for longest, never those of a model in use [a tenth of the disk stays "
                       "free, at most 10 GB]");
}

void add_wait_option(CLI::App& command, WorkerArguments& a) {
    const OptionHeading heading(command, "Failures");
    command
        .add_option(
            "--coordinator-wait", a.coordinator_wait_s,
            "seconds that it keeps what it runs when the coordinator is gone: a coordinator "
            "that is started again goes on with it; 0 keeps nothing")
        ->capture_default_str();
}

}  // namespace

void add_worker(App& app) {
    CLI::App* worker =
        app.parser.add_subcommand("worker", "Adds this machine to a cluster as a worker");
    auto arguments = std::make_shared<WorkerArguments>();
    WorkerArguments& a = *arguments;
    add_joining_options(*worker, a);
    add_identity_options(*worker, a);
    add_weight_options(*worker, a);
    add_lost_after(*worker, a.lost_after_s);
    add_wait_option(*worker, a);
    add_backend_options(*worker, a.backend);
    worker->footer(
        "Examples:\n"
        "  helix worker                                    looks for a coordinator, and asks\n"
        "  helix worker --join 127.0.0.1:8080\n"
        "  helix worker --join 192.0.2.7:8080 --pair\n"
        "  helix worker --join 192.0.2.7:8080 --join 192.0.2.8:8080 --key den.key\n"
        "  helix worker --join 192.0.2.7:8080 --key den.key --memory 6GB --threads 4\n"
        "  helix worker --join 192.0.2.7:8080 --key den.key --threads 32 --tp 2\n"
        "  helix worker --join 192.0.2.7:8080 --key den.key --device vulkan:0\n"
        "  helix worker --join 192.0.2.7:8080 --key den.key --device vulkan:0+vulkan:1\n"
        "  helix worker --join 192.0.2.7:8080 --key dens.key --name den --device all\n"
        "  helix worker --join 127.0.0.1:8080 --device vulkan:0,cpu --memory "
        "vulkan:0=6GB,cpu=4GB\n"
        "  helix worker --join 192.0.2.7:8080 --key rack.key --role prefill\n"
        "  helix worker --join 127.0.0.1:8080 --backend modelled --type T4 \\\n"
        "               --profiles DIR --profile llama2-70b");
    worker->callback([&app, arguments] {
        app.models = {&arguments->model};
        app.action = [=] { return run_worker(*arguments); };
    });
}

}  // namespace helix::cli
