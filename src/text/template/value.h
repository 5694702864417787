#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/template/budget.h"

// The values of a template, with the meaning they have in Python: containers are shared by
// reference, text is UTF-8 and is indexed by code point.

namespace helix::text::jinja {

using base::Result;
using base::Status;

struct Sequence;
class Dict;
struct Namespace;
struct Loop;
struct Callable;

// A missing variable, key or index: it prints as nothing, and any other use is the error `reason`.
struct Undefined {
    std::shared_ptr<const std::string> reason;
};

struct None {};

// `markup` text was marked safe: adding other text to it escapes that text, as markupsafe does.
struct Text {
    std::shared_ptr<const std::string> bytes;
    bool markup = false;
    const std::string& str() const { return *bytes; }
};

using SequencePtr = std::shared_ptr<Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using LoopPtr = std::shared_ptr<Loop>;
using CallablePtr = std::shared_ptr<const Callable>;

class Value {
  public:
    using State = std::variant<Undefined, None, bool, std::int64_t, double, Text, SequencePtr,
                               DictPtr, NamespacePtr, LoopPtr, CallablePtr>;

    Value() : state_(None{}) {}
    template <typename T>
    explicit Value(T state) : state_(std::move(state)) {}

    template <typename T>
    bool is() const {
        return std::holds_alternative<T>(state_);
    }
    template <typename T>
    const T* get() const {
        return std::get_if<T>(&state_);
    }
    const State& state() const { return state_; }

  private:
    State state_;
};

enum class SequenceKind {
    list,
    tuple,
    group,  // one result of groupby: a tuple with the attributes grouper and list
    range,
    keys,  // the three views of a dict
    values,
    items,
    generator,  // what lazy filters return; it can be walked once and has no length
};

struct Sequence {
    SequenceKind kind = SequenceKind::list;
    std::vector<Value> items;
    int nesting = 1;                      // containers below and including this one
    std::size_t consumed = 0;             // generator: items already taken
    std::array<std::int64_t, 3> range{};  // range: start, stop, step
    std::string label;                    // generator: what Python prints
};

// Insertion-ordered; keys are hashable values (text, numbers, none, tuples of these).
class Dict {
  public:
    struct Entry {
        Value key;
        Value value;
    };

    // An equal key keeps its place and takes the new value. Fails on a key that is not hashable.
    Status set(Value key, Value value);
    void set_text(std::string_view key, Value value);
    const Value* find_text(std::string_view key) const;
    // Fails on a key that is not hashable; nullptr if absent.
    Result<const Value*> find(const Value& key) const;

    const std::vector<Entry>& entries() const { return entries_; }
    std::size_t size() const { return entries_.size(); }
    int nesting() const { return nesting_; }
    void clear();

  private:
    void set_coded(std::string code, Value key, Value value);

    std::vector<Entry> entries_;
    std::map<std::string, std::size_t, std::less<>> index_;  // coded key -> place in entries_
    int nesting_ = 1;
};

// namespace(...): the one thing a template may change from inside a loop.
struct Namespace {
    Dict attributes;
};

struct MacroDef;
struct Scope;

// The variable `loop`.
struct Loop {
    std::shared_ptr<const std::vector<Value>> items;
    std::size_t index0 = 0;
    int depth0 = 0;
    int nesting = 1;
    const void* recursive_for = nullptr;  // the For statement, if it is marked recursive
    std::weak_ptr<Scope> scope;           // where that statement stands
    bool changed_before = false;
    std::vector<Value> changed_values;
};

struct Callable {
    enum class Kind { method, global, macro };
    Kind kind = Kind::global;
    std::string name;
    Value receiver;                   // method: what it is bound to
    const MacroDef* macro = nullptr;  // macro
    Scope* scope = nullptr;           // macro: where it was defined; kept alive by the evaluator
};

// These make values. Those with a Budget check size and nesting.
Value make_undefined(std::string reason);
Value make_text(std::string bytes, bool markup = false);
Value make_int(std::int64_t number);
inline Value make_bool(bool truth) {
    return Value(truth);
}
Result<Value> make_text(std::string bytes, Budget& budget, bool markup = false);
Result<Value> make_sequence(std::vector<Value> items, Budget& budget,
                            SequenceKind kind = SequenceKind::list);
Result<Value> make_generator(std::vector<Value> items, Budget& budget, std::string_view name);
// The items are what range(start, stop, step) gives.
Result<Value> make_range(std::vector<Value> items, std::array<std::int64_t, 3> range,
                         Budget& budget);
Result<Value> make_dict(Dict dict, Budget& budget);
Result<Value> make_pair(Value first, Value second, Budget& budget);  // a tuple of two

int nesting_of(const Value& value);

// A string that is equal exactly for values that are equal as dict keys; fails on unhashable
// values.
Result<std::string> key_code(const Value& value);

// Python's name of the value's type, for messages.
std::string type_name(const Value& value);

bool is_truthy(const Value& value);
// An int or bool as a number, as in Python.
const std::int64_t* as_int(const Value& value, std::int64_t& storage);

// What a for loop walks over: items, keys or characters. A generator is used up. Fails if the value
// is no iterable.
Result<std::vector<Value>> iterate(const Value& value, Budget& budget);

}  // namespace helix::text::jinja
