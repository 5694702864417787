#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "core/invariants.h"
#include "core/worker/worker.h"

namespace helix::core::test {

// Drives a Worker from bytes, as a coordinator and an engine with a will of their own would,
// against a plain model: the text of each sequence, and memory in which every position of a page
// holds a hash of its layer and of all tokens up to it. A row that runs twice, out of turn or after
// anything else than its own text is found, and so is a page that leaks.
class SchedulerDrive {
  public:
    struct Counts {
        int batches = 0, rows = 0, forks = 0, overtaken_forks = 0, copies = 0, swapped_pages = 0;
        int drafts_right = 0, drafts_wrong = 0, prefix_hits = 0, prefix_lost = 0;
        int out_of_pages = 0, no_swap_space = 0, failures = 0, group_draws = 0;
    };

    // prompts_first: as in WorkerConfig.
    explicit SchedulerDrive(std::span<const std::uint8_t> bytes,
                            const std::optional<PromptsFirst>& prompts_first = {})
        : bytes_(bytes),
          pages_(kLeastPages + byte() % 40),
          host_pages_(byte() % 24),
          worker_({0}, config(byte(), prompts_first)) {
        memory_.resize(static_cast<std::size_t>(pages_) * kBlock);
        host_memory_.resize(static_cast<std::size_t>(host_pages_) * kBlock);
        say(AssignLayers{1, {0, kLayers}, 1, {}});
        step(LayersLoaded{1, pages_, host_pages_});
    }

    // Runs, and returns what went wrong; empty if nothing did.
    std::string run() {
        while (!bytes_.empty() && wrong_.empty()) act();
        end();
        return wrong_;
    }
    const Counts& counts() const { return counts_; }

  private:
    static constexpr std::int32_t kBlock = 4;
    static constexpr std::int32_t kLayers = 2;
    static constexpr std::int64_t kLeastPages = 24;  // for kLongest and a draft behind it
    static constexpr std::size_t kLongest = 30;
    static constexpr std::size_t kMostSequences = 10;
    static constexpr Token kAlphabet = 2;  // so that texts begin alike

    struct Text {
        std::vector<Token> tokens;  // known for certain; the last one was not sent yet if idle
        std::vector<Token> sent;    // rows under way, drafts included
        std::int32_t computed = 0;  // tokens whose rows have run
        std::int32_t ran = 0;       // of the rows under way
        std::int32_t drafts = 0;    // of the rows under way
        std::int32_t parent = -1;   // to be told with its first rows
        bool fresh = true;          // nothing ran yet
    };

    static WorkerConfig config(std::uint8_t choice,
                               const std::optional<PromptsFirst>& prompts_first) {
        WorkerConfig config;
        config.n_layers = kLayers;
        config.block_size = kBlock;
        config.max_batch_rows = 4 + choice % 16;
        config.mixed_prefill_rows = 3;
        config.prefix_cache = choice >= 64;
        config.prompts_first = prompts_first;
        return config;
    }

    // ---- bytes
    std::uint8_t byte() {
        if (bytes_.empty()) return 0;
        const std::uint8_t value = bytes_.front();
        bytes_ = bytes_.subspan(1);
        return value;
    }
    Token letter() { return byte() % kAlphabet; }
    void fail(const std::string& what) {
        if (wrong_.empty()) wrong_ = what;
    }

    // ---- the coordinator's side
    void act() {
        switch (byte() % 16) {
            case 0:
            case 1:
                return start_new();
            case 2:
                return start_cached();
            case 3:
            case 4:
                return fork();
            case 5:
                return free_one();
            case 6:
                return swap();
            case 7:
                return rarely();
            case 8:
            case 9:
            case 10:
                return go_on();
            default:
                return finish_batch();
        }
    }

    Text* pick(SequenceKey& key) {
        if (texts_.empty()) return nullptr;
        auto it = texts_.begin();
        std::advance(it, byte() % texts_.size());
        key = it->first;
        return &it->second;
    }

