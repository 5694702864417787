#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/faults/client_watch.h"
#include "spec/attention_window.h"

namespace helix::sim {

struct JudgeConfig {
    std::int32_t n_layers = 0;
    std::int32_t vocab = 0;
    std::int32_t context_length = 0;
    std::int32_t max_waiting = 0;
    double stall_timeout_s = 0;
    double unserved_timeout_s = 0;
    bool faults = false;   // can anything go wrong at all?
    bool deaths = false;   // of the coordinator?
    bool silence = false;  // can messages or machines fall silent, so that requests may stall?
    // Clients are at gateways: the coordinator may have requests yet of which they hear no more.
    bool gateways = false;
    spec::AttentionWindow window = {};  // of the toy model
};

// Decides from outside what a cluster did right and wrong: it sees what clients see, knows from the
// toy model what each request must get, and shares no code with core but the rules of beam search
// (tests/core/beam_search_test.cc judges those). Promises P1, P2, P3 and P6 of
// docs/TESTING.md; the first that is broken is kept.
class Judge final : public ClientWatch {
  public:
    explicit Judge(const JudgeConfig& config) : config_(config) {}

    void submitted(core::TimePoint now, const core::Request& request) override;
    void cancelled(core::TimePoint now, core::RequestId id) override;
    void accepted(core::TimePoint now, core::RequestId id) override;
    void rejected(core::TimePoint now, const core::RejectRequest& what) override;
    void scored(core::TimePoint now, const core::ScoreTokens& scored) override;
    void token(core::TimePoint now, const core::StreamToken& token) override;
    void finished(core::TimePoint now, const core::FinishRequest& what) override;
    void choice_finished(core::TimePoint now, const core::FinishChoice& what) override;
    void cut_off(core::TimePoint now, core::RequestId id) override;
    void worker_lost(core::RequestId id) override { ++views_.at(id).losses; }
    void touched(core::RequestId id, bool wrong_draws) override;

    // Nothing goes wrong any more: what is submitted from now on is served.
    void calm() { calm_ = true; }
    // Nothing more will come.
    void close();

    const std::string& verdict() const { return verdict_; }
    std::int64_t requests() const { return static_cast<std::int64_t>(views_.size()); }
    std::int64_t tokens() const { return tokens_; }
    std::int64_t completed() const { return completed_; }
    std::int64_t errors() const { return errors_; }
    std::int64_t open() const;

  private:
    enum class State { waiting, accepted, ended };
    struct Choice {
        std::vector<core::Token> expected;  // for as long as it may become
        std::int32_t received = 0;
        bool over = false;   // the last token was a stop token that counts
        bool ended = false;  // by FinishChoice
    };
    struct View {
        core::Request request;
        State state = State::waiting;
        std::vector<Choice> choices;
        std::size_t scored = 0;           // tokens of the prompt whose log-probabilities came
        std::vector<std::uint64_t> rows;  // of the prompt, when it is scored
        bool cancelled = false;
        std::int32_t losses = 0;  // of workers that it ran on, since its last token
        bool touched = false;     // by a liar: it may end with any error that says why
        bool misdrawn = false;    // by a liar that draws wrong tokens: what they are says nothing
        bool in_calm = false;
        core::TimePoint submitted_at;
        core::TimePoint last_progress;
    };

    void broken(core::RequestId id, const std::string& what);
    void judge_error(core::TimePoint now, const core::FinishRequest& what, const View& view);
    void judge_cause(core::TimePoint now, const core::FinishRequest& what, const View& view);
    std::int32_t longest(const View& view) const;
    void judge_score(View& view, const core::ProducedToken& token);
    void expect(View& view) const;  // what its choices must say
    void expect_beams(View& view) const;
    void judge_end(core::RequestId id, const View& view, const Choice& choice,
                   core::FinishReason reason);

    JudgeConfig config_;
    std::map<core::RequestId, View> views_;
    bool calm_ = false;
    std::string verdict_;
    std::int64_t tokens_ = 0;
    std::int64_t completed_ = 0;
    std::int64_t errors_ = 0;
};

}  // namespace helix::sim
