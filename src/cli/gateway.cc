// helix gateway --join HOST:PORT

#include <unistd.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/api_server.h"
#include "api/model_codec.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/help_text.h"
#include "cli/http_option.h"
#include "cli/interrupt.h"
#include "cli/patience_option.h"
#include "cli/served_info.h"
#include "model/header_config.h"
#include "model/info.h"
#include "net/key.h"
#include "net/open_files.h"
#include "node/gateway_server.h"
#include "node/pair.h"

namespace helix::cli {
namespace {

struct GatewayArguments {
    HttpArguments http;
    std::vector<std::string> join;
    std::string name;
    std::string key;
    bool insecure = false;
    double coordinator_wait_s = 60;
    double lost_after_s = 2;
    int max_waiting = 1024;
};

constexpr std::size_t kLeastGatewayFiles = 128;  // half of them for clients
constexpr std::size_t kLongestName = 64;

// That of its key, or one that no other gateway has.
std::string gateway_name(const GatewayArguments& a, const std::optional<net::WorkerKey>& key) {
    if (!a.name.empty()) return a.name;
    std::string prefix = "gateway-";
    if (key.has_value()) {
        if (!key->name.ends_with('*')) return key->name;
        prefix = key->name.substr(0, key->name.size() - 1);
    }
    const std::string process = fmt::format("-{}", ::getpid());
    return (prefix + node::machine_worker_name()).substr(0, kLongestName - process.size()) +
           process;
}

base::Result<node::GatewayOptions> gateway_options(const GatewayArguments& a) {
    node::GatewayOptions options;
    options.link.join = a.join;
    options.link.insecure = a.insecure;
    if (!a.key.empty()) {
        TRY(options.link.key, net::read_worker_key(a.key));
    }
    options.link.name = gateway_name(a, options.link.key);
    TRY_VOID(net::check_worker_name(options.link.name));
    TRY_VOID(fill_lost_after(a.lost_after_s, options.link.transport));
    TRY(options.rules.coordinator_wait, parse_wait("--coordinator-wait", a.coordinator_wait_s));
    if (a.max_waiting < 1) return base::invalid("--max-waiting: expected at least 1");
    options.rules.max_waiting = static_cast<std::size_t>(a.max_waiting);
    return options;
}

api::ModelInfo model_info(const node::GatewayServer::Model& model) {
    const wire::GatewayWelcome& welcome = model.welcome;
    ServedTraits traits{
        .hidden = welcome.hidden_size, .content = welcome.model_hash, .kv_type = welcome.kv_type};
    if (const auto config = model::read_header_config(*model.file); config.ok()) {
        traits.pooling = config->pooling;
        traits.ranks = config->rank_head.present();
    }
    api::ModelInfo info = info_of(model::collect_info(*model.file), welcome.model, traits);
    info.created = welcome.created;
    info.name = welcome.names.empty() ? welcome.model.name : welcome.names.front();
    if (!welcome.names.empty()) {
        info.aliases.assign(welcome.names.begin() + 1, welcome.names.end());
    }
    return info;
}

base::Status run_gateway(const GatewayArguments& a) {
    block_interrupts();
    TRY_VOID(net::require_open_files("helix gateway", kLeastGatewayFiles));
    TRY(const HostPort http, listen_address("--listen", a.http.listen));
    TRY(api::ApiOptions with_cluster, api_options(a.http, http));
    TRY(node::GatewayOptions options, gateway_options(a));
    StopWish stop;
    options.on_end = [&stop] { stop.ask(); };
    LOG_INFO("gateway \"{}\" looks for a coordinator at {}", options.link.name,
             fmt::join(options.link.join, ", "));
    TRY(const auto gateway, node::GatewayServer::start(std::move(options)));
    const Interrupt interrupt([&] {
        stop.ask();
        gateway->stop_waiting();
    });
    const auto model = gateway->wait_for_model();
    if (!model.ok()) {
        if (stop.asked()) return base::Ok{};
        return model.error();
    }
    const api::ModelInfo info = model_info(*model);
    TRY(auto codec, api::ModelCodec::create(*model->file, model->welcome.chat_template,
                                            model->welcome.tool_parser));
    with_cluster.coordinator_url = [raw = gateway.get()] { return raw->coordinator_url(); };
    api::ModelRegistry models;
    models.add({info, std::move(codec), gateway.get()});
    TRY(const auto api, api::ApiServer::start(std::move(with_cluster), std::move(models)));
    LOG_INFO("serving {} at {}", info.name, api_urls(a.http, http.host, api->port()));
    tell_pooling(info);
    stop.wait();
    LOG_INFO("stopping: answers under way have 5 s to finish (interrupt again to end at once)");
    api->drain();
    api->stop(base::from_seconds(5));
    if (const auto ended = gateway->ended(); ended.has_value()) return *ended;
    return base::Ok{};
}

void add_cluster_options(CLI::App& command, GatewayArguments& a) {
    const OptionHeading heading(command, "The cluster");
    command
        .add_option("--join", a.join,
                    "HOST:PORT of the coordinator (its HTTP address). Given several times: where "
                    "it may be; they are tried in turn")
        ->required();
    command.add_option("--key", a.key,
                       "this gateway's key file, made by 'helix key new --worker NAME'");
    command.add_flag("--insecure", a.insecure, "join over a network without keys or encryption");
    command.add_option("--name", a.name,
                       "how it is called in the cluster [that of its key, or host name and process "
                       "id]");
}

void add_waiting_options(CLI::App& command, GatewayArguments& a) {
    const OptionHeading heading(command, "Failures");
    command
        .add_option("--coordinator-wait", a.coordinator_wait_s,
                    "seconds that requests wait for a coordinator when there is none; then they "
                    "end with an error that says so")
        ->capture_default_str();
}

void add_gateway_limits(CLI::App& command, GatewayArguments& a) {
    const OptionHeading heading(command, "Limits");
    command
        .add_option("--max-waiting", a.max_waiting,
                    "new requests that wait for a coordinator; more get 429")
        ->capture_default_str();
    add_memory_options(command, a.http);
}

}  // namespace

void add_gateway(App& app) {
    CLI::App* command = app.parser.add_subcommand(
        "gateway", "Keeps clients' answers going while their coordinator is restarted");
    auto arguments = std::make_shared<GatewayArguments>();
    GatewayArguments& a = *arguments;
    add_cluster_options(*command, a);
    {
        const OptionHeading heading(*command, "Addresses");
        add_listen_option(*command, a.http);
    }
    add_access_options(*command, a.http.access);
    add_tls_options(*command, a.http.tls);
    add_waiting_options(*command, a);
    add_lost_after(*command, a.lost_after_s);
    add_gateway_limits(*command, a);
    add_otlp_options(*command, a.http.otlp);
    command->footer(
        "Examples:\n"
        "  helix gateway --join 127.0.0.1:8080 --listen 127.0.0.1:8090\n"
        "  helix gateway --join 192.0.2.7:8080 --key gate.key --listen 0.0.0.0:8080 \\\n"
        "                --api-key-file api.keys --tls-cert cert.pem --tls-key key.pem\n"
        "  helix gateway --join 192.0.2.7:8080 --join 192.0.2.8:8080 --key gate.key\n\n"
        "Clients use it as they would use the coordinator. When that is gone, their answers pause, "
        "and\n"
        "go on with the next token at the coordinator that comes after it.");
    command->callback([&app, arguments] { app.action = [=] { return run_gateway(*arguments); }; });
}

}  // namespace helix::cli
