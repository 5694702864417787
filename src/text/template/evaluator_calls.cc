#include <algorithm>
#include <array>
#include <ctime>

#include "text/template/access.h"
#include "text/template/evaluator.h"
#include "text/template/operators.h"
#include "text/template/repr.h"

namespace helix::text::jinja {

namespace {

constexpr std::int64_t kMaxRange = 100'000;

}  // namespace

void Evaluator::define_globals() {
    for (const char* name : {"range", "dict", "namespace", "raise_exception", "strftime_now"}) {
        auto callable = std::make_shared<Callable>();
        callable->name = name;
        define(name, Value(CallablePtr(std::move(callable))));
    }
}

Result<Value> Evaluator::call(const Value& callee, const Arguments& arguments) {
    if (auto error = undefined_error(callee)) return *error;
    if (const auto* loop = callee.get<LoopPtr>()) return call_loop(**loop, arguments);
    const auto* callable = callee.get<CallablePtr>();
    if (callable == nullptr)
        return base::invalid("'" + type_name(callee) + "' object is not callable");
    // The callee may be the last owner of itself while it runs.
    const CallablePtr kept = *callable;
    switch (kept->kind) {
        case Callable::Kind::method:
            return call_method(kept->receiver, kept->name, arguments, budget_);
        case Callable::Kind::macro:
            return call_macro(*kept, arguments);
        case Callable::Kind::global:
            return call_global(kept->name, arguments);
    }
    return base::invalid("unknown callable");
}

Result<Value> Evaluator::call_global(const std::string& name, const Arguments& arguments) {
    if (name == "range") return make_range(arguments);
    if (name == "namespace") return make_namespace(arguments);
    if (name == "strftime_now") return format_now(arguments);
    if (name == "dict") {
        TRY(Dict dict, make_dict_from(arguments));
        return make_dict(std::move(dict), budget_);
    }
    TRY(const Bound bound, Bound::bind("raise_exception", "message", 1, arguments));
    TRY(std::string message, to_text(bound.at(0), budget_));
    located_ = true;  // the template's own words, for the user
    return base::invalid(std::move(message));
}

Result<Value> Evaluator::call_macro(const Callable& callable, const Arguments& arguments) {
    const ScopeGuard scope(*this, callable.scope->shared_from_this());
    TRY_VOID(bind_macro(*callable.macro, arguments));
    std::string outer = std::exchange(output_, {});
    const auto flow = exec(callable.macro->body);
    std::string text = std::exchange(output_, std::move(outer));
    if (!flow.ok()) return flow.error();
    return make_text(std::move(text), budget_);
}

Status Evaluator::bind_macro(const MacroDef& macro, const Arguments& arguments) {
    const std::size_t count = macro.parameters.size();
    std::vector<bool> given(count, false);
    for (std::size_t i = 0; i < count; ++i) {
        const std::string& name = macro.parameters[i];
        const Value* named = arguments.find(name);
        const bool by_place = i < arguments.positional.size();
        if (by_place && named != nullptr) {
            return base::invalid("macro '" + macro.name + "' got two values for argument '" + name +
                                 "'");
        }
        given[i] = by_place || named != nullptr;
        Value value = by_place ? arguments.positional[i]
                      : named != nullptr
                          ? *named
                          : make_undefined("parameter '" + name + "' was not provided");
        define(name, std::move(value));
    }
    const std::size_t first_default = count - macro.defaults.size();
    for (std::size_t i = first_default; i < count; ++i) {
        if (given[i]) continue;
        TRY(Value value, eval(*macro.defaults[i - first_default]));
        define(macro.parameters[i], std::move(value));
    }
    return bind_extras(macro, arguments);
}

// The arguments beyond the parameters: caller, kwargs and varargs, as far as the macro uses them.
Status Evaluator::bind_extras(const MacroDef& macro, const Arguments& arguments) {
    const auto is_parameter = [&](const std::string& name) {
        return std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
               macro.parameters.end();
    };
    const bool takes_caller = macro.uses_caller && !is_parameter("caller");
    if (takes_caller) {
        const Value* caller = arguments.find("caller");
        define("caller", caller != nullptr ? *caller : make_undefined("no caller defined"));
    }
    Dict rest;
    for (const auto& [name, value] : arguments.named) {
        if (is_parameter(name) || (takes_caller && name == "caller")) continue;
        if (!macro.uses_kwargs) {
            return base::invalid("macro '" + macro.name + "' takes no keyword argument '" + name +
                                 "'");
        }
        rest.set_text(name, value);
    }
    if (macro.uses_kwargs && !is_parameter("kwargs")) {
        TRY(Value kwargs, make_dict(std::move(rest), budget_));
        define("kwargs", std::move(kwargs));
    }
    const std::size_t count = macro.parameters.size();
    if (arguments.positional.size() > count && !macro.uses_varargs) {
        return base::invalid("macro '" + macro.name + "' takes not more than " +
                             std::to_string(count) + " argument(s), got " +
                             std::to_string(arguments.positional.size()));
    }
    if (macro.uses_varargs && !is_parameter("varargs")) {
        const std::size_t used = std::min(count, arguments.positional.size());
        std::vector<Value> more(arguments.positional.begin() + static_cast<std::ptrdiff_t>(used),
                                arguments.positional.end());
        TRY(Value varargs, make_sequence(std::move(more), budget_, SequenceKind::tuple));
        define("varargs", std::move(varargs));
    }
    return base::Ok{};
}

Result<Value> Evaluator::call_loop(Loop& loop, const Arguments& arguments) {
    TRY(const Bound bound, Bound::bind("loop", "iterable", 1, arguments));
    const std::shared_ptr<Scope> parent = loop.scope.lock();
    if (loop.recursive_for == nullptr || parent == nullptr) {
        return base::invalid("only a loop that is marked 'recursive' and still runs can be called");
    }
    const ScopeGuard scope(*this, parent);
    std::string outer = std::exchange(output_, {});
    const Status status =
        run_loop(*static_cast<const ForStmt*>(loop.recursive_for), bound.at(0), loop.depth0 + 1);
    std::string text = std::exchange(output_, std::move(outer));
    if (!status.ok()) return status.error();
    return make_text(std::move(text), budget_);
}

Result<Value> Evaluator::make_range(const Arguments& arguments) {
    TRY(const Bound bound, Bound::bind("range", "start stop step", 1, arguments));
    std::array<std::int64_t, 3> numbers{0, 0, 1};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (!bound.has(i)) continue;
        std::int64_t storage = 0;
        const Value& value = bound.at(i);
        const auto* number = as_int(value, storage);
        if (number == nullptr)
            return base::invalid("range needs integers, not '" + type_name(value) + "'");
        numbers[i] = *number;
    }
    auto [start, stop, step] = numbers;
    if (!bound.has(1)) {
        stop = start;
        start = 0;
    }
    if (step == 0) return base::invalid("range: the step must not be zero");
    const double count =
        (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step);
    if (count > static_cast<double>(kMaxRange)) {
        return base::Error{base::Errc::too_large,
                           "a range of more than " + std::to_string(kMaxRange) + " items"};
    }
    std::vector<Value> items;
    for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
        items.push_back(make_int(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return jinja::make_range(std::move(items), {start, stop, step}, budget_);
}

// Makes dict(mapping or pairs, name=value...).
Result<Dict> Evaluator::make_dict_from(const Arguments& arguments) {
    Dict dict;
    if (arguments.positional.size() > 1)
        return base::invalid("dict expects at most one positional argument");
    if (!arguments.positional.empty()) {
        const Value& source = arguments.positional[0];
        if (auto error = source.is<Undefined>() ? std::nullopt : undefined_error(source))
            return *error;
        if (const auto* mapping = source.get<DictPtr>()) {
            TRY_VOID(budget_.charge((*mapping)->size()));
            dict = **mapping;
        } else {
            TRY(const std::vector<Value> pairs, iterate(source, budget_));
            for (const Value& pair : pairs) {
                TRY(const std::vector<Value> parts, iterate(pair, budget_));
                if (parts.size() != 2)
                    return base::invalid("dict needs pairs of a key and a value");
                TRY_VOID(dict.set(parts[0], parts[1]));
            }
        }
    }
    for (const auto& [name, value] : arguments.named) dict.set_text(name, value);
    return dict;
}

Result<Value> Evaluator::make_namespace(const Arguments& arguments) {
    TRY(Dict attributes, make_dict_from(arguments));
    TRY_VOID(budget_.charge(attributes.size() + 1));
    auto names = std::make_shared<Namespace>();
    names->attributes = std::move(attributes);
    namespaces_.push_back(names);
    return Value(std::move(names));
}

Result<Value> Evaluator::format_now(const Arguments& arguments) {
    TRY(const Bound bound, Bound::bind("strftime_now", "format", 1, arguments));
    if (!bound.at(0).is<Text>()) return base::invalid("strftime_now needs a format string");
    TRY(const std::string format, bound.text_at(0, ""));
    std::array<char, 4096> buffer{};
    const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &now_);
    if (size == 0 && !format.empty())
        return base::invalid("strftime_now: the format '" + format + "' gives no text");
    return make_text(std::string(buffer.data(), size), budget_);
}

}  // namespace helix::text::jinja
