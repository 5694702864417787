#include "sim/faults/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/random.h"
#include "spec/cluster_spec.h"

namespace helix::sim {
namespace {

struct Form {
    const char* name;
    int places;          // how many of a and b are given
    const char* amount;  // the word before it; nullptr = none
    bool lasts;
    const char* back = nullptr;  // the word before Fault::back_us
};

constexpr std::array<Form, kFaultKinds> kForms{
    {{"kill", 1, "told-after", true},
     {"pause", 1, nullptr, true},
     {"cut", 2, nullptr, true},
     {"slow-link", 2, "times", true},
     {"slow-node", 1, "times", true},
     {"lose", 0, "share", true},
     {"duplicate", 0, "share", true},
     {"declare-lost", 1, nullptr, false},
     {"old-hello", 1, nullptr, false},
     {"move", 0, "per-second", true},
     {"drain", 1, nullptr, true},
     {"remove", 1, nullptr, true},
     {"break-link", 2, nullptr, false},
     {"kill-coordinator", 0, "told-after", true},
     {"lie", 1, "per-second", true},
     {"replace-coordinator", 0, "told-after", true, "old-back-after"},
     {"kill-gateway", 1, "told-after", true},
     {"cut-gateway", 1, "told-after", true},
     {"pause-gateway", 1, nullptr, true}}};

// What Fault::drops is called.
std::string_view flag_of(FaultKind kind) {
    if (kind == FaultKind::cut) return "drop";
    return kind == FaultKind::lie ? "wrong-draws" : "";
}

bool between_any(const Form& form) {  // the coordinator, too
    return form.places == 2 && form.lasts;
}

const Form& form_of(FaultKind kind) {
    return kForms.at(static_cast<std::size_t>(kind));
}

char letter_of(FaultKind kind) {
    return is_of_gateway(kind) ? 'g' : 'w';
}

std::string place(FaultKind kind, std::int32_t vertex) {
    return vertex == spec::kCoordinator ? "c" : fmt::format("{}{}", letter_of(kind), vertex);
}

std::string seconds(std::int64_t us) {
    return fmt::format("{}.{:06}", us / 1'000'000, us % 1'000'000);
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    while (true) {
        const std::size_t begin = line.find_first_not_of(" \t\r");
        if (begin == std::string_view::npos) return words;
        line.remove_prefix(begin);
        const std::size_t length = std::min(line.find_first_of(" \t\r"), line.size());
        words.push_back(line.substr(0, length));
        line.remove_prefix(length);
    }
}

bool read_number(std::string_view word, double& value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() && std::isfinite(value) &&
           value >= 0 && value < 1e9;
}

bool read_us(std::string_view word, std::int64_t& us) {
    double value = 0;
    if (!read_number(word, value)) return false;
    us = std::llround(value * 1e6);
    return true;
}

bool read_place(std::string_view word, char letter, std::int32_t& vertex) {
    if (word == "c") {
        vertex = spec::kCoordinator;
        return true;
    }
    if (word.size() < 2 || word[0] != letter) return false;
    const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), vertex);
    return error == std::errc() && end == word.data() + word.size() && vertex >= 0;
}

bool read_fault(const std::vector<std::string_view>& words, Fault& fault) {
    if (words.size() < 2 || !read_us(words[0], fault.at_us)) return false;
    const auto* form = std::find_if(kForms.begin(), kForms.end(),
                                    [&](const Form& f) { return f.name == words[1]; });
    if (form == kForms.end()) return false;
    fault.kind = static_cast<FaultKind>(form - kForms.begin());
    std::size_t next = 2;
    const auto more = [&] { return next < words.size(); };
    for (int i = 0; i < form->places; ++i) {
        std::int32_t& vertex = i == 0 ? fault.a : fault.b;
        if (!more() || !read_place(words[next++], letter_of(fault.kind), vertex)) return false;
        if (!between_any(*form) && vertex == spec::kCoordinator) return false;
    }
    if (form->amount != nullptr) {
        if (next + 1 >= words.size() || words[next] != form->amount) return false;
        if (!read_number(words[next + 1], fault.amount)) return false;
        next += 2;
    }
    if (form->lasts) {
        if (next + 1 >= words.size() || words[next] != "for") return false;
        if (!read_us(words[next + 1], fault.for_us)) return false;
        next += 2;
    }
    if (form->back != nullptr) {
        if (next + 1 >= words.size() || words[next] != form->back) return false;
        if (!read_us(words[next + 1], fault.back_us)) return false;
        next += 2;
    }
    if (more() && words[next] == flag_of(fault.kind)) {
        fault.drops = true;
        ++next;
    }
    return !more();
}

std::string example(std::string_view kind) {
    for (const Form& form : kForms) {
        if (form.name != kind) continue;
        std::string text = fmt::format("SECONDS {}", form.name);
        const auto which = static_cast<FaultKind>(&form - kForms.data());
        for (int i = 0; i < form.places; ++i) {
            text += fmt::format(" {}N{}", letter_of(which), between_any(form) ? "|c" : "");
        }
        if (form.amount != nullptr) text += fmt::format(" {} NUMBER", form.amount);
        if (form.lasts) text += " for SECONDS";
        if (form.back != nullptr) text += fmt::format(" {} SECONDS", form.back);
        const std::string_view flag = flag_of(which);
        return flag.empty() ? text : fmt::format("{} [{}]", text, flag);
    }
    std::string kinds;
    for (const Form& form : kForms) kinds += fmt::format(" {}", form.name);
    return "SECONDS KIND ..., with a kind of:" + kinds;
}