    void start_new() {
        if (texts_.size() >= kMostSequences) return;
        std::vector<Token> prompt(1 + byte() % 20);
        for (Token& token : prompt) token = letter();
        start({{next_request_++}, 1, 0}, prompt, 0, 1 + byte() % 3);
    }
    // Starts a sequence as a text that there is, or as one that drafts made and nobody confirmed.
    void start_cached() {
        SequenceKey key;
        const Text* like = pick(key);
        if (like == nullptr || texts_.size() >= kMostSequences) return;
        std::vector<Token> prompt = like->tokens;
        prompt.resize(static_cast<std::size_t>(like->computed));
        if (byte() % 4 == 0) prompt = drafted_;
        const std::size_t full = std::min(prompt.size(), kLongest - 4) / kBlock;
        if (full == 0) return;
        const auto cached = static_cast<std::int32_t>(1 + byte() % full) * kBlock;
        prompt.resize(static_cast<std::size_t>(cached));
        for (int n = 1 + byte() % 4; n > 0; --n) prompt.push_back(letter());
        start({{next_request_++}, 1, 0}, prompt, cached, 1);
    }
    void start(SequenceKey key, const std::vector<Token>& prompt, std::int32_t cached,
               std::int32_t draws) {
        const auto from = prompt.begin() + cached;
        Text& text = texts_[key];
        text.tokens = prompt;
        text.computed = cached;
        text.sent = {from, prompt.end()};
        StageInput input;
        input.key = key;
        input.first_position = cached;
        input.tokens.assign(from, prompt.end());
        input.sample = true;
        input.draws = draws;
        input.start = SequenceStart{{{{0}, {0, kLayers}}},
                                    static_cast<std::int32_t>(prompt.size()),
                                    {},
                                    {prompt.begin(), from}};
        if (draws > 1) ++counts_.group_draws;
        send(input);
        if (cached > 0 && texts_.contains(key)) ++counts_.prefix_hits;
    }
    // Sends the next row of an idle sequence, with a draft behind it.
    void go_on() {
        SequenceKey key;
        Text* text = pick(key);
        if (text == nullptr || !text->sent.empty()) return;
        if (text->tokens.size() >= kLongest) return free_sequence(key);
        text->sent = {text->tokens.back()};
        const int drafts = byte() % 8;
        for (int i = 0; i < drafts - 3; ++i) text->sent.push_back(letter());
        text->drafts = static_cast<std::int32_t>(text->sent.size()) - 1;
        StageInput input;
        input.key = key;
        input.first_position = text->computed;
        input.tokens = text->sent;
        input.sample = true;
        input.drafts = text->drafts;
        input.parent = std::exchange(text->parent, -1);
        send(input);
    }
    void fork() {
        SequenceKey parent;
        const Text* text = pick(parent);
        if (text == nullptr || text->computed == 0 || text->fresh) return;
        if (text->parent >= 0 || texts_.size() + 2 > kMostSequences) return;
        const std::int32_t tokens = text->computed - byte() % std::min(text->computed, 6);
        ForkSequences message{parent, tokens, {}};
        const bool overtaken = byte() % 3 == 0;
        for (int n = 1 + byte() % 2; n > 0; --n) {
            SequenceKey child = parent;
            child.member = ++members_[{parent.request, parent.attempt}];
            message.members.push_back(child.member);
            Text& own = texts_[child];
            own.tokens.assign(text->tokens.begin(), text->tokens.begin() + tokens);
            own.tokens.push_back(letter());
            own.computed = tokens;
            own.parent = static_cast<std::int32_t>(parent.member);
            own.fresh = false;
            if (overtaken) {
                StageInput input;
                input.key = child;
                input.first_position = tokens;
                input.tokens = {own.tokens.back()};
                own.sent = {own.tokens.back()};
                own.drafts = 0;
                input.sample = true;
                input.parent = std::exchange(own.parent, -1);
                send(input);
                ++counts_.overtaken_forks;
            }
            ++counts_.forks;
        }
        if (overtaken) {
            late_.push_back(message);
        } else {
            say(message);
        }
    }
    void free_one() {
        SequenceKey key;
        if (pick(key) != nullptr) free_sequence(key);
    }
    void free_sequence(SequenceKey key) {
        texts_.erase(key);
        say(FreeSequences{{key}});
    }
    void swap() {
        SequenceKey key;
        if (pick(key) == nullptr) return;
        SwapSequences message{byte() % 2 == 0, {}};
        for (auto& [other, text] : texts_) {
            if (other.request != key.request) continue;
            message.keys.push_back(other);
        }
        say(std::move(message));
    }
    void rarely() {
        switch (byte() % 8) {
            case 0:
                return fail_batch();
            case 1:
            case 2:
                return start_again();
            case 3:
            case 4:
                if (last_sent_) say(StageInputs{{*last_sent_}});  // it comes twice
                return;
            case 5:
                if (!late_.empty()) {
                    const ForkSequences message = late_.front();
                    late_.erase(late_.begin());
                    say(message);
                }
                return;
            default:
                now_ = now_ + base::from_seconds(1);
                step(WorkerTick{});
        }
    }
    // Preempts by recompute: sends a newer attempt of the whole text.
    void start_again() {
        SequenceKey key;
        const Text* text = pick(key);
        if (text == nullptr) return;
        const std::vector<Token> tokens = text->tokens;
        std::erase_if(texts_, [&](const auto& one) { return one.first.request == key.request; });
        start({key.request, key.attempt + 1, 0}, tokens, 0, 1);
    }
    void send(const StageInput& input) {
        last_sent_ = input;
        say(StageInputs{{input}});
    }

