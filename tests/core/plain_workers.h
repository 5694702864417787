#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "core/coordinator/coordinator.h"
#include "core/find_action.h"
#include "core/invariants.h"

namespace helix::core {

// A model over a few tokens. What comes next depends on all tokens before, and if it is drawn on
// the seed and the member.
struct PlainModel {
    Token vocab = 12;
    std::uint64_t seed = 1;

    static std::uint64_t digest(const std::vector<Token>& tokens) {
        std::uint64_t sum = 7;
        for (const Token token : tokens) {
            sum = base::hash_pair(sum, static_cast<std::uint64_t>(token));
        }
        return sum;
    }
    Token draw(const std::vector<Token>& tokens, std::uint32_t member) const {
        const std::uint64_t bits = base::hash_pair(digest(tokens), base::hash_pair(seed, member));
        return static_cast<Token>(bits % static_cast<std::uint64_t>(vocab));
    }
    // Log-probabilities of all tokens, best first.
    std::vector<spec::TokenLogprob> top(const std::vector<Token>& tokens) const {
        base::Random random(base::hash_pair(digest(tokens), 5));
        std::vector<spec::TokenLogprob> all;
        double sum = 0;
        for (Token token = 0; token < vocab; ++token) {
            const double logit = 3 * random.uniform();
            all.push_back({token, static_cast<float>(logit)});
            sum += std::exp(logit);
        }
        for (auto& one : all) one.logprob -= static_cast<float>(std::log(sum));
        std::stable_sort(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
        return all;
    }
};

// Does with messages what a worker does, plainly: every sequence is the list of its tokens, and
// there is always room. It says in `wrong` if a coordinator asks for what none may ask for.
class PlainWorker {
  public:
    PlainWorker(WorkerId self, PlainModel model) : self_(self), model_(model) {}

    // Takes a message. Rows that go on to the next stage are put there, tokens into `said`.
    void take(const WorkerMessage& message) {
        if (const auto* inputs = std::get_if<StageInputs>(&message)) {
            for (const StageInput& input : inputs->inputs) take_rows(input);
        } else if (const auto* fork = std::get_if<ForkSequences>(&message)) {
            for (const std::uint32_t member : fork->members) {
                forked({fork->parent.request, fork->parent.attempt, member}, fork->parent,
                       fork->tokens);
            }
        } else if (const auto* freed = std::get_if<FreeSequences>(&message)) {
            for (const SequenceKey& key : freed->keys) {
                held.erase(key);
                buried_.insert(key);
            }
        } else if (const auto* swap = std::get_if<SwapSequences>(&message)) {
            for (const SequenceKey& key : swap->keys) take_swap(key, swap->out);
        }
    }

    struct Sequence {
        std::vector<Token> tokens;
        base::SharedValue<SequenceStart> start;
        bool out = false;  // swapped
        std::vector<StageInput> late = {};
    };
    std::map<SequenceKey, Sequence> held;
    std::int32_t swap_failures = 0;  // so many swaps to come find no space
    std::deque<CoordinatorMessage> said;
    std::deque<std::pair<WorkerId, StageInputs>> passed;
    std::string wrong;

  private:
    void fail(const SequenceKey& key, const std::string& what) {
        if (!wrong.empty()) return;
        wrong = "worker " + std::to_string(self_.value) + ", request " +
                std::to_string(key.request.value) + "." + std::to_string(key.attempt) + "/" +
                std::to_string(key.member) + ": " + what;
    }

    // Whether the sequence was freed, or is of an attempt that a newer one has replaced, whose rows
    // may overtake the end of the older one.
    bool over(const SequenceKey& key) const {
        const auto newest = newest_.find(key.request);
        const bool older = newest != newest_.end() && key.attempt < newest->second;
        return older || buried_.contains(key);
    }

    void take_swap(const SequenceKey& key, bool out) {
        if (over(key)) return;
        const auto it = held.find(key);
        if (it == held.end()) return fail(key, "swapped, but unknown");
        if (out && swap_failures > 0) {
            --swap_failures;
            said.push_back(SequenceStuck{key, StuckCause::no_swap_space, "host memory is full"});
            return;
        }
        it->second.out = out;
        if (out) return;
        for (const StageInput& input : std::exchange(it->second.late, {})) run(it->second, input);
    }

