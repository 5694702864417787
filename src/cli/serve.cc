// helix serve --model FILE

#include <sys/prctl.h>

#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "api/api_server.h"
#include "api/model_codec.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/backend_option.h"
#include "cli/balance_option.h"
#include "cli/command.h"
#include "cli/help_text.h"
#include "cli/http_option.h"
#include "cli/interrupt.h"
#include "cli/kv_option.h"
#include "cli/leader_option.h"
#include "cli/patience_option.h"
#include "cli/rehash_option.h"
#include "cli/role_option.h"
#include "cli/scale_option.h"
#include "cli/serve_pages.h"
#include "cli/served_info.h"
#include "cli/size_option.h"
#include "cli/state_option.h"
#include "core/routing/router_catalogue.h"
#include "model/info.h"
#include "model/weight_source.h"
#include "net/addresses.h"
#include "net/discovery.h"
#include "net/key.h"
#include "net/open_files.h"
#include "node/coordinator_server.h"
#include "node/pair.h"
#include "node/served_file.h"
#include "spec/profile_tables.h"
#include "spec/text_file.h"
#include "text/tool_calls/tool_format.h"
#include "text/vocabulary.h"
#include "wire/codec.h"

namespace helix::cli {
namespace {

struct ServeArguments {
    std::string model;
    model::WeightOptions weights;
    bool rehash = false;
    HttpArguments http;
    std::string cluster_listen;
    bool no_announce = false;
    bool no_worker = false;
    bool end_with_parent = false;
    std::string role = "both";
    int handovers = core::MigrationConfig{}.handovers_per_worker;
    int min_workers = 1;
    std::vector<std::string> model_names;
    std::string key;
    bool insecure = false;
    std::string chat_template;
    std::string tool_parser = "auto";
    std::string placement;
    std::string scheduler = "helix";
    std::string preemption = "automatic";
    bool no_balance = false;
    std::string balance = "helix";
    int context = 0;
    int block_size = 16;
    std::string kv;  // "": as the placement says, else f16
    int max_waiting = 1024;
    std::int64_t max_waiting_tokens = core::CoordinatorConfig().max_waiting_tokens;
    std::string speculate;
    StateArguments state;
    LeaderArguments leader;
    double rejoin_wait_s = 5;
    double lost_after_s = 2;
    double worker_wait_s = 60;
    std::string file_limit = "200MiB";
    std::string kept_limit = "10GiB";
    int batch_lines = 64;
    std::string draft_model;
    int draft_tokens = 5;
    int draft_threads = 0;
    ScaleArguments scale;
    BackendArguments backend;
};

// Tiny test models are trained on contexts too short to try anything with; positions beyond are
// defined.
constexpr std::int32_t kLeastContext = 512;
constexpr std::int32_t kMaxDraftTokens = 64;
constexpr std::size_t kLeastServeFiles =
    256;  // half of them for clients, three eighths for workers

base::Result<core::Preemption> preemption_of(const std::string& name) {
    if (name == "automatic") return core::Preemption::automatic;
    if (name == "recompute") return core::Preemption::recompute;
    if (name == "swap") return core::Preemption::swap;
    return base::invalid("--preemption: '" + name + "' is none of automatic, recompute, swap");
}

// The coordinator's view of what is served, and what has its tokenizer.
struct Served {
    std::shared_ptr<model::WeightSource> weights;
    node::ServedModel model;
};

base::Result<Served> open_model(const ServeArguments& a) {
    Served served;
    TRY(const spec::KvType kv, served_kv(a.kv, a.placement));
    TRY(served.weights, model::open_weights(a.model, a.weights));
    if (a.backend.backend == "modelled") {
        if (kv != spec::KvType::f16) {
            return base::invalid(fmt::format(
                "KV in {}: --backend modelled keeps no keys and values", spec::to_string(kv)));
        }
        TRY(const auto tables, spec::ProfileTables::read(a.backend.profiles, a.backend.profile));
        TRY(const auto vocabulary, text::read_vocabulary(served.weights->file()));
        spec::ModelSpec spec = tables.model();
        if (spec.context_length == 0) spec.context_length = 4096;
        served.model =
            node::modelled_model(spec, static_cast<std::int32_t>(vocabulary.tokens.size()));
    } else {
        const std::filesystem::path cache = a.rehash ? "" : node::default_cache_dir();
        TRY(served.model, node::serve_weights(served.weights, node::digests_in(cache)));
        if (a.block_size < 1) return base::invalid("--block-size: expected at least 1");
        TRY_VOID(node::set_kv_type(served.model, kv, a.block_size));
    }
    std::int32_t& context = served.model.spec.context_length;
    if (a.context < 0 || a.context > wire::kMaxPosition) {
        return base::invalid(fmt::format("--context: expected 1 to {} tokens, got {}",
                                         wire::kMaxPosition, a.context));
    }
    if (a.context > context) {
        LOG_WARN("the model was trained on contexts of {} tokens; beyond that its text gets worse",
                 context);
    }
    context = a.context > 0 ? a.context : std::max(context, kLeastContext);
    if (context > wire::kMaxPosition) {
        return base::invalid(
            fmt::format("the model's context is {} tokens, the limit is {}: "
                        "--context serves less",
                        context, wire::kMaxPosition));
    }
    return served;
}

// "ngram:5": drafts by prompt lookup.
base::Result<std::int32_t> parse_speculate(const std::string& text) {
    const std::string_view kind = "ngram:";
    std::int32_t tokens = 0;
    const char* end = text.data() + text.size();
    if (text.starts_with(kind)) {
        const auto read = std::from_chars(text.data() + kind.size(), end, tokens);
        if (read.ec == std::errc() && read.ptr == end && tokens >= 1 && tokens <= kMaxDraftTokens) {
            return tokens;
        }
    }
    return base::invalid(fmt::format("--speculate: expected ngram:K with K from 1 to {}, got '{}'",
                                     kMaxDraftTokens, text));
}

base::Status fill_speculation(const ServeArguments& a, const Served& served,
                              node::CoordinatorOptions& options) {
    core::SpeculationConfig& config = options.core.speculation;
    if (!a.speculate.empty()) {
        TRY(config.ngram_tokens, parse_speculate(a.speculate));
    }
    if (a.draft_model.empty()) return base::Ok{};
    if (served.model.spec.encoder) {
        return base::invalid("--draft-model: the model is an encoder, and draws no tokens");
    }
    if (a.draft_tokens < 1 || a.draft_tokens > kMaxDraftTokens) {
        return base::invalid(fmt::format("--draft-tokens: expected 1 to {}, got {}",
                                         kMaxDraftTokens, a.draft_tokens));
    }
    config.draft_tokens = a.draft_tokens;
    node::DraftModelOptions draft;
    draft.path = a.draft_model;
    draft.threads = a.draft_threads;
    TRY(options.draft_model, node::DraftModel::open(draft, served.weights->file()));
    return base::Ok{};
}

base::Status fill_cluster_address(const ServeArguments& a, const HostPort& http,
                                  node::CoordinatorOptions& options) {
    options.listen_host = http.host;
    if (!a.cluster_listen.empty()) {
        TRY(const HostPort cluster, listen_address("--cluster-listen", a.cluster_listen));
        options.listen_host = cluster.host;
        options.listen_port = cluster.port;
    }
    if (options.listen_host == "0.0.0.0") options.listen_host = "*";
    options.insecure = a.insecure;
    if (!a.key.empty()) {
        std::error_code ignored;
        if (!std::filesystem::exists(a.key, ignored)) {
            return base::Error{base::Errc::not_found,
                               fmt::format("--key: there is no {}; 'helix key new --file {}' "
                                           "makes it",
                                           a.key, a.key)};
        }
        TRY(options.key, net::read_coordinator_key(a.key));
    } else if (!net::is_loopback(options.listen_host) && !a.insecure && !a.no_worker &&
               a.cluster_listen.empty()) {
        // Only the HTTP side was asked to be public. Without keys nobody may join, so the cluster
        // port stays where nobody from outside can reach it.
        LOG_WARN("no --key: machines elsewhere cannot join (see 'helix key new')");
        options.listen_host = "127.0.0.1";
    }
    return base::Ok{};
}

// The workers in this process, one for each device.
base::Result<std::vector<node::WorkerOptions>> local_workers(const ServeArguments& a) {
    if (a.no_worker) return std::vector<node::WorkerOptions>();
    node::WorkerOptions worker;
    worker.name = "local";
    TRY(worker.role, role_of(a.role));
    worker.model_file = a.model;
    worker.model_options = a.weights;
    return make_workers(a.backend, worker);
}

base::Status check_ranks(const std::vector<node::WorkerOptions>& workers, const Served& served) {
    for (const node::WorkerOptions& worker : workers) {
        if (worker.backend->ranks() == 1) continue;
        TRY(const model::ModelConfig config, model::read_model_config(*served.weights));
        TRY_VOID(check_tensor_parallel(worker, config));
    }
    return base::Ok{};
}

base::Result<node::CoordinatorOptions> coordinator_options(
    const ServeArguments& a, const HostPort& http, const Served& served,
    std::vector<node::WorkerOptions> workers) {
    node::CoordinatorOptions options;
    if (a.min_workers < 1) return base::invalid("--min-workers: expected at least 1");
    options.model = served.model;
    options.core.block_size = a.block_size;
    options.core.max_waiting = a.max_waiting;
    options.core.max_waiting_tokens = a.max_waiting_tokens;
    options.core.min_workers = a.min_workers;
    options.core.prefix_cache = !a.backend.no_prefix_cache;
    TRY_VOID(fill_speculation(a, served, options));
    TRY(const core::RouterKind scheduler, core::find_router(a.scheduler));
    options.core.router = scheduler.make;
    TRY(options.core.preemption, preemption_of(a.preemption));
    options.core.balance.enabled = !a.no_balance;
    TRY(const bool as_llumnix, moves_as_llumnix(a.balance, a.no_balance));
    if (as_llumnix) core::balance_as_llumnix(options.core);
    TRY(options.core.scale, scale_config(a.scale));
    if (a.handovers < 1) return base::invalid("--handovers: expected at least 1");
    options.core.migration.handovers_per_worker = a.handovers;
    TRY_VOID(fill_cluster_address(a, http, options));
    TRY(options.core.rejoin_wait, parse_wait("--rejoin-wait", a.rejoin_wait_s));
    TRY(options.core.unserved_timeout, parse_wait("--worker-wait", a.worker_wait_s));
    TRY_VOID(fill_lost_after(a.lost_after_s, options.transport));
    options.takeover.detection_s = options.transport.heartbeat_timeout_ms * 1e-3;
    if (!a.leader.url.empty()) {
        options.takeover.lease_s = a.leader.lease_s;
        options.takeover.addresses = 2;
    }
    if (!a.placement.empty()) {
        TRY(node::FilePlacement fixed, node::planner_for_file(served.model.spec, a.placement));
        options.planner = std::move(fixed.planner);
        options.planned_workers = std::move(fixed.workers);
        options.core.policy = fixed.policy;
        options.core.roles = std::move(fixed.roles);
    }
    TRY_VOID(check_ranks(workers, served));
    options.local_workers = std::move(workers);
    for (node::WorkerOptions& worker : options.local_workers) worker.transport = options.transport;
    return options;
}

base::Result<std::optional<api::JobOptions>> job_options(const ServeArguments& a,
                                                         const store::Place& state) {
    if (state.empty()) return std::optional<api::JobOptions>();
    if (a.batch_lines < 1) return base::invalid("--batch-lines: expected at least 1");
    api::JobOptions jobs;
    jobs.place = state;
    jobs.max_in_flight = a.batch_lines;
    TRY(const std::int64_t limit, parse_size("--file-limit", a.file_limit));
    jobs.max_file_bytes = static_cast<std::size_t>(limit);
    TRY(jobs.max_kept_bytes, parse_size("--kept-limit", a.kept_limit));
    return std::optional(jobs);
}

api::ModelInfo model_info(const ServeArguments& a, const Served& served) {
    const model::ModelInfo file = model::collect_info(*served.weights);
    const node::ServedModel& model = served.model;
    api::ModelInfo info = info_of(file, model.spec,
                                  {model.hidden_size, model.pooling, model.ranks, model.hash,
                                   engine::ops::to_string(model.kv_type)});
    const bool named = !a.model_names.empty() && !a.model_names.front().empty();
    info.name = named                ? a.model_names.front()
                : !file.name.empty() ? file.name
                                     : std::filesystem::path(a.model).stem().string();
    if (named) info.aliases.assign(a.model_names.begin() + 1, a.model_names.end());
    info.aliases.push_back(std::filesystem::path(a.model).filename().string());
    info.aliases.emplace_back("default");
    info.created = static_cast<std::int64_t>(std::time(nullptr));
    return info;
}

std::string tool_parser_names() {
    std::string names;
    for (const text::ToolFormat& format : text::tool_formats()) {
        if (format.name == "none") continue;
        names += (names.empty() ? "" : ", ") + std::string(format.name);
    }
    return names;
}

// The caller's own chat template, "" without one.
base::Result<std::string> read_template(const ServeArguments& a, const model::GgufFile& file,
                                        bool served_encoder) {
    if (a.chat_template.empty()) {
        if (file.find("tokenizer.chat_template") == nullptr && !served_encoder) {
            LOG_WARN(
                "the model's file has no chat template: chat messages are given to it as plain "
                "text, one a line (--chat-template FILE sets one)");
        }
        return std::string();
    }
    return spec::read_text_file(a.chat_template);
}

// What `helix worker` is told besides where to join, when it is started here.
std::vector<std::string> scaled_worker(const ServeArguments& a) {
    std::vector<std::string> arguments = {"--model", a.model};
    if (!a.weights.quantize.empty()) {
        arguments.insert(arguments.end(), {"--quantize", a.weights.quantize});
    }
    return arguments;
}

// What gateways tell their clients of the model, and where the pages are.
node::GatewayFacts gateway_facts(const ServeArguments& a, const api::ModelInfo& info,
                                 const std::string& chat_template, const HostPort& http,
                                 std::uint16_t port) {
    node::GatewayFacts facts;
    facts.names = info.aliases;
    facts.names.insert(facts.names.begin(), info.name);
    facts.created = info.created;
    facts.chat_template = chat_template;
    facts.tool_parser = a.tool_parser;
    const std::string host = net::is_every_address(http.host) ? "*" : net::url_host(http.host);
    facts.http_endpoint = fmt::format("{}://{}:{}", scheme_of(a.http.tls), host, port);
    return facts;
}

// With addresses that other machines can use, one a line where there are several.
void tell_addresses(const ServeArguments& a, const std::string& host, std::uint16_t port,
                    const std::string& model) {
    const std::vector<std::string> addresses = net::reachable_addresses(host);
    LOG_INFO("serving {} at {}", model, api_urls(a.http, host, port));
    LOG_INFO("to chat and to see the cluster, open {}://{}:{}/", scheme_of(a.http.tls),
             net::url_host(addresses.front()), port);
    if (a.key.empty() && !a.insecure && !net::is_loopback(host)) return;
    for (const std::string& address : addresses) {
        LOG_INFO("a worker joins with: helix worker --join {}:{}{}", net::url_host(address), port,
                 a.key.empty() ? "" : " --key FILE");
    }
    if (!a.key.empty()) {
        LOG_INFO(
            "a machine without a key: type helix worker there; helix pair on this one, or its "
            "page, shows the code that it asks for");
    }
}

// Null where nobody elsewhere could join, or wants to be told.
std::unique_ptr<net::Announcer> announce(const ServeArguments& a, const JoinFacts& facts,
                                         const std::string& model) {
    if (a.no_announce || net::is_loopback(facts.http_host) ||
        net::is_loopback(facts.cluster_host)) {
        return nullptr;
    }
    auto announcer = net::Announcer::start(
        {node::machine_worker_name(),
         facts.http_host,
         facts.port,
         {model, base::kVersion,
          facts.public_key.empty() ? "" : net::key_fingerprint(facts.public_key)}});
    if (announcer.ok()) return std::move(*announcer);
    LOG_WARN("not announced: {}", announcer.error().message);
    return nullptr;
}

void provide_nodes(const ServeArguments& a, const std::string& http_host, std::uint16_t port,
                   node::CoordinatorServer& coordinator) {
    if (a.scale.range.empty()) return;
    // Processes on this machine join where every address is listened on by loopback.
    const bool here = a.scale.command.empty() && net::is_every_address(http_host);
    const std::string join =
        here ? "127.0.0.1" : net::url_host(net::reachable_addresses(http_host).front());
    coordinator.provide_nodes(
        node_provider(a.scale, fmt::format("{}:{}", join, port), scaled_worker(a)));
}

// The port is taken before the model is read and the cluster's port is opened, which may be any
// that is free. Where several may lead, one that waits leaves it to the one that serves.
base::Result<api::ApiOptions> options_and_port(const ServeArguments& a, const HostPort& http) {
    TRY(api::ApiOptions options, api_options(a.http, http));
    if (a.leader.url.empty()) {
        TRY(options.http.held, net::HeldPort::hold(options.http.address, options.http.port));
    }
    return options;
}

void serve_until_stopped(const ServeArguments& a, const JoinFacts& joining,
                         const api::ModelInfo& info, node::CoordinatorServer& coordinator,
                         api::ApiServer& api) {
    tell_addresses(a, joining.http_host, api.port(), info.name);
    const auto announcer = announce(a, joining, info.name);
    tell_pooling(info);
    provide_nodes(a, joining.http_host, api.port(), coordinator);
    StopWish stop;
    const Interrupt interrupt([&stop] { stop.ask(); });
    stop.wait();
    LOG_INFO("stopping: answers under way have 5 s to finish (interrupt again to end at once)");
    api.drain();
    api.stop(base::from_seconds(5));
}

base::Status prepare_process(const ServeArguments& a) {
    block_interrupts();
    if (a.end_with_parent && ::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
        return base::Error{base::Errc::io, "--end-with-parent: the system refuses it"};
    }
    TRY_VOID(net::require_open_files("helix serve", kLeastServeFiles));
    return base::Ok{};
}

JoinFacts join_facts(const ServeArguments& a, const HostPort& http,
                     const node::CoordinatorOptions& options, const net::HeldPort& held) {
    return {http.host,
            options.listen_host,
            held.port(),
            a.key,
            options.key ? options.key->pair.public_key : "",
            !a.placement.empty()};
}

base::Status serve(const ServeArguments& a) {
    TRY_VOID(prepare_process(a));
    TRY(const HostPort http, listen_address("--listen", a.http.listen));
    TRY(api::ApiOptions with_pages, options_and_port(a, http));
    TRY(std::vector<node::WorkerOptions> workers, local_workers(a));
    TRY(const Served served, open_model(a));
    TRY(const std::string chat_template,
        read_template(a, served.weights->file(), served.model.spec.encoder));
    TRY(auto codec, api::ModelCodec::create(served.weights->file(), chat_template, a.tool_parser));
    TRY(auto options, coordinator_options(a, http, served, std::move(workers)));
    // It has the model by now, so that it can take over at once; nobody hears of it before.
    TRY(const Led led, lead(a.leader, a.http.listen));
    if (led.stopped) return base::Ok{};
    options.term = led.term;
    net::HttpServerOptions& listened = with_pages.http;
    if (!listened.held) {
        TRY(listened.held, net::HeldPort::hold(listened.address, listened.port));
    }
    const JoinFacts joining = join_facts(a, http, options, *listened.held);
    TRY(const State state, take_state(a.state, led.term));
    if (state.stopped) return base::Ok{};
    if (!state.place.postgres.empty()) options.term = state.place.term;
    options.state = state.place;
    TRY(const auto coordinator, node::CoordinatorServer::start(std::move(options)));
    TRY(with_pages.jobs, job_options(a, state.place));
    with_pages.pages = extra_pages(*coordinator, served.model.spec, joining);
    const api::ModelInfo info = model_info(a, served);
    api::ModelRegistry models;
    models.add({info, std::move(codec), coordinator.get(), node::served_file(served.model)});
    TRY(const auto api, api::ApiServer::start(std::move(with_pages), std::move(models)));
    coordinator->serve_gateways(gateway_facts(a, info, chat_template, http, api->port()));

    serve_until_stopped(a, joining, info, *coordinator, *api);
    return base::Ok{};
}

void add_limits(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "Limits");
    command.add_option("--max-waiting", a.max_waiting, "queued requests; more get 429")
        ->capture_default_str();
    command
        .add_option("--max-waiting-tokens", a.max_waiting_tokens,
                    "tokens of their prompts, of all together; more get 429")
        ->capture_default_str();
    add_memory_options(command, a.http);
    command.add_option("--file-limit", a.file_limit, "of an uploaded file")->capture_default_str();
    command.add_option("--kept-limit", a.kept_limit, "of all files, batches and results together")
        ->capture_default_str();
    command.add_option("--batch-lines", a.batch_lines, "of batches, that run at once")
        ->capture_default_str();
}

void add_answer_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "The model");
    command.add_option("--chat-template", a.chat_template,
                       "a Jinja file in place of the model's own chat template");
    command
        .add_option("--tool-parser", a.tool_parser,
                    "how the model writes calls of tools, which are read out of its answers: auto "
                    "(by its chat template), none, " +
                        tool_parser_names())
        ->capture_default_str();
    command.add_option("--context", a.context,
                       "tokens of prompt and answer together [the model's, at least 512]");
}

