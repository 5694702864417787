#include "plan/problem/lengths.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "spec/csv_table.h"

namespace helix::plan {
namespace {

constexpr double kMostRows = 1e15;

// The rows of decodes of one request: so many contexts, one token apart.
struct ContextRun {
    double first = 0;
    double rows = 0;
    double weight = 0;  // of one row

    double last() const { return first + rows - 1; }
};

std::vector<ContextRun> context_runs(const std::vector<LengthPair>& requests) {
    std::vector<ContextRun> runs;
    for (const LengthPair& request : requests) {
        const double decodes = request.output - 1;
        if (!(decodes > 0)) continue;
        const double rows = std::clamp(std::floor(decodes), 1.0, kMostRows);
        runs.push_back({request.prompt, rows, decodes / rows});
    }
    return runs;
}

// The least and the greatest context, and about equally many rows between any two neighbours.
std::vector<double> chosen_contexts(const std::vector<ContextRun>& runs) {
    constexpr int kContextParts = 12;
    constexpr int kPoints = 3;  // that stand for one request's rows
    std::vector<std::pair<double, double>> points;
    double all = 0;
    double least = runs.front().first;
    double most = runs.front().last();
    for (const ContextRun& run : runs) {
        least = std::min(least, run.first);
        most = std::max(most, run.last());
        for (int p = 0; p < kPoints; ++p) {
            const double weight = run.rows * run.weight / kPoints;
            points.emplace_back(run.first + (run.rows - 1) * (p + 0.5) / kPoints, weight);
            all += weight;
        }
    }
    std::sort(points.begin(), points.end());
    std::vector<double> chosen = {least};
    double passed = 0;
    int part = 1;
    for (const auto& [context, weight] : points) {
        passed += weight;
        if (part >= kContextParts || passed < all * part / kContextParts) continue;
        while (part < kContextParts && passed >= all * part / kContextParts) ++part;
        if (context >= chosen.back() + 1 && context <= most - 1) {
            chosen.push_back(std::floor(context));
        }
    }
    if (most > chosen.back()) chosen.push_back(most);
    return chosen;
}

// Adds the run's rows in [low, high), or up to high where it is the last, to both ends' shares.
void share_rows(const ContextRun& run, bool is_last, ContextShare& low, ContextShare& high) {
    const double begin = std::max(0.0, std::ceil(low.tokens - run.first));
    const double after = is_last ? run.rows : std::ceil(high.tokens - run.first);
    const double rows = std::min(run.rows, after) - begin;
    if (rows <= 0) return;
    const double mean = run.first + begin + (rows - 1) / 2;
    const double part = (mean - low.tokens) / (high.tokens - low.tokens);
    high.share += rows * run.weight * part;
    low.share += rows * run.weight * (1 - part);
}

}  // namespace

std::vector<ContextShare> context_shares(const std::vector<LengthPair>& requests) {
    const std::vector<ContextRun> runs = context_runs(requests);
    if (runs.empty()) return {{0, 1}};  // no answer has a second token
    std::vector<ContextShare> shares;
    for (const double tokens : chosen_contexts(runs)) shares.push_back({tokens, 0});
    if (shares.size() == 1) return {{shares.front().tokens, 1}};
    double all = 0;
    for (const ContextRun& run : runs) {
        all += run.rows * run.weight;
        for (std::size_t i = 0; i + 1 < shares.size(); ++i) {
            share_rows(run, i + 2 == shares.size(), shares[i], shares[i + 1]);
        }
    }
    for (ContextShare& share : shares) share.share /= all;
    return shares;
}

const std::vector<ContextShare>& conversation_contexts() {
    static const std::vector<ContextShare> shares = {
        {7, 0.02631},    {348, 0.08653},  {459, 0.10691},  {1054, 0.07552}, {1124, 0.08125},
        {1182, 0.08269}, {1231, 0.08093}, {1281, 0.08435}, {1332, 0.08417}, {1376, 0.07971},
        {1423, 0.08301}, {1489, 0.11706}, {2486, 0.01156}};
    return shares;
}

LengthMoments fixed_lengths(double prompt, double output) {
    return {.prompt = prompt,
            .output = output,
            .prompt_prompt = prompt * prompt,
            .prompt_output = prompt * output,
            .contexts = context_shares({{prompt, output}})};
}

base::Result<LengthMoments> read_lengths(const std::string& path) {
    TRY(const spec::CsvTable table, spec::CsvTable::read(path, {"prompt_tokens", "output_tokens"}));
    if (table.n_rows() == 0) return base::invalid(path + ": expected at least one request");
    LengthMoments sum = fixed_lengths(0, 0);
    std::vector<LengthPair> requests;
    for (std::size_t row = 0; row < table.n_rows(); ++row) {
        TRY(const double prompt, table.number(row, 0));
        TRY(const double output, table.number(row, 1));
        if (prompt < 1 || output < 1) {
            return base::invalid(path + ": every length must be at least 1 token");
        }
        requests.push_back({prompt, output});
        sum.prompt += prompt;
        sum.output += output;
        sum.prompt_prompt += prompt * prompt;
        sum.prompt_output += prompt * output;
    }
    const auto n = static_cast<double>(table.n_rows());
    return LengthMoments{.prompt = sum.prompt / n,
                         .output = sum.output / n,
                         .prompt_prompt = sum.prompt_prompt / n,
                         .prompt_output = sum.prompt_output / n,
                         .contexts = context_shares(requests)};
}

}  // namespace helix::plan