    // ---- the engine's side
    void run_batch(const BatchPlan& plan) {
        if (running_) return fail("two batches at once");
        running_ = plan;
        ++counts_.batches;
        move_pages(plan);
        std::set<SequenceKey> seen;
        for (const BatchChunk& chunk : plan.chunks) {
            if (!seen.insert(chunk.key).second) return fail("two chunks of one sequence");
            run_chunk(chunk, plan);
        }
    }
    void move_pages(const BatchPlan& plan) {
        if (!plan.swap_out.empty() && !plan.swap_in.empty()) return fail("swaps both ways");
        for (const PageSwap& swap : plan.swap_out)
            copy(memory_, swap.page, host_memory_, swap.slot);
        for (const PageSwap& swap : plan.swap_in) copy(host_memory_, swap.slot, memory_, swap.page);
        for (const PageCopy& one : plan.copies) copy(memory_, one.from, memory_, one.to);
        counts_.swapped_pages += static_cast<int>(plan.swap_out.size() + plan.swap_in.size());
        counts_.copies += static_cast<int>(plan.copies.size());
    }
    void copy(const std::vector<std::uint64_t>& from, std::size_t page,
              std::vector<std::uint64_t>& to, std::size_t slot) {
        if ((page + 1) * kBlock > from.size() || (slot + 1) * kBlock > to.size()) {
            return fail("a page that is not there");
        }
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(page * kBlock), kBlock,
                    to.begin() + static_cast<std::ptrdiff_t>(slot * kBlock));
    }
    void run_chunk(const BatchChunk& chunk, const BatchPlan& plan) {
        const auto found = texts_.find(chunk.key);
        if (found == texts_.end()) return fail("rows of a sequence that ended");
        Text& text = found->second;
        const auto count = static_cast<std::int32_t>(chunk.tokens.size());
        if (chunk.first_position != text.computed + text.ran) return fail("rows out of turn");
        if (text.fresh && !plan.swap_out.empty() && chunk.first_position == 0 && count > 1) {
            return fail("a new sequence begins while another is swapped out");
        }
        text.fresh = false;
        std::vector<Token> all(text.tokens.begin(), text.tokens.begin() + text.computed);
        all.insert(all.end(), text.sent.begin(), text.sent.end());
        const auto end = static_cast<std::size_t>(chunk.first_position + count);
        if (end > all.size()) return fail("rows that nobody sent");
        const bool last = end == all.size();
        if (chunk.sample != last || (last && chunk.drafts != text.drafts)) {
            return fail("samples the wrong rows");
        }
        if (!std::equal(chunk.tokens.begin(), chunk.tokens.end(),
                        all.begin() + chunk.first_position)) {
            return fail("rows of another text");
        }
        check_and_write(chunk, all);
        text.ran += count;
        counts_.rows += count;
    }
    void check_and_write(const BatchChunk& chunk, const std::vector<Token>& all) {
        const std::size_t n_blocks = chunk.pages.size() / kLayers;
        const auto end = static_cast<std::size_t>(chunk.first_position) + chunk.tokens.size();
        if (n_blocks * kBlock < end) return fail("too few pages");
        std::uint64_t so_far = 0;
        for (std::size_t p = 0; p < end; ++p) {
            so_far = base::hash_pair(so_far, static_cast<std::uint64_t>(all[p]) + 1);
            for (std::size_t layer = 0; layer < kLayers; ++layer) {
                const std::size_t page = chunk.pages[layer * n_blocks + p / kBlock];
                if (page >= static_cast<std::size_t>(pages_)) return fail("no such page");
                std::uint64_t& slot = memory_[page * kBlock + p % kBlock];
                const std::uint64_t value = base::hash_pair(so_far, layer);
                if (p >= static_cast<std::size_t>(chunk.first_position)) {
                    slot = value;
                } else if (slot != value) {
                    return fail("position " + std::to_string(p) + " of layer " +
                                std::to_string(layer) + " holds something else");
                }
            }
        }
    }