    void forked(const SequenceKey& key, const SequenceKey& from, std::int32_t tokens) {
        if (over(key) || held.contains(key)) return;
        const auto parent = held.find(from);
        if (parent == held.end()) return fail(key, "forked from nobody");
        const Sequence& source = parent->second;
        if (source.out) return fail(key, "forked from one that is swapped out");
        if (static_cast<std::int32_t>(source.tokens.size()) < tokens) {
            return fail(key, "forked beyond what is computed");
        }
        Sequence made = source;
        made.tokens.resize(static_cast<std::size_t>(tokens));
        held.emplace(key, std::move(made));
    }

    void take_rows(const StageInput& input) {
        const SequenceKey& key = input.key;
        if (over(key)) return;
        if (input.parent >= 0) {
            forked(key, {key.request, key.attempt, static_cast<std::uint32_t>(input.parent)},
                   input.first_position);
        } else if (input.start) {
            newest_[key.request] = key.attempt;
            std::erase_if(held, [&](const auto& entry) { return over(entry.first); });
            held.emplace(key, Sequence{{}, input.start});
        }
        const auto it = held.find(key);
        if (it == held.end()) return fail(key, "rows of an unknown sequence");
        if (it->second.out) {
            it->second.late.push_back(input);
        } else {
            run(it->second, input);
        }
    }

    void run(Sequence& seq, const StageInput& input) {
        if (input.first_position != static_cast<std::int32_t>(seq.tokens.size())) {
            return fail(input.key, "rows do not follow");
        }
        seq.tokens.insert(seq.tokens.end(), input.tokens.begin(), input.tokens.end());
        const Pipeline& pipeline = seq.start->pipeline;
        if (pipeline.back().worker != self_) {
            StageInput next = input;
            if (input.first_position > 0) next.start = {};
            passed.emplace_back(pipeline.back().worker, StageInputs{{next}});
            return;
        }
        if (!input.sample) return;
        TokensProduced message;
        for (std::int32_t i = 0; i < input.draws; ++i) {
            ProducedToken token;
            token.key = input.key;
            token.key.member += static_cast<std::uint32_t>(i);
            token.position = static_cast<std::int32_t>(seq.tokens.size());
            token.token = model_.draw(seq.tokens, token.key.member);
            if (seq.start->sampling.n_logprobs > 0) {
                token.top = model_.top(seq.tokens);
                token.top.resize(std::min(
                    token.top.size(), static_cast<std::size_t>(seq.start->sampling.n_logprobs)));
            }
            message.tokens.push_back(std::move(token));
        }
        said.push_back(std::move(message));
    }

    WorkerId self_;
    PlainModel model_;
    std::set<SequenceKey> buried_;
    std::map<RequestId, std::uint32_t> newest_;  // attempt
};

// A coordinator over two plain workers, each with half of four layers. Every link keeps its order;
// which link delivers next is drawn.
class PlainCluster {
  public:
    struct Choice {
        std::vector<Token> tokens;
        std::optional<FinishReason> reason;
        std::vector<ProducedToken> produced;
    };
    struct Answer {
        std::map<std::int32_t, Choice> choices;
        std::optional<FinishRequest> finish;
        std::optional<RejectRequest> rejection;
        std::int64_t attempts = 0;
    };

    PlainCluster(std::uint64_t seed, Preemption preemption, std::int64_t pages = 4000,
                 std::int64_t swap_pages = 4000)
        : random_(seed), coordinator_(config(preemption)) {
        for (std::uint32_t i = 0; i < 2; ++i) {
            workers.emplace_back(WorkerId{i}, model);
            WorkerJoined joined;
            joined.worker = {i};
            joined.incarnation = 1;
            joined.node.name = "w" + std::to_string(i);
            step(joined);
        }
        now = now + base::from_seconds(1);
        const auto actions = step(CoordinatorTick{});
        Planned planned;
        planned.plan = find<PlanCluster>(actions)->plan;
        planned.placement.layers = {{0, 2}, {2, 4}};
        planned.flows = {{spec::kCoordinator, 0, 5}, {0, 1, 5}, {1, spec::kCoordinator, 5}};
        step(planned);
        step(FromWorker{{0}, LayersReady{1, {0, 2}, pages, swap_pages}});
        step(FromWorker{{1}, LayersReady{1, {2, 4}, pages, swap_pages}});
    }