// Between 2^-8 and 1 times the most, short ones as often as long ones.
double any_scale(base::Random& random, double most) {
    return most * std::exp2(-8 * random.uniform());
}

Fault draw(base::Random& random, FaultKind kind, const FaultMix& mix, std::int32_t n_workers) {
    if (is_of_gateway(kind)) n_workers = mix.n_gateways;
    const auto someone = [&](bool coordinator_too) {
        const auto n = static_cast<std::uint64_t>(n_workers + (coordinator_too ? 1 : 0));
        const auto pick = static_cast<std::int32_t>(random.below(n));
        return pick == n_workers ? spec::kCoordinator : pick;
    };
    Fault fault;
    fault.kind = kind;
    const Form& form = form_of(kind);
    if (form.places == 1) fault.a = someone(false);
    if (form.places == 2) {
        fault.a = someone(between_any(form));
        do {
            fault.b = someone(between_any(form));
        } while (fault.b == fault.a);
    }
    // Thousandths, so that the text says exactly what ran.
    const auto round = [](double value) { return std::round(value * 1000) / 1000; };
    if (kind == FaultKind::kill || kind == FaultKind::kill_coordinator ||
        kind == FaultKind::replace_coordinator || kind == FaultKind::kill_gateway ||
        kind == FaultKind::cut_gateway) {
        fault.amount = random.chance(0.3) ? 0 : round(any_scale(random, mix.longest_s));
    } else if (kind == FaultKind::slow_link || kind == FaultKind::slow_node) {
        fault.amount = round(1 + any_scale(random, 200));
    } else if (kind == FaultKind::lose || kind == FaultKind::duplicate) {
        fault.amount = round(any_scale(random, mix.worst_share));
    } else if (kind == FaultKind::move || kind == FaultKind::lie) {
        fault.amount = round(1 + any_scale(random, 100));
    }
    if (form.lasts) fault.for_us = std::llround(any_scale(random, mix.longest_s) * 1e6);
    if (form.back != nullptr) fault.back_us = std::llround(any_scale(random, mix.longest_s) * 1e6);
    if (!flag_of(kind).empty()) fault.drops = random.chance(0.5);
    return fault;
}

}  // namespace

bool is_of_gateway(FaultKind kind) {
    return kind >= FaultKind::kill_gateway;
}

const char* name_of(FaultKind kind) {
    return form_of(kind).name;
}

std::string to_text(const Fault& fault) {
    const Form& form = form_of(fault.kind);
    std::string text = fmt::format("{} {}", seconds(fault.at_us), form.name);
    if (form.places >= 1) text += " " + place(fault.kind, fault.a);
    if (form.places == 2) text += " " + place(fault.kind, fault.b);
    if (form.amount != nullptr) text += fmt::format(" {} {}", form.amount, fault.amount);
    if (form.lasts) text += " for " + seconds(fault.for_us);
    if (form.back != nullptr) text += fmt::format(" {} {}", form.back, seconds(fault.back_us));
    if (fault.drops) text += fmt::format(" {}", flag_of(fault.kind));
    return text;
}

std::string to_text(const FaultPlan& plan) {
    std::string text;
    for (const Fault& fault : plan) text += to_text(fault) + "\n";
    return text;
}

base::Result<FaultPlan> parse_fault_plan(std::string_view text) {
    FaultPlan plan;
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t length = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, length);
        text.remove_prefix(std::min(length + 1, text.size()));
        const std::vector<std::string_view> words = words_of(line);
        if (words.empty() || words[0].front() == '#') continue;
        Fault fault;
        if (!read_fault(words, fault)) {
            return base::invalid(fmt::format("line {}: \"{}\": expected {}", number, line,
                                             example(words.size() > 1 ? words[1] : "")));
        }
        plan.push_back(fault);
    }
    std::stable_sort(plan.begin(), plan.end(),
                     [](const Fault& x, const Fault& y) { return x.at_us < y.at_us; });
    return plan;
}

FaultPlan draw_faults(std::uint64_t seed, const FaultMix& mix, std::int32_t n_workers,
                      double within_s) {
    FaultPlan plan;
    for (int kind = 0; kind < kFaultKinds; ++kind) {
        base::Random random(base::hash_pair(seed, static_cast<std::uint64_t>(kind)));
        const double rate = mix.per_minute[kind] / 60;
        if (kind == static_cast<int>(FaultKind::break_link) && n_workers < 2) continue;
        if (rate <= 0) continue;
        if (is_of_gateway(static_cast<FaultKind>(kind)) && mix.n_gateways == 0) continue;
        for (double at = 0;;) {
            at += -std::log1p(-random.uniform()) / rate;
            if (at >= within_s) break;
            Fault fault = draw(random, static_cast<FaultKind>(kind), mix, n_workers);
            fault.at_us = std::llround(at * 1e6);
            plan.push_back(fault);
        }
    }
    std::stable_sort(plan.begin(), plan.end(),
                     [](const Fault& x, const Fault& y) { return x.at_us < y.at_us; });
    return plan;
}

}  // namespace helix::sim