    void finish_batch() {
        if (!running_) return;
        const BatchPlan plan = std::move(*running_);
        running_.reset();
        std::vector<ProducedToken> tokens;
        for (const BatchChunk& chunk : plan.chunks) {
            if (!chunk.sample) continue;
            const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
            const std::int32_t right = chunk.drafts > 0 ? byte() % (chunk.drafts + 1) : 0;
            for (std::int32_t i = 0; i < right + chunk.draws; ++i) {
                SequenceKey key = chunk.key;
                if (chunk.draws > 1) key.member = static_cast<std::uint32_t>(i);
                const std::int32_t row = rows - chunk.drafts + (chunk.drafts > 0 ? i : 0);
                Token token = letter();
                if (i < right) token = chunk.tokens[static_cast<std::size_t>(row)];
                if (i == right && right < chunk.drafts) {
                    token = (chunk.tokens[static_cast<std::size_t>(row)] + 1) % kAlphabet;
                }
                tokens.push_back({key, chunk.first_position + row, token, 0, {}});
            }
            counts_.drafts_right += right;
            counts_.drafts_wrong += chunk.drafts - right;
        }
        step(BatchFinished{plan.id, std::move(tokens), {}});
    }
    void fail_batch() {
        if (!running_) return;
        const std::uint64_t id = running_->id;
        running_.reset();
        failing_ = true;
        step(BatchFailed{id, "the engine failed"});
        failing_ = false;
        ++counts_.failures;
    }

