#include "cli/serve_pages.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/overloaded.h"
#include "lab/planning/served_what_if.h"
#include "net/addresses.h"
#include "net/key.h"
#include "view/plan/plan_picture.h"
#include "view/plan/plan_svg.h"

namespace helix::cli {
namespace {

// GET /helix/plan and /helix/plan.svg: the placement in force, drawn.
std::string draw_plan(node::CoordinatorServer& coordinator, const spec::ModelSpec& model) {
    const auto last = coordinator.last_plan();
    if (!last && coordinator.view().epoch != 0) {
        return "the placement from before the restart is in force; it was not planned anew "
               "(/helix/cluster shows it)\n";
    }
    if (!last) return "no placement yet\n";
    return view::draw_plan(last->cluster, model, last->report, view::PictureOptions{}) +
           plan::describe_stalls(last->report.stalls, {});
}
std::string draw_plan_svg(const node::CoordinatorServer& coordinator,
                          const spec::ModelSpec& model) {
    const auto last = coordinator.last_plan();
    if (!last) return "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n";
    return view::draw_plan_svg(last->cluster, model, last->report);
}

plan::Change change_of(const api::WhatIfChange& change) {
    return std::visit(
        base::Overloaded{
            [](const api::WhatIfAdd& add) -> plan::Change {
                plan::AddMachines machines{add.type, add.region, add.count, {}};
                if (add.network) {
                    machines.network = {add.network->bandwidth_bytes_per_s, add.network->latency_s};
                }
                return machines;
            },
            [](const api::WhatIfRemove& one) -> plan::Change {
                return plan::RemoveMachine{one.name};
            },
            [](const api::WhatIfSlow& one) -> plan::Change {
                return plan::SlowMachine{one.name, one.factor};
            },
            [](const api::WhatIfLink& link) -> plan::Change {
                return plan::SetLink{link.from + ":" + link.to, link.bandwidth_bytes_per_s,
                                     link.latency_s};
            }},
        change);
}

base::Result<std::string> answer_what_if(const node::CoordinatorServer& coordinator,
                                         const spec::ModelSpec& model,
                                         const api::WhatIfQuestion& asked,
                                         const api::WhatIfWatch& watch) {
    auto last = coordinator.last_plan();
    if (!last) {
        return base::Error{
            base::Errc::unavailable,
            "no placement was planned here yet, so there is nothing to compare with"};
    }
    if (last->cluster.name.empty()) last->cluster.name = "this cluster";
    const lab::ServedPlan served = {std::move(last->cluster), model,
                                    std::move(last->report.placement), last->report.policy};
    lab::ServedQuestion question;
    for (const api::WhatIfChange& change : asked.changes) {
        question.changes.push_back(change_of(change));
    }
    question.suggest = asked.suggest;
    question.budget_s = asked.seconds;
    const auto began = std::chrono::steady_clock::now();
    lab::ServedWatch own;
    own.elapsed_s = [began] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    own.stopped = watch.stopped;
    own.progress = [&watch](const lab::ServedProgress& progress) {
        watch.progress(progress.phase, progress.share_done);
    };
    TRY(const lab::ServedAnswer answer, lab::answer_served_what_if(served, question, own));
    return lab::served_what_if_json(question, answer, own.elapsed_s());
}

// GET /helix/joining.
std::string joining_json(const JoinFacts& facts) {
    nlohmann::ordered_json addresses = nlohmann::ordered_json::array();
    const bool loopback = net::is_loopback(facts.http_host);
    for (const std::string& address : net::reachable_addresses(facts.http_host)) {
        addresses.push_back(fmt::format("{}:{}", net::url_host(address), facts.port));
    }
    const nlohmann::ordered_json out = {
        {"addresses", addresses},
        {"http_is_loopback", loopback},
        {"cluster_port_is_loopback", net::is_loopback(facts.cluster_host)},
        {"keys", !facts.key.empty()},
        {"fixed_placement", facts.fixed_placement}};
    return out.dump();
}

base::Result<std::string> new_worker_key(const std::string& coordinator_key,
                                         const std::string& name) {
    TRY(const net::WorkerKey key, net::list_new_worker(coordinator_key, name));
    const nlohmann::ordered_json out = {
        {"name", name}, {"file", name + ".key"}, {"text", net::key_file_text(key)}};
    return out.dump();
}

}  // namespace

api::ExtraPages extra_pages(node::CoordinatorServer& coordinator, const spec::ModelSpec& model,
                            JoinFacts facts) {
    api::ExtraPages pages = {
        .join = [&coordinator] { return coordinator.join_json(); },
        .plan = [&coordinator, &model] { return draw_plan(coordinator, model); },
        .plan_svg = [&coordinator, &model] { return draw_plan_svg(coordinator, model); },
        .what_if =
            [&coordinator, &model](const api::WhatIfQuestion& question,
                                   const api::WhatIfWatch& watch) {
                return answer_what_if(coordinator, model, question, watch);
            },
        .joining = [facts] { return joining_json(facts); },
        .worker_key = {},
        .pairing = nullptr};
    if (!facts.key.empty()) {
        pages.worker_key = [key = facts.key](const std::string& name) {
            return new_worker_key(key, name);
        };
        pages.pairing = std::make_shared<api::PairingDesk>(
            facts.public_key,
            [key = facts.key](const std::string& name, const std::string& public_key) {
                return net::list_worker(key, name, public_key);
            });
    }
    return pages;
}

}  // namespace helix::cli
