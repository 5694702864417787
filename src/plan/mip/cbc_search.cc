#include <fmt/format.h>

#include <CbcEventHandler.hpp>
#include <CbcHeuristic.hpp>
#include <CbcHeuristicDiveCoefficient.hpp>
#include <CbcHeuristicFPump.hpp>
#include <CbcHeuristicRINS.hpp>
#include <CbcModel.hpp>
#include <CglFlowCover.hpp>
#include <CglGomory.hpp>
#include <CglKnapsackCover.hpp>
#include <CglMixedIntegerRounding2.hpp>
#include <CglPreProcess.hpp>
#include <CglProbing.hpp>
#include <CglTwomir.hpp>
#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "plan/mip/coin_program.h"

namespace helix::plan::mip {
namespace {

constexpr double kNothingYet = 1e40;  // CBC's objective before a first solution is larger

constexpr int kLarge = 1500;  // columns

// What the search has told so far, in CBC's sense (minimising).
struct Progress {
    double best = kInfinity;
    double bound = -kInfinity;
    bool asked_to_stop = false;
    bool over = false;  // the search has returned
};

// CBC copies its handler; all copies write to one Progress.
class Watcher : public CbcEventHandler {
  public:
    Watcher(const SolveOptions& options, double sign, Progress& progress)
        : options_(&options), sign_(sign), progress_(&progress) {}
    CbcEventHandler* clone() const override { return new Watcher(*this); }

    CbcAction event(CbcEvent which) override {
        if (which == endSearch) return noAction;
        // Searches inside of heuristics have bounds of their own problem, not of ours.
        if (model_->parentModel() == nullptr) {
            if (model_->getObjValue() < kNothingYet) {
                progress_->best = std::min(progress_->best, model_->getObjValue());
            }
            if (!progress_->asked_to_stop && (which == node || which == treeStatus)) {
                const double bound = model_->getBestPossibleObjValue();
                if (std::abs(bound) < kNothingYet) {
                    progress_->bound = std::max(progress_->bound, bound);
                }
            }
        }
        if (!progress_->asked_to_stop && options_->stop) {
            progress_->asked_to_stop =
                options_->stop(sign_ * progress_->best, sign_ * progress_->bound);
        }
        return progress_->asked_to_stop ? stop : noAction;
    }

  private:
    const SolveOptions* options_;
    double sign_;
    Progress* progress_;
};

// Asks inside of the linear programs too: those of a large root take longer than all else. Says so
// to the search, which ends at its next step.
class LinearWatcher : public ClpEventHandler {
  public:
    LinearWatcher(const SolveOptions& options, double sign, Progress& progress, CbcModel& search)
        : options_(&options), sign_(sign), progress_(&progress), search_(&search) {}
    ClpEventHandler* clone() const override { return new LinearWatcher(*this); }

    int event(Event which) override {
        if (which != endOfFactorization || !options_->stop || progress_->over) return -1;
        if (!progress_->asked_to_stop) {
            progress_->asked_to_stop =
                options_->stop(sign_ * progress_->best, sign_ * progress_->bound);
        }
        if (!progress_->asked_to_stop) return -1;
        search_->sayEventHappened();
        return 1;  // and this program ends unsolved
    }