    static CoordinatorConfig config(Preemption preemption) {
        CoordinatorConfig config;
        config.n_layers = 4;
        config.context_length = 256;
        config.block_size = 4;
        config.expected_output_tokens = 4;
        config.policy.kv_high_water = 1;
        config.preemption = preemption;
        config.preemption_pause = base::from_ms(1);
        return config;
    }

    std::vector<CoordinatorAction> step(const CoordinatorEvent& event) {
        std::vector<CoordinatorAction> actions;
        coordinator_.step(now, event, actions);
        if (broken.empty()) broken = broken_invariant(coordinator_);
        for (const CoordinatorAction& action : actions) perform(action);
        return actions;
    }

    // Delivers one message of a drawn link; false when none is under way.
    bool deliver() {
        std::vector<int> links;
        for (int w = 0; w < 2; ++w) {
            const auto i = static_cast<std::size_t>(w);
            if (!to_worker_[i].empty()) links.push_back(w);
            if (!workers[i].said.empty()) links.push_back(2 + w);
        }
        if (!workers[0].passed.empty()) links.push_back(4);
        if (links.empty()) return false;
        now = now + base::from_ms(2);
        const int link = links[random_.below(links.size())];
        const auto w = static_cast<std::size_t>(link % 2);
        if (link == 4) {
            const auto rows = take(workers[0].passed);
            workers[rows.first.value].take(rows.second);
        } else if (link < 2) {
            workers[w].take(take(to_worker_[w]));
        } else {
            step(FromWorker{{static_cast<std::uint32_t>(w)}, take(workers[w].said)});
        }
        for (const PlainWorker& worker : workers) {
            if (broken.empty()) broken = worker.wrong;
        }
        return true;
    }

    // Runs until no message is under way.
    void run() {
        for (int i = 0; i < 100'000 && broken.empty(); ++i) {
            if (deliver()) continue;
            now = now + base::from_ms(100);
            step(CoordinatorTick{});
            if (to_worker_[0].empty() && to_worker_[1].empty()) return;
        }
    }

    void stuck(const SequenceKey& key, StuckCause cause = StuckCause::out_of_pages) {
        step(FromWorker{{0}, SequenceStuck{key, cause, "no free KV page"}});
    }
    std::size_t held() const { return workers[0].held.size() + workers[1].held.size(); }
    const Coordinator& coordinator() const { return coordinator_; }

    PlainModel model;
    TimePoint now;
    std::vector<PlainWorker> workers;
    std::map<std::uint64_t, Answer> answers;
    std::vector<WorkerMessage> sent;  // everything
    std::string broken;

  private:
    template <typename T>
    static T take(std::deque<T>& queue) {
        T first = std::move(queue.front());
        queue.pop_front();
        return first;
    }

    void perform(const CoordinatorAction& action) {
        if (const auto* out = std::get_if<SendToWorker>(&action)) {
            if (std::holds_alternative<AssignLayers>(out->message)) return;
            to_worker_[out->worker.value].push_back(out->message);
            sent.push_back(out->message);
        } else if (const auto* token = std::get_if<StreamToken>(&action)) {
            Choice& choice = answers[token->id.value].choices[token->choice];
            const bool next = token->index == static_cast<std::int32_t>(choice.tokens.size());
            if (!next || choice.reason) broken = "a token was skipped, repeated or came too late";
            choice.tokens.push_back(token->token.token);
            choice.produced.push_back(token->token);
        } else if (const auto* end = std::get_if<FinishChoice>(&action)) {
            Choice& choice = answers[end->id.value].choices[end->choice];
            if (choice.reason) broken = "a choice ended twice";
            choice.reason = end->reason;
        } else if (const auto* whole = std::get_if<FinishRequest>(&action)) {
            Answer& answer = answers[whole->id.value];
            if (answer.finish) broken = "a request ended twice";
            answer.finish = *whole;
        } else if (const auto* no = std::get_if<RejectRequest>(&action)) {
            answers[no->id.value].rejection = *no;
        } else if (std::holds_alternative<RequestRouted>(action)) {
            ++answers[std::get<RequestRouted>(action).id.value].attempts;
        }
    }

    base::Random random_;
    Coordinator coordinator_;
    std::deque<WorkerMessage> to_worker_[2];
};

}  // namespace helix::core
