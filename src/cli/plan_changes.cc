#include "cli/plan_changes.h"

#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "cli/plan_output.h"
#include "lab/planning/change_report.h"
#include "lab/planning/plan_changes.h"
#include "spec/units.h"

namespace helix::cli {

base::Status run_what_if(const PlanArguments& a, const lab::PlanSession& session,
                         PlanProgressLine& line) {
    TRY(const auto changes, lab::parse_changes(a.changes));
    TRY(const lab::WhatIfAnswer answer, lab::answer_what_if(session, changes));
    line.interrupt();
    const plan::PlanReport& report = answer.plans.after;
    if (a.json) {
        std::puts(lab::what_if_json(changes, answer, session.elapsed_s()).c_str());
        return write_plan_files(a, answer.after, report);
    }
    TRY_VOID(show_plan(a, answer.after, report, session.elapsed_s()));
    std::fputs(lab::what_if_text(changes, answer).c_str(), stdout);
    return base::Ok{};
}

base::Status run_replan(const PlanArguments& a, const lab::PlanSession& session,
                        PlanProgressLine& line) {
    lab::ReplanQuestion question;
    TRY(question.changes, lab::parse_changes(a.changes));
    TRY(question.horizon_s, spec::parse_duration("--horizon", a.horizon));
    if (question.horizon_s <= 0) return base::invalid("--horizon: expected a time above 0");
    question.current = a.current;
    TRY(const lab::ReplanAnswer answer, lab::answer_replan(session, question));
    line.interrupt();
    if (a.json) {
        std::puts(lab::replan_json(answer, session.elapsed_s()).c_str());
        return write_plan_files(a, answer.problem, answer.report);
    }
    TRY_VOID(show_plan(a, answer.problem, answer.report, session.elapsed_s()));
    std::fputs(lab::replan_text(answer).c_str(), stdout);
    return base::Ok{};
}

base::Status run_advise(const PlanArguments& a, const lab::PlanSession& session,
                        PlanProgressLine& line) {
    if (a.advise < 1 || a.advise > 20) return base::invalid("--advise: expected 1 to 20 purchases");
    TRY(const lab::Advised advised, lab::answer_advise(session, a.advise, a.current));
    line.interrupt();
    if (advised.report.stopped && advised.report.ranked.empty()) {
        return base::Error{base::Errc::unavailable,
                           fmt::format("--advise: no change was judged within {:g} s; give it more "
                                       "with --budget",
                                       session.budget_s)};
    }
    const std::string shown = a.json ? lab::advice_json(advised) + "\n" : lab::advice_text(advised);
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

}  // namespace helix::cli
