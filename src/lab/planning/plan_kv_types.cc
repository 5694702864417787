#include "lab/planning/plan_kv_types.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace helix::lab {
namespace {

// What plans are compared by.
enum class ServedBy { judge, prediction, flow };

ServedBy common_measure(const PlanSession& session, const plan::PlanReport& a,
                        const plan::PlanReport& b) {
    if (session.settings.options.objective == plan::Objective::flow) return ServedBy::flow;
    if (a.judged_tokens_per_s > 0 && b.judged_tokens_per_s > 0) return ServedBy::judge;
    return a.prediction && b.prediction ? ServedBy::prediction : ServedBy::flow;
}

double served_tokens_per_s(const plan::PlanReport& report, ServedBy measure) {
    switch (measure) {
        case ServedBy::judge:
            return report.judged_tokens_per_s;
        case ServedBy::prediction:
            return report.prediction->decode_tokens_per_s;
        case ServedBy::flow:
            break;
    }
    return report.max_flow_tokens_per_s;
}

bool serves_more(const PlanSession& session, const plan::PlanReport& other,
                 const plan::PlanReport& kept, double times) {
    const ServedBy measure = common_measure(session, other, kept);
    return served_tokens_per_s(other, measure) >= times * served_tokens_per_s(kept, measure);
}

std::string told(const PlanSession& session, const plan::PlanReport& report, spec::KvType type) {
    const ServedBy measure = common_measure(session, report, report);
    return fmt::format("{:.1f} in {}{}", served_tokens_per_s(report, measure),
                       spec::to_string(type),
                       measure == ServedBy::judge        ? ""
                       : measure == ServedBy::prediction ? " (predicted)"
                                                         : " (flow)");
}

}  // namespace

base::Result<KvPlan> plan_kv_types(const PlanSession& session,
                                   std::span<const spec::KvType> types) {
    CHECK(!types.empty());
    const double from_s = session.elapsed_s();
    const std::size_t parts = types.size() + (types.size() > 1 ? 1 : 0);
    const auto end_of_part = [&](std::size_t part) {
        return from_s + (session.budget_s - from_s) * static_cast<double>(part + 1) /
                            static_cast<double>(parts);
    };
    std::vector<base::Result<KvPlan>> planned;
    std::optional<std::size_t> first;  // of the types in which there is a plan, and
    std::size_t best = 0;              // the one that is chosen
    for (std::size_t k = 0; k < types.size(); ++k) {
        ProblemSource source = session.source;
        source.kv_type = types[k];
        TRY(Problem problem, load_problem(source));
        auto report = session.plan(problem, end_of_part(k),
                                   first ? &planned[best]->report.placement : nullptr);
        if (!report.ok()) {
            planned.emplace_back(report.error());
            continue;
        }
        planned.emplace_back(KvPlan{std::move(problem), std::move(*report)});
        const bool more = first && serves_more(session, planned[k]->report, planned[best]->report,
                                               kWorthAnotherKvType);
        if (!first || more) best = k;
        if (!first) first = k;
    }
    if (!first) return planned.front().error();
    // What was found later may be good in the first type, too.
    if (best != *first) {
        const plan::PlanReport& winner = planned[best]->report;
        plan::PlanReport& kept = planned[*first]->report;
        auto again = session.plan(planned[*first]->problem, end_of_part(types.size()),
                                  &winner.placement, winner.policy);
        if (again.ok() && serves_more(session, *again, kept, 1)) kept = std::move(*again);
        if (!serves_more(session, winner, kept, kWorthAnotherKvType)) best = *first;
    }
    std::string all;
    for (std::size_t k = 0; k < types.size(); ++k) {
        all += all.empty() ? "" : ", ";
        all += planned[k].ok() ? told(session, planned[k]->report, types[k])
                               : fmt::format("none in {} ({})", spec::to_string(types[k]),
                                             planned[k].error().message);
    }
    KvPlan chosen = std::move(*planned[best]);
    chosen.report.notes.push_back(
        fmt::format("KV types, tokens/s: {}; one that is named later has to serve {:.0f} % more",
                    all, (kWorthAnotherKvType - 1) * 100));
    return chosen;
}

}  // namespace helix::lab