void add_draft_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "Drafts");
    command.add_option("--speculate", a.speculate,
                       "ngram:K drafts up to K tokens ahead by what followed the same words "
                       "earlier in the text [only for requests that ask for it]");
    command.add_option("--draft-model", a.draft_model,
                       "a small model with the same tokenizer that drafts tokens ahead");
    command.add_option("--draft-tokens", a.draft_tokens, "that it drafts at most")
        ->capture_default_str();
    command.add_option("--draft-threads", a.draft_threads, "of the draft model [all cores]");
}

void add_address_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "Addresses");
    add_listen_option(command, a.http);
    command.add_option("--cluster-listen", a.cluster_listen,
                       "HOST:PORT that workers connect to [the API's host, any free port]");
    command.add_flag("--no-announce", a.no_announce,
                     "do not tell the local network of it (mDNS), where 'helix worker' without "
                     "--join finds it");
    command.add_flag("--end-with-parent", a.end_with_parent,
                     "stop when the process that started it ends");
}

void add_worker_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "Workers");
    command.add_flag("--no-worker", a.no_worker, "only coordinate: do not compute on this machine");
    command.add_option("--role", a.role, "of this machine's workers; " + std::string(kRoleHelp))
        ->capture_default_str();
    command
        .add_option("--handovers", a.handovers,
                    "requests that move at once from a worker of the role prefill, or to one "
                    "that decodes")
        ->capture_default_str();
    command.add_option("--min-workers", a.min_workers, "place the model once so many have joined")
        ->capture_default_str();
}

