#include "sim/fuzz/fuzz_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/random.h"
#include "core/routing/router_catalogue.h"

namespace helix::sim {
namespace {

using base::Random;

template <typename T>
T one_of(Random& random, std::initializer_list<T> values) {
    return values.begin()[random.below(values.size())];
}

double log_uniform(Random& random, double low, double high) {
    return low * std::pow(high / low, random.uniform());
}

base::Duration some_ms(Random& random, std::initializer_list<double> values) {
    return base::from_ms(one_of(random, values));
}

void draw_tunables(Random& random, FaultyClusterConfig& cluster) {
    core::CoordinatorConfig& c = cluster.coordinator;
    c.max_waiting = one_of(random, {2, 5, 1024});
    c.max_running = one_of(random, {1, 2, 5, 4096, 4096});
    c.policy.kv_high_water = one_of(random, {0.3, 0.7, 0.9, 1.0, 1.0});
    c.expected_output_tokens = one_of(random, {0.0, 0.0, 1.0, 10.0, 60.0, 240.0});
    c.policy.prefill_target_s = one_of(random, {0.001, 0.2, 2.0, 60.0});
    // Mostly the one that follows the plan; the others decide differently, and must be as exact.
    const auto& routers = core::router_kinds();
    c.router = routers[random.chance(0.5) ? 0 : random.below(routers.size())].make;
    c.router_seed = random.next();
    c.pipeline_groups = one_of(random, {0, 0, 1, 2, 7});
    c.min_workers = one_of(random, {1, 1, 2});
    c.settle = some_ms(random, {0, 50, 300, 1500});
    c.switch_gain = one_of(random, {0.5, 1.0, 1.05, 3.0});
    c.preemption = static_cast<core::Preemption>(random.below(3));
    c.preemption_pause = some_ms(random, {0, 10, 100, 1000});
    c.unserved_timeout = base::from_seconds(one_of(random, {2, 10, 30}));
    c.stall_timeout = base::from_seconds(one_of(random, {10, 20, 40}));
    core::WorkerConfig& w = cluster.worker;
    w.max_batch_rows = one_of(random, {1, 2, 5, 16, 64, 512});
    w.mixed_prefill_rows = one_of(random, {1, 2, 8, 64});
    c.policy.prefill_share = one_of(random, {0.01, 0.5, 3.0, 100.0});
    w.max_batch_seqs = one_of(random, {1, 2, 4, 256, 256});
    w.report_interval = some_ms(random, {50, 200, 500, 1000});
}

void draw_cluster(Random& random, FuzzCase& c) {
    const std::int32_t n_layers = static_cast<std::int32_t>(random.between(1, 12));
    const std::int32_t block_size = one_of(random, {1, 2, 4, 16});
    FaultyClusterConfig& cluster = c.cluster;
    cluster.coordinator.n_layers = cluster.worker.n_layers = n_layers;
    cluster.coordinator.block_size = cluster.worker.block_size = block_size;
    cluster.coordinator.context_length = static_cast<std::int32_t>(random.between(32, 160));
    cluster.coordinator.vocab_size = cluster.vocab = one_of(random, {20, 1000});
    cluster.link_latency_s = log_uniform(random, 0.0001, 0.05);
    cluster.link_bytes_per_s = log_uniform(random, 1e6, 1e9);
    cluster.load_s = log_uniform(random, 0.01, 3);
    cluster.fault_seed = random.next();
    cluster.silent_limit_s = one_of(random, {3.0, 5.0, 15.0});
    cluster.hello_replaces = random.chance(0.3);
    cluster.peers_keep_address = random.chance(0.5);
    const auto blocks = (cluster.coordinator.context_length + block_size - 1) / block_size;
    const auto least = (32 + block_size - 1) / block_size;
    const double plenty = log_uniform(random, 0.3, 6);
    cluster.swap_pages = one_of(random, {0, 1, 4, 4}) * blocks * n_layers;
    const auto n_workers = random.between(1, 8);
    for (std::int64_t i = 0; i < n_workers; ++i) {
        spec::NodeSpec node;
        node.name = fmt::format("w{}", i);
        node.decode_s_per_layer = log_uniform(random, 0.0001, 0.006);
        if (random.chance(0.2)) node.host = "shared";
        const double share = plenty * log_uniform(random, 0.5, 2);
        const auto pages = std::max<std::int64_t>(least, std::llround(share * blocks));
        c.workers.emplace_back(node, pages * n_layers);
    }
}

core::Request draw_request(Random& random, const FuzzCase& c, std::int32_t most_prompt,
                           std::int32_t most_output) {
    core::Request request;
    const auto vocab = static_cast<std::uint64_t>(c.cluster.vocab);
    const std::int64_t prompt = random.between(1, most_prompt);
    for (std::int64_t i = 0; i < prompt; ++i) {
        request.prompt.push_back(static_cast<core::Token>(random.below(vocab)));
    }
    request.max_tokens = static_cast<std::int32_t>(random.between(1, most_output));
    request.sampling.seed = random.next();
    return request;
}

// Several answers: drawn apart, or the best of a beam search.
void make_group(Random& random, core::Request& request) {
    request.n = static_cast<std::int32_t>(random.between(1, 4));
    if (!random.chance(0.4)) return;
    core::BeamSearch beam;
    beam.width = request.n + static_cast<std::int32_t>(random.between(0, 2));
    beam.length_penalty = one_of(random, {1.0, 0.0, 2.0, -0.5});
    beam.early_stopping = static_cast<core::EarlyStopping>(random.below(3));
    request.beam = beam;
    request.max_tokens = std::min(std::max(request.max_tokens, 1), 40);
}

void draw_load(Random& random, FuzzCase& c) {
    const std::int32_t context = c.cluster.coordinator.context_length;
    const auto most_prompt = static_cast<std::int32_t>(random.between(1, context));
    const auto most_output = static_cast<std::int32_t>(random.between(1, context));
    const double per_s = log_uniform(random, 0.3, 6);
    const double cancels = one_of(random, {0.0, 0.1, 0.5});
    const bool priorities = random.chance(0.5);
    const bool stops = random.chance(0.4);
    const bool bursts = random.chance(0.3);
    const double groups = one_of(random, {0.0, 0.2, 0.7});
    double at = random.uniform();
    while (at < c.faults_s && c.load.size() < 150) {
        FuzzRequest next;
        next.at_s = at;
        next.request = draw_request(random, c, most_prompt, most_output);
        core::Request& request = next.request;
        // Most fit the context; a few do not, and are refused.
        const auto prompt = static_cast<std::int32_t>(request.prompt.size());
        if (random.chance(0.97)) {
            request.max_tokens = std::min(request.max_tokens, std::max(1, context - prompt));
        }
        if (random.chance(0.05)) request.max_tokens = 0;
        if (priorities) request.priority = static_cast<std::int32_t>(random.between(-2, 2));
        if (stops) {
            request.stop_tokens = {static_cast<core::Token>(random.below(20)),
                                   static_cast<core::Token>(random.below(20))};
            request.min_tokens = static_cast<std::int32_t>(random.between(0, 5));
        }
        if (random.chance(groups)) make_group(random, request);
        if (random.chance(cancels)) next.cancel_after_s = log_uniform(random, 0.001, 5);
        c.load.push_back(std::move(next));
        if (bursts && random.chance(0.8)) continue;
        at += -std::log1p(-random.uniform()) / per_s * (bursts ? 5 : 1);
    }
    for (int i = 0; i < 3; ++i) c.after.push_back(draw_request(random, c, 8, 8));
}

void draw_mix(Random& random, FuzzCase& c) {
    FaultMix mix;
    if (random.chance(0.9)) {  // the others run undisturbed
        for (int kind = 0; kind < kPlainFaultKinds; ++kind) {
            if (random.chance(0.5)) mix.per_minute[kind] = log_uniform(random, 1, 60);
        }
        // Losses and duplicates inside a live connection are more than TCP does: often without.
        if (random.chance(0.5)) {
            mix.per_minute[static_cast<int>(FaultKind::lose)] = 0;
            mix.per_minute[static_cast<int>(FaultKind::duplicate)] = 0;
        }
        if (random.chance(0.25)) {  // nothing that could excuse a stalled request
            for (int kind = 0; kind < kPlainFaultKinds; ++kind) {
                const auto which = static_cast<FaultKind>(kind);
                const bool silent = which != FaultKind::duplicate &&
                                    which != FaultKind::declare_lost &&
                                    which != FaultKind::old_hello;
                if (silent) mix.per_minute[kind] = 0;
            }
        }
        mix.longest_s = log_uniform(random, 1, 20);
        mix.worst_share = log_uniform(random, 0.01, 0.5);
    }
    c.faults =
        draw_faults(random.next(), mix, static_cast<std::int32_t>(c.workers.size()), c.faults_s);
}

// Requests that move, workers that are emptied, that join late, links that break.
void draw_moves(Random& random, FuzzCase& c) {
    FaultyClusterConfig& cluster = c.cluster;
    core::MigrationConfig& how = cluster.coordinator.migration;
    how.enabled = random.chance(0.95);
    how.last_round_blocks = one_of(random, {0, 1, 2, 2, 100});
    how.max_rounds = one_of(random, {0, 1, 3, 8});
    how.timeout = base::from_seconds(one_of(random, {0.5, 5.0, 20.0}));
    how.hold_timeout = base::from_seconds(one_of(random, {0.05, 0.5, 1.0}));
    how.per_worker = one_of(random, {1, 2, 2, 100});
    core::BalanceConfig& balance = cluster.coordinator.balance;
    balance.enabled = random.chance(0.7);
    balance.interval = some_ms(random, {50, 500, 500});
    balance.room_moves = one_of(random, {0, 1, 4});
    balance.headroom = one_of(random, {0.0, 0.1, 0.5});
    cluster.coordinator.empty_timeout = base::from_seconds(one_of(random, {0.1, 2.0, 10.0}));
    cluster.worker.transfer_pages = one_of(random, {1, 3, 16, 512});
    cluster.worker.orphan_timeout = base::from_seconds(one_of(random, {0.3, 2.0, 10.0}));
    cluster.kv_page_bytes = log_uniform(random, 1e3, 1e6);
    cluster.migration_bytes_per_s = log_uniform(random, 1e7, 1e9);
    cluster.kv_formats = one_of(random, {1, 1, 1, 1, 2});
    FaultMix mix;
    const auto rate = [&](FaultKind kind, double share, double low, double high) {
        const double per_minute = log_uniform(random, low, high);
        if (random.chance(share)) mix.per_minute[static_cast<int>(kind)] = per_minute;
    };
    rate(FaultKind::move, 0.7, 5, 60);
    rate(FaultKind::drain, 0.3, 1, 20);
    rate(FaultKind::remove, 0.2, 1, 10);
    rate(FaultKind::break_link, 0.3, 1, 60);
    mix.longest_s = log_uniform(random, 2, 20);
    const auto n = static_cast<std::int32_t>(c.workers.size());
    FaultPlan more = draw_faults(random.next(), mix, n, c.faults_s);
    if (random.chance(0.2)) {  // some come in the middle of the load
        for (std::int32_t i = 0; i < n; ++i) {
            if (!random.chance(0.4)) continue;
            Fault late;
            late.a = i;
            late.for_us = std::llround(random.uniform() * c.faults_s * 1e6);
            more.push_back(late);
        }
    }
    c.faults.insert(c.faults.end(), more.begin(), more.end());
    std::stable_sort(c.faults.begin(), c.faults.end(),
                     [](const Fault& x, const Fault& y) { return x.at_us < y.at_us; });
}

// In some the coordinator dies, again and again.
void draw_deaths(Random& random, FuzzCase& c) {
    if (!random.chance(0.25)) return;
    FaultMix mix;
    mix.per_minute[static_cast<int>(FaultKind::kill_coordinator)] = log_uniform(random, 1, 20);
    mix.longest_s = log_uniform(random, 0.5, 10);
    c.cluster.coordinator.rejoin_wait = some_ms(random, {0, 1000, 5000});
    const auto n = static_cast<std::int32_t>(c.workers.size());
    const FaultPlan more = draw_faults(random.next(), mix, n, c.faults_s);
    c.faults.insert(c.faults.end(), more.begin(), more.end());
    std::stable_sort(c.faults.begin(), c.faults.end(),
                     [](const Fault& x, const Fault& y) { return x.at_us < y.at_us; });
}

// In most of these the clients are at a gateway, which outlives coordinators, and in most of these
// again workers keep what they have for the next one.
void draw_gateways(Random& random, FuzzCase& c) {
    const bool deaths = std::any_of(c.faults.begin(), c.faults.end(), [](const Fault& fault) {
        return fault.kind == FaultKind::kill_coordinator;
    });
    if (!deaths || !random.chance(0.8)) return;
    c.cluster.gateways = 1;
    c.cluster.coordinator.claim_wait = some_ms(random, {300, 2000, 5000});
    if (random.chance(0.9)) {
        c.cluster.worker.coordinator_wait = some_ms(random, {500, 5000, 30000, 30000});
    }
}

// In some the coordinator is replaced, and comes back. Almost always clients are at a gateway then:
// what they would hear of the old one is the question.
void draw_replacements(Random& random, FuzzCase& c) {
    if (!random.chance(0.2)) return;
    FaultMix mix;
    mix.per_minute[static_cast<int>(FaultKind::replace_coordinator)] = log_uniform(random, 1, 20);
    mix.longest_s = log_uniform(random, 0.5, 10);
    const base::Duration rejoin_wait = some_ms(random, {0, 1000, 5000});
    const base::Duration claim_wait = some_ms(random, {300, 2000, 5000});
    const base::Duration coordinator_wait = some_ms(random, {500, 5000, 30000, 30000});
    const bool gateway = random.chance(0.95);
    const bool keeps = random.chance(0.9);
    const auto n = static_cast<std::int32_t>(c.workers.size());
    const FaultPlan more = draw_faults(random.next(), mix, n, c.faults_s);
    if (more.empty()) return;
    c.cluster.coordinator.rejoin_wait = rejoin_wait;
    if (gateway && c.cluster.gateways == 0) {
        c.cluster.gateways = 1;
        c.cluster.coordinator.claim_wait = claim_wait;
        if (keeps) c.cluster.worker.coordinator_wait = coordinator_wait;
    }
    c.faults.insert(c.faults.end(), more.begin(), more.end());
    std::stable_sort(c.faults.begin(), c.faults.end(),
                     [](const Fault& x, const Fault& y) { return x.at_us < y.at_us; });
}

// Where clients are at gateways there are up to three, and in most these die, too, or stand still,
// or lose their coordinator. In some there are gateways though no coordinator dies.
void draw_gateway_faults(Random& random, FuzzCase& c) {
    if (c.cluster.gateways == 0 && !random.chance(0.1)) return;
    c.cluster.gateways = static_cast<std::int32_t>(random.between(1, 3));
    FaultMix mix;
    mix.n_gateways = c.cluster.gateways;
    for (const FaultKind kind :
         {FaultKind::kill_gateway, FaultKind::cut_gateway, FaultKind::pause_gateway}) {
        const double per_minute = log_uniform(random, 1, 20);
        if (random.chance(0.5)) mix.per_minute[static_cast<int>(kind)] = per_minute;
    }
    mix.longest_s = log_uniform(random, 0.5, 10);
    // No gateway gives up: clients would hear of it sooner than any coordinator's timeout allows.
    c.cluster.gateway_rules.coordinator_wait = base::from_seconds(1000);
    const FaultPlan more = draw_faults(random.next(), mix, 0, c.faults_s);
    c.faults.insert(c.faults.end(), more.begin(), more.end());
    std::stable_sort(c.faults.begin(), c.faults.end(),
                     [](const Fault& x, const Fault& y) { return x.at_us < y.at_us; });
}

// In some a worker lies, or several do.
void draw_lies(Random& random, FuzzCase& c) {
    if (!random.chance(0.25)) return;
    FaultMix mix;
    mix.per_minute[static_cast<int>(FaultKind::lie)] = log_uniform(random, 1, 20);
    mix.longest_s = log_uniform(random, 1, 20);
    const auto n = static_cast<std::int32_t>(c.workers.size());
    const FaultPlan more = draw_faults(random.next(), mix, n, c.faults_s);
    c.faults.insert(c.faults.end(), more.begin(), more.end());
    std::stable_sort(c.faults.begin(), c.faults.end(),
                     [](const Fault& x, const Fault& y) { return x.at_us < y.at_us; });
}

// In some a request or two kill each worker that computes one of their tokens.
void draw_poison(Random& random, FuzzCase& c) {
    if (c.load.empty() || !random.chance(0.2)) return;
    for (std::int64_t left = random.between(1, 2); left > 0; --left) {
        FuzzRequest& one = c.load[random.below(c.load.size())];
        one.request.n = 1;
        one.request.beam.reset();
        one.cancel_after_s = -1;
        const auto prompt = static_cast<std::int64_t>(one.request.prompt.size());
        one.poison_at = static_cast<std::int32_t>(random.between(0, prompt + 3));
    }
}

// As of encoders, whose prompts are computed in one piece.
void draw_whole_prompts(Random& random, FuzzCase& c) {
    if (!random.chance(0.1)) return;
    c.cluster.worker.whole_prompts = true;
    c.cluster.worker.prefix_cache = c.cluster.coordinator.prefix_cache = false;
}

// What saves rows: the prefix cache and drafts.
void draw_shortcuts(Random& random, FuzzCase& c) {
    core::CoordinatorConfig& config = c.cluster.coordinator;
    config.prefix_cache = random.chance(0.5);
    c.cluster.worker.prefix_cache = config.prefix_cache != random.chance(0.1);
    config.prefix_cache_blocks = one_of(random, {3, 50, 1 << 17, 1 << 17});
    core::SpeculationConfig& speculation = config.speculation;
    speculation.ngram_tokens = one_of(random, {0, 0, 1, 4, 9});
    speculation.ngram_min = one_of(random, {1, 1, 2});
    speculation.draft_tokens = one_of(random, {0, 0, 1, 5});
    speculation.draft_timeout = some_ms(random, {1, 50, 250});
    speculation.draft_rows = one_of(random, {1, 8, 32, 1000});
    c.cluster.draft_right = one_of(random, {0.0, 0.5, 0.9, 1.0});
    c.cluster.draft_s = log_uniform(random, 0.0001, 0.5);
    // Texts that begin as an earlier one did.
    const double shared = one_of(random, {0.3, 0.9, 1.0});
    for (std::size_t i = 1; i < c.load.size(); ++i) {
        if (!random.chance(shared)) continue;
        std::vector<core::Token>& prompt = c.load[i].request.prompt;
        const std::vector<core::Token>& other = c.load[random.below(i)].request.prompt;
        const std::size_t same = std::min(prompt.size(), other.size());
        std::copy_n(other.begin(), same, prompt.begin());
    }
}

// In some several clients share the cluster.
void draw_clients(Random& random, FuzzCase& c) {
    const auto clients = static_cast<std::uint64_t>(one_of(random, {0, 1, 2, 4}));
    if (clients == 0) return;
    for (FuzzRequest& one : c.load) one.request.client = random.below(clients + 1);
}

// Whose prompts' log-probabilities are asked for.
void draw_scores(Random& random, FuzzCase& c) {
    const double share = one_of(random, {0.0, 0.0, 0.2, 1.0});
    for (FuzzRequest& one : c.load) {
        if (!random.chance(share)) continue;
        one.request.score_prompt = true;
        one.request.sampling.n_logprobs = static_cast<std::int32_t>(random.between(0, 3));
    }
}

// Some cases have workers of one role only; mostly enough for both groups to hold the model.
void draw_roles(Random& random, FuzzCase& c) {
    c.cluster.coordinator.migration.handovers_per_worker = one_of(random, {1, 2, 8, 100});
    if (c.workers.size() < 2 || !random.chance(0.4)) return;
    c.planned_apart = random.chance(0.85);
    for (auto& [node, pages] : c.workers) {
        node.role =
            one_of(random, {spec::NodeRole::prefill, spec::NodeRole::prefill,
                            spec::NodeRole::decode, spec::NodeRole::decode, spec::NodeRole::both});
    }
    if (!random.chance(0.8)) return;
    c.workers.front().first.role = spec::NodeRole::prefill;
    c.workers.back().first.role = spec::NodeRole::decode;
}

// In a quarter some layers have a window.
void draw_window(Random& random, FuzzCase& c) {
    if (!random.chance(0.25)) return;
    core::CoordinatorConfig& config = c.cluster.coordinator;
    spec::AttentionWindow& window = config.window;
    window.positions = one_of(random, {1, 2, 5, 8, 16, 40});
    window.chunked = random.chance(0.3);
    const double share = one_of(random, {0.3, 0.5, 0.8, 1.0});
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer)
        window.layers.push_back(random.chance(share));
    c.cluster.worker.window = window;
}

double slowest_layer_s(const FuzzCase& c) {
    double slowest = 0;
    for (const auto& [node, pages] : c.workers) {
        slowest = std::max(slowest, node.decode_s_per_layer);
    }
    return slowest;
}

// How long the open requests may take once all is well: the timeouts, and the work done again and
// again because memory is short.
double calm_bound(const FuzzCase& c) {
    const double slowest = slowest_layer_s(c);
    const core::CoordinatorConfig& config = c.cluster.coordinator;
    const double layers = config.n_layers;
    const double a_token = layers * slowest * 2 + 20 * c.cluster.link_latency_s +
                           9 * 8192 / c.cluster.link_bytes_per_s;
    const double a_request = a_token * config.context_length;
    return 60 + 2 * (config.stall_timeout.seconds() + config.unserved_timeout.seconds()) +
           4 * a_request * static_cast<double>(c.load.size());
}

// ---- placements
// -----------------------------------------------------------------------------------

// Stages that cover all layers for the first workers of a shuffled order, any range for the rest.
std::vector<spec::LayerRange> draw_ranges(Random& random, std::int32_t n_layers, std::size_t n) {
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    const auto most = std::min<std::size_t>(n, static_cast<std::size_t>(n_layers));
    const auto stages = static_cast<std::int32_t>(1 + random.below(most));
    std::vector<spec::LayerRange> ranges(n);
    for (std::int32_t i = 0; i < stages; ++i) {
        spec::LayerRange& range = ranges[order[static_cast<std::size_t>(i)]];
        range = {n_layers * i / stages, n_layers * (i + 1) / stages};
        if (random.chance(0.3)) {  // into the neighbours' ranges
            range.begin = static_cast<std::int32_t>(random.between(0, range.begin));
            range.end = static_cast<std::int32_t>(random.between(range.end, n_layers));
        }
    }
    for (auto i = static_cast<std::size_t>(stages); i < n; ++i) {
        if (random.chance(0.2)) continue;  // holds nothing
        const auto begin = static_cast<std::int32_t>(random.between(0, n_layers - 1));
        const auto end = static_cast<std::int32_t>(random.between(begin + 1, n_layers));
        ranges[order[i]] = {begin, end};
    }
    return ranges;
}

// The same for the workers that only prefill and for the others, each group by itself.
std::vector<spec::LayerRange> draw_ranges_apart(Random& random, std::int32_t n_layers,
                                                const std::vector<spec::NodeRole>& roles) {
    std::vector<spec::LayerRange> ranges(roles.size());
    for (const bool prefill : {true, false}) {
        std::vector<std::size_t> group;
        for (std::size_t i = 0; i < roles.size(); ++i) {
            if ((roles[i] == spec::NodeRole::prefill) == prefill) group.push_back(i);
        }
        if (group.empty()) continue;
        const auto drawn = draw_ranges(random, n_layers, group.size());
        for (std::size_t i = 0; i < group.size(); ++i) ranges[group[i]] = drawn[i];
    }
    return ranges;
}

bool covers(const std::vector<spec::LayerRange>& ranges, std::int32_t n_layers) {
    for (std::int32_t layer = 0; layer < n_layers; ++layer) {
        if (std::none_of(ranges.begin(), ranges.end(),
                         [&](spec::LayerRange range) { return range.contains(layer); })) {
            return false;
        }
    }
    return true;
}

}  // namespace