  private:
    const SolveOptions* options_;
    double sign_;
    Progress* progress_;
    CbcModel* search_;
};

void add_cuts_and_heuristics(CbcModel& model) {
    CglProbing probing;
    probing.setUsingObjective(1);
    probing.setMaxPass(1);
    probing.setMaxPassRoot(1);
    probing.setMaxProbe(10);
    probing.setMaxLook(10);
    probing.setMaxElements(200);
    probing.setRowCuts(3);
    model.addCutGenerator(&probing, -98, "probing");
    CglGomory gomory;
    gomory.setLimitAtRoot(1000);
    gomory.setLimit(50);
    model.addCutGenerator(&gomory, -98, "gomory");
    CglKnapsackCover knapsack;
    model.addCutGenerator(&knapsack, -98, "knapsack");
    CglMixedIntegerRounding2 rounding_cuts;
    model.addCutGenerator(&rounding_cuts, -98, "rounding");
    CglFlowCover flow_cover;
    model.addCutGenerator(&flow_cover, -98, "flow cover");
    if (model.getNumCols() > kLarge) return;  // one round of the rest takes minutes there
    CglTwomir two_step;
    two_step.setMaxElements(250);
    model.addCutGenerator(&two_step, -99, "two-step rounding");

    CbcRounding rounding(model);
    model.addHeuristic(&rounding, "rounding");
    CbcHeuristicFPump pump(model);
    pump.setMaximumPasses(20);
    model.addHeuristic(&pump, "feasibility pump");
    CbcHeuristicDiveCoefficient dive(model);
    model.addHeuristic(&dive, "dive");
    CbcHeuristicRINS neighbourhood(model);
    neighbourhood.setHowOften(100);
    model.addHeuristic(&neighbourhood, "neighbourhood");
}

// The best completion of the integer columns of `values`; nothing if there is none.
std::optional<std::vector<double>> complete(const OsiClpSolverInterface& osi,
                                            const std::vector<double>& values) {
    OsiClpSolverInterface fixed(osi);
    fixed.messageHandler()->setLogLevel(0);
    for (int c = 0; c < fixed.getNumCols(); ++c) {
        if (!fixed.isInteger(c)) continue;
        const double value = std::round(values[static_cast<std::size_t>(c)]);
        if (value < fixed.getColLower()[c] - 0.5 || value > fixed.getColUpper()[c] + 0.5) {
            return std::nullopt;
        }
        fixed.setColBounds(c, value, value);
    }
    fixed.initialSolve();
    if (!fixed.isProvenOptimal()) return std::nullopt;
    return std::vector<double>(fixed.getColSolution(), fixed.getColSolution() + fixed.getNumCols());
}

class Search {
  public:
    Search(const Program& program, const SolveOptions& options)
        : program_(program), options_(options), sign_(sign_of(program)) {
        load(program, osi_);
        solution_.bound = -sign_ * kInfinity;
    }

    base::Result<Solution> run() {
        if (!options_.start.empty()) start_ = complete(osi_, options_.start);
        if (start_) progress_.best = sign_ * objective_of(program_, *start_);
        osi_.initialSolve();
        if (osi_.isProvenPrimalInfeasible()) return ended(Outcome::infeasible);
        if (osi_.isProvenDualInfeasible()) return ended(Outcome::unbounded);
        if (!osi_.isProvenOptimal()) {
            return base::Error{base::Errc::internal,
                               "CLP gave up on the relaxation of an integer program"};
        }
        progress_.bound = osi_.getObjValue();
        if (options_.stop && options_.stop(sign_ * progress_.best, sign_ * progress_.bound)) {
            progress_.asked_to_stop = true;
            if (start_) take(*start_);
            return finished(false);
        }
        return presolved_search();
    }

  private:
    Solution ended(Outcome outcome) {
        solution_.outcome = outcome;
        return solution_;
    }

    base::Result<Solution> presolved_search() {
        CglPreProcess process;
        process.messageHandler()->setLogLevel(0);
        OsiClpSolverInterface original(osi_);
        original.messageHandler()->setLogLevel(0);
        OsiSolverInterface* reduced = process.preProcessNonDefault(original, 0, 10, 0);
        if (reduced == nullptr) {  // says that nothing is feasible; the plain search must agree
            return search(osi_, nullptr);
        }
        reduced->messageHandler()->setLogLevel(0);
        OsiClpSolverInterface small(*dynamic_cast<OsiClpSolverInterface*>(reduced));
        if (start_) {
            const int* kept = process.originalColumns();
            std::vector<double> mapped;
            for (int c = 0; c < small.getNumCols(); ++c) {
                mapped.push_back((*start_)[static_cast<std::size_t>(kept[c])]);
            }
            // Presolve may drop solutions that it knows another one to be as good as.
            small_start_ = complete(small, mapped);
            if (!small_start_) return search(osi_, nullptr);
        }
        return search(small, &process);
    }