void add_key_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "Who may");
    command.add_option("--key", a.key, "the coordinator's key file, made by 'helix key new'");
    command.add_flag("--insecure", a.insecure, "let workers join over a network without keys");
}

void add_cache_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "KV cache");
    command.add_option("--block-size", a.block_size, "tokens of a KV page")->capture_default_str();
    command.add_option("--kv", a.kv, std::string(kKvHelp) + " [as the --placement says, else f16]");
    command
        .add_option("--balance", a.balance,
                    "how running requests move: helix, or llumnix as Llumnix is published (with "
                    "--scheduler llumnix, its dispatch)")
        ->capture_default_str();
    command.add_flag("--no-balance", a.no_balance,
                     "running requests stay where they are, whatever memory others have; only a "
                     "drain moves them");
    command
        .add_option("--preemption", a.preemption,
                    "how a request gives its KV memory back when others need it: recompute it "
                    "later, swap it to the workers' --swap memory, or automatic: swap those of "
                    "several sequences")
        ->capture_default_str();
}

void add_failure_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "Failures");
    command
        .add_option("--rejoin-wait", a.rejoin_wait_s,
                    "seconds that a start with a known placement waits for its workers, from the "
                    "first that joins; then it plans with those that are there")
        ->capture_default_str();
    command
        .add_option("--worker-wait", a.worker_wait_s,
                    "seconds that requests wait for a worker when those that are left cannot "
                    "serve them; then they end with an error that says so")
        ->capture_default_str();
}