FuzzCase draw_case(std::uint64_t seed) {
    Random random(base::hash_pair(seed, 0x5741524dU));
    FuzzCase c;
    c.seed = seed;
    draw_tunables(random, c.cluster);
    draw_cluster(random, c);
    c.cluster.coordinator.min_workers =
        std::min(c.cluster.coordinator.min_workers, static_cast<std::int32_t>(c.workers.size()));
    // With batches of one row a prompt behind others takes long without being stuck.
    core::CoordinatorConfig& config = c.cluster.coordinator;
    config.stall_timeout =
        config.stall_timeout +
        base::from_seconds(20.0 * config.context_length * config.n_layers * slowest_layer_s(c));
    c.fixed_layers = random.chance(0.3);
    c.faults_s = log_uniform(random, 5, 60);
    draw_load(random, c);
    draw_mix(random, c);
    Random more(base::hash_pair(seed, 0x5afeU));  // so that the rest of a seed's case stays
    draw_shortcuts(more, c);
    Random moves(base::hash_pair(seed, 0x303eU));
    draw_moves(moves, c);
    Random deaths(base::hash_pair(seed, 0xdeadU));
    draw_deaths(deaths, c);
    Random lies(base::hash_pair(seed, 0x11e5U));
    draw_lies(lies, c);
    Random poison(base::hash_pair(seed, 0xdeadbeefU));
    draw_poison(poison, c);
    Random scores(base::hash_pair(seed, 0x5c02eU));
    draw_scores(scores, c);
    Random clients(base::hash_pair(seed, 0xc11e47U));
    draw_clients(clients, c);
    Random roles(base::hash_pair(seed, 0x401e5U));
    draw_roles(roles, c);
    Random gateways(base::hash_pair(seed, 0x6a7eU));
    draw_gateways(gateways, c);
    Random replacements(base::hash_pair(seed, 0x7e2aU));
    draw_replacements(replacements, c);
    Random fleets(base::hash_pair(seed, 0x6a7e5U));
    draw_gateway_faults(fleets, c);
    Random pieces(base::hash_pair(seed, 0x3401eU));
    draw_whole_prompts(pieces, c);
    Random window(seed ^ 0x817d08U);
    if (!c.cluster.worker.whole_prompts) draw_window(window, c);  // encoders have none
    c.calm_s = calm_bound(c);
    return c;
}