    base::Result<Solution> search(OsiClpSolverInterface& osi, CglPreProcess* process) {
        osi.setHintParam(OsiDoReducePrint, true, OsiHintTry);
        osi.initialSolve();
        CbcModel model(osi);
        model.setLogLevel(0);
        model.messageHandler()->setLogLevel(0);
        model.solver()->messageHandler()->setLogLevel(0);
        const Watcher watcher(options_, sign_, progress_);
        model.passInEventHandler(&watcher);
        const LinearWatcher linear_watcher(options_, sign_, progress_, model);
        dynamic_cast<OsiClpSolverInterface&>(*model.solver())
            .getModelPtr()
            ->passInEventHandler(&linear_watcher);
        model.setAllowableFractionGap(options_.relative_gap);
        model.setAllowableGap(1e-9);
        add_cuts_and_heuristics(model);
        const auto& start = process != nullptr ? small_start_ : start_;
        if (start) {
            double value = 0;
            osi.getDblParam(OsiObjOffset, value);
            value = -value;
            for (std::size_t c = 0; c < start->size(); ++c) {
                value += osi.getObjCoefficients()[c] * (*start)[c];
            }
            model.setBestSolution(start->data(), static_cast<int>(start->size()), value, false);
        }
        pass_priorities(model, process);
        model.branchAndBound();
        solution_.nodes = model.getNodeCount();
        // Once stopped, linear programs end unsolved and nothing proven counts.
        const bool complete = model.status() == 0 && !progress_.asked_to_stop;
        const double bound = model.getBestPossibleObjValue();
        if (!progress_.asked_to_stop && std::abs(bound) < kNothingYet)
            progress_.bound = std::max(progress_.bound, bound);
        progress_.over = true;
        TRY_VOID(take_best(model, osi, process));
        if (complete && model.isContinuousUnbounded()) return ended(Outcome::unbounded);
        return finished(complete);
    }

    void pass_priorities(CbcModel& model, CglPreProcess* process) const {
        const int* kept = process != nullptr ? process->originalColumns() : nullptr;
        std::vector<int> priorities;
        for (int c = 0; c < model.getNumCols(); ++c) {
            if (!model.solver()->isInteger(c)) continue;
            const auto column = static_cast<std::size_t>(kept != nullptr ? kept[c] : c);
            priorities.push_back(1000 + program_.columns[column].priority);  // CBC's default: 1000
        }
        if (priorities.empty() || std::all_of(priorities.begin(), priorities.end(),
                                              [](int priority) { return priority == 1000; }))
            return;
        model.findIntegers(false);
        model.passInPriorities(priorities.data(), false);
    }

    // The search's best solution in the columns of the program, else the start.
    // A stopped search may leave its solver with an unsolved program: solved here once more.
    base::Status take_best(CbcModel& model, const OsiClpSolverInterface& osi,
                           CglPreProcess* process) {
        if (model.bestSolution() != nullptr) {
            std::vector<double> best;
            if (process != nullptr) {
                OsiClpSolverInterface fixed(osi);
                for (int c = 0; c < fixed.getNumCols(); ++c) {
                    const double value = std::round(model.bestSolution()[c]);
                    if (fixed.isInteger(c)) fixed.setColBounds(c, value, value);
                }
                fixed.initialSolve();
                process->postProcess(fixed);
                const OsiSolverInterface& restored = *process->originalModel();
                best.assign(restored.getColSolution(),
                            restored.getColSolution() + restored.getNumCols());
            } else {
                best.assign(model.bestSolution(), model.bestSolution() + program_.columns.size());
            }
            auto exact = complete(osi_, best);
            if (!exact && !progress_.asked_to_stop) {
                return base::Error{base::Errc::internal,
                                   "CBC found a solution that does not fit the program"};
            }
            if (exact) take(*exact);
        }
        if (start_ && (solution_.values.empty() ||
                       sign_ * objective_of(program_, *start_) < sign_ * solution_.objective)) {
            take(*start_);
        }
        return base::Ok{};
    }

    void take(std::vector<double> values) {
        for (std::size_t c = 0; c < values.size(); ++c) {
            if (program_.columns[c].integer) values[c] = std::round(values[c]);
        }
        solution_.values = std::move(values);
        solution_.objective = objective_of(program_, solution_.values);
    }

    Solution finished(bool complete_search) {
        solution_.start_used = start_.has_value();
        solution_.bound = sign_ * progress_.bound;
        if (solution_.values.empty()) {
            solution_.outcome = complete_search ? Outcome::infeasible : Outcome::stopped;
            return solution_;
        }
        solution_.outcome = complete_search ? Outcome::optimal : Outcome::feasible;
        // Rounding in the last digits must not put the bound on the wrong side.
        if (sign_ * solution_.bound > sign_ * solution_.objective ||
            (complete_search && options_.relative_gap == 0)) {
            solution_.bound = solution_.objective;
        }
        return solution_;
    }

    const Program& program_;
    const SolveOptions& options_;
    double sign_;
    OsiClpSolverInterface osi_;
    std::optional<std::vector<double>> start_;        // completed, in the columns of the program
    std::optional<std::vector<double>> small_start_;  // in those that presolve left
    Progress progress_;
    Solution solution_;
};

}  // namespace

base::Result<Solution> solve_integer(const Program& program, const SolveOptions& options) {
    return Search(program, options).run();
}

}  // namespace helix::plan::mip