void add_placement_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "Placement");
    command.add_option("--placement", a.placement,
                       "a placement that 'helix plan --output' wrote; workers are known by their "
                       "--name [plans for the workers that are here]");
    command.add_option("--scheduler", a.scheduler, core::list_routers())->capture_default_str();
}

void add_model_options(CLI::App& command, ServeArguments& a) {
    const OptionHeading heading(command, "The model");
    command
        .add_option("--model,model", a.model,
                    "a GGUF file, a folder of safetensors with config.json and tokenizer.json, or "
                    "OWNER/REPO:TAG of a hub, which is pulled when it is not there")
        ->required();
    command.add_option(
        "--quantize", a.weights.quantize,
        "q8_0 or q4_0: what a folder's matrices become when they are loaded [as they are]");
    command.add_flag("--rehash", a.rehash, kRehashHelp);
    command.add_option("--name,--served-model-name", a.model_names,
                       "the model's name in the API; others after it are names that it has, too "
                       "[from the file]");
}

}  // namespace

void add_serve(App& app) {
    CLI::App* command =
        app.parser.add_subcommand("serve", "Serves a model over the OpenAI API; workers may join");
    auto arguments = std::make_shared<ServeArguments>();
    ServeArguments& a = *arguments;
    add_model_options(*command, a);
    add_address_options(*command, a);
    add_worker_options(*command, a);
    add_key_options(*command, a);
    add_access_options(*command, a.http.access);
    add_tls_options(*command, a.http.tls);
    add_answer_options(*command, a);
    add_cache_options(*command, a);
    add_backend_options(*command, a.backend);
    add_state_options(*command, a.state);
    add_failure_options(*command, a);
    add_leader_options(*command, a.leader);
    add_lost_after(*command, a.lost_after_s);
    add_limits(*command, a);
    add_placement_options(*command, a);
    add_scale_options(*command, a.scale);
    add_draft_options(*command, a);
    add_otlp_options(*command, a.http.otlp);
    command->footer(
        "Examples:\n"
        "  helix serve --model llama.gguf\n"
        "  helix serve --model llama.gguf --listen 0.0.0.0:8080 --key ~/.helix/coordinator.key \\\n"
        "              --api-key-file api.keys --admin-key-file admin.key \\\n"
        "              --tls-cert cert.pem --tls-key key.pem\n"
        "  helix serve --model llama.gguf --threads 32 --tp 2\n"
        "  helix serve --model llama.gguf --device vulkan:0\n"
        "  helix serve --model llama.gguf --device all\n"
        "  helix serve --model llama.gguf --no-worker --min-workers 3\n"
        "  helix serve --model llama.gguf --state-dir ~/.helix/state --rejoin-wait 10\n"
        "  helix serve --model llama.gguf --no-worker --leader etcd://127.0.0.1:2379 \\\n"
        "              --state postgres://helix@127.0.0.1:5432/helix\n\n"
        "Then: curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' "
        "\\\n"
        "        -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'");
    command->callback([&app, arguments] {
        app.models = {&arguments->model, &arguments->draft_model};
        app.action = [=] { return serve(*arguments); };
    });
}

}  // namespace helix::cli
