#include "plan/mip/growing_lp.h"

#include <OsiClpSolverInterface.hpp>
#include <algorithm>

#include "base/check.h"

namespace helix::plan {

struct GrowingLp::State {
    OsiClpSolverInterface clp;
    bool solved_once = false;
};

GrowingLp::GrowingLp(const std::vector<double>& limits) : state_(std::make_unique<State>()) {
    OsiClpSolverInterface& clp = state_->clp;
    clp.messageHandler()->setLogLevel(0);
    clp.getModelPtr()->setLogLevel(0);
    clp.setHintParam(OsiDoReducePrint, true, OsiHintTry);
    for (const double limit : limits) clp.addRow(0, nullptr, nullptr, -COIN_DBL_MAX, limit);
    clp.setObjSense(-1);
}

GrowingLp::~GrowingLp() = default;

void GrowingLp::add_column(double cost, const std::vector<Term>& terms) {
    std::vector<int> rows;
    std::vector<double> factors;
    for (const Term& term : terms) {
        CHECK(term.row >= 0 && term.row < state_->clp.getNumRows());
        rows.push_back(term.row);
        factors.push_back(term.factor);
    }
    state_->clp.addCol(static_cast<int>(rows.size()), rows.data(), factors.data(), 0, COIN_DBL_MAX,
                       cost);
}

bool GrowingLp::solve() {
    if (state_->solved_once) {
        state_->clp.resolve();
    } else {
        state_->clp.initialSolve();
        state_->solved_once = true;
    }
    return state_->clp.isProvenOptimal();
}

double GrowingLp::objective() const {
    return state_->clp.getObjValue();
}

std::vector<double> GrowingLp::prices() const {
    const double* prices = state_->clp.getRowPrice();
    std::vector<double> result(prices, prices + state_->clp.getNumRows());
    for (double& price : result) price = std::max(price, 0.0);
    return result;
}

std::vector<double> GrowingLp::values() const {
    const double* values = state_->clp.getColSolution();
    return {values, values + state_->clp.getNumCols()};
}

}  // namespace helix::plan