    // ---- between them
    void say(WorkerMessage message) { step(MessageArrived{std::move(message)}); }
    void step(const WorkerEvent& event) {
        if (!wrong_.empty()) return;
        std::vector<WorkerAction> actions;
        worker_.step(now_, event, actions);
        const std::string broken = broken_invariant(worker_);
        if (!broken.empty()) return fail(broken);
        for (const WorkerAction& action : actions) {
            const auto* out = std::get_if<SendToCoordinator>(&action);
            if (out == nullptr) continue;
            if (const auto* said = std::get_if<TokensProduced>(&out->message)) on_tokens(*said);
            if (const auto* stuck = std::get_if<SequenceStuck>(&out->message)) on_stuck(*stuck);
        }
        for (const WorkerAction& action : actions) {
            if (const auto* batch = std::get_if<RunBatch>(&action)) run_batch(batch->plan);
        }
    }
    void on_tokens(const TokensProduced& said) {
        for (std::size_t i = 0; i < said.tokens.size();) {
            const SequenceKey key = said.tokens[i].key;
            const auto found = texts_.find(key);
            if (found == texts_.end()) return fail("tokens of a sequence that ended");
            Text& text = found->second;
            const auto rows = static_cast<std::int32_t>(text.sent.size());
            if (text.ran != rows) return fail("tokens before their rows have run");
            if (text.drafts > 0) {
                drafted_.assign(text.tokens.begin(), text.tokens.begin() + text.computed);
                drafted_.insert(drafted_.end(), text.sent.begin(), text.sent.end());
            }
            text.computed += rows - 1 - text.drafts;
            text.tokens.resize(static_cast<std::size_t>(text.computed) + 1);
            for (; i < said.tokens.size() && said.tokens[i].key == key; ++i) {
                ++text.computed;
                if (said.tokens[i].position != text.computed) return fail("a token out of turn");
                text.tokens.push_back(said.tokens[i].token);
            }
            text.sent.clear();
            text.ran = text.drafts = 0;
            // Tokens that were drawn for further members are dropped, since nobody forks those
            // here.
            for (std::uint32_t member = 1; i < said.tokens.size(); ++i, ++member) {
                SequenceKey other = key;
                other.member = member;
                if (said.tokens[i].key != other || texts_.contains(other)) break;
            }
        }
    }
    void on_stuck(const SequenceStuck& stuck) {
        if (stuck.cause == StuckCause::out_of_pages) {
            ++counts_.out_of_pages;
        } else if (stuck.cause == StuckCause::no_swap_space) {
            ++counts_.no_swap_space;
        } else if (stuck.cause == StuckCause::prefix_lost) {
            ++counts_.prefix_lost;
            texts_.erase(stuck.key);
        } else if (failing_) {
            texts_.erase(stuck.key);
        } else if (texts_.contains(stuck.key)) {
            fail("a sequence failed: " + stuck.reason);
        }
    }

    // Ends: one sequence is left and must get to its token; then nothing may be left.
    void end() {
        while (texts_.size() > 1) free_sequence(std::prev(texts_.end())->first);
        if (!texts_.empty()) {
            const SequenceKey key = texts_.begin()->first;
            say(SwapSequences{false, {key}});
            for (int i = 0; i < 100 && running_; ++i) finish_batch();
            if (texts_.contains(key) && !texts_.at(key).sent.empty()) fail("the last one hangs");
            free_sequence(key);
        }
        for (int i = 0; i < 100 && running_; ++i) finish_batch();
        if (wrong_.empty()) fail(held_when_idle(worker_));
    }

    std::span<const std::uint8_t> bytes_;
    std::int64_t pages_;
    std::int64_t host_pages_;
    Worker worker_;
    TimePoint now_;
    std::vector<std::uint64_t> memory_;
    std::vector<std::uint64_t> host_memory_;
    std::map<SequenceKey, Text> texts_;
    std::map<std::pair<RequestId, std::uint32_t>, std::uint32_t> members_;
    std::vector<ForkSequences> late_;
    std::vector<Token> drafted_;
    std::optional<StageInput> last_sent_;
    std::optional<BatchPlan> running_;
    std::uint64_t next_request_ = 1;
    bool failing_ = false;
    std::string wrong_;
    Counts counts_;
};

}  // namespace helix::core::test