core::CoordinatorEvent draw_placement(const FuzzCase& which, const core::PlanCluster& request) {
    const std::int32_t n_layers = which.cluster.coordinator.n_layers;
    core::Planned planned;
    planned.plan = request.plan;
    Random random(base::hash_pair(which.seed, which.fixed_layers ? 0 : request.plan));
    std::vector<spec::NodeRole> roles;
    if (which.planned_apart) {
        if (which.fixed_layers) {
            for (const auto& [node, pages] : which.workers) roles.push_back(node.role);
        } else {
            for (const spec::NodeSpec& node : request.cluster.nodes) roles.push_back(node.role);
        }
    }
    const auto draw = [&](std::size_t n) {
        return which.planned_apart ? draw_ranges_apart(random, n_layers, roles)
                                   : draw_ranges(random, n_layers, n);
    };
    if (which.fixed_layers) {
        const auto all = draw(which.workers.size());
        for (const core::WorkerId id : request.workers) {
            planned.placement.layers.push_back(all[id.value]);
        }
    } else {
        planned.placement.layers = draw(request.workers.size());
    }
    const auto& held = planned.placement.layers;
    if (!covers(held, n_layers)) return core::NotPlanned{request.plan, "a layer has no holder"};
    const auto n = static_cast<std::int32_t>(held.size());
    const auto flow = [&](std::int32_t from, std::int32_t to) {
        planned.flows.push_back({from, to, log_uniform(random, 0.1, 20)});
    };
    for (std::int32_t i = 0; i < n; ++i) {
        const spec::LayerRange a = held[static_cast<std::size_t>(i)];
        if (a.empty()) continue;
        if (a.begin == 0) flow(spec::kCoordinator, i);
        if (a.end == n_layers) flow(i, spec::kCoordinator);
        for (std::int32_t j = 0; j < n; ++j) {
            const spec::LayerRange b = held[static_cast<std::size_t>(j)];
            if (b.begin <= a.end && a.end < b.end) flow(i, j);
        }
    }
    return planned;
}

}  // namespace helix::sim
