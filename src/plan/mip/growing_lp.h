#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace helix::plan {

// A linear program  max cost x,  rows x <= limits,  x >= 0  to which columns are added as they are
// priced out (CLP, kept warm between solves). Its answers are hints: callers that promise bounds
// check the prices by their own exact arithmetic.
class GrowingLp {
  public:
    struct Term {
        std::int32_t row = 0;
        double factor = 0;
    };

    explicit GrowingLp(const std::vector<double>& limits);
    ~GrowingLp();
    GrowingLp(const GrowingLp&) = delete;
    GrowingLp& operator=(const GrowingLp&) = delete;

    void add_column(double cost, const std::vector<Term>& terms);
    // False if CLP gave up; the figures below then are not to be used.
    bool solve();
    double objective() const;
    // [row], not negative: what one more unit of a limit is worth.
    std::vector<double> prices() const;
    std::vector<double> values() const;  // [column]

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace helix::plan
