#include "spec/bounded_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

namespace helix::spec {
namespace {

// Builds the value as the parser calls out its parts.
template <typename Json>
class Builder {
  public:
    Builder(const JsonLimits& limits, Json& root) : limits_(limits), root_(root) {}

    bool null() { return value(nullptr); }
    bool boolean(bool truth) { return value(truth); }
    bool number_integer(std::int64_t number) { return value(number); }
    bool number_unsigned(std::uint64_t number) { return value(number); }
    bool number_float(double number, const std::string& /*text*/) { return value(number); }
    bool string(std::string& text) { return value(std::move(text)); }
    bool binary(typename Json::binary_t& bytes) { return value(Json(std::move(bytes))); }
    bool start_object(std::size_t /*size*/) { return open(Json::object()); }
    bool start_array(std::size_t /*size*/) { return open(Json::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }

    bool key(std::string& name) {
        Level& level = levels_.back();
        auto& members = level.container->template get_ref<typename Json::object_t&>();
        if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
            const std::size_t known = place_of(level, members, name);
            if (known < members.size()) {
                note_repeated(name);
            } else {
                members.emplace_back(std::move(name), Json());
            }
            level.slot = &(members.begin() + static_cast<std::ptrdiff_t>(known))->second;
        } else {
            const auto [at, is_new] = members.try_emplace(std::move(name));
            if (!is_new) note_repeated(at->first);
            level.slot = &at->second;
        }
        return true;
    }

    bool parse_error(std::size_t byte, const std::string& /*token*/,
                     const nlohmann::detail::exception& error) {
        problem_ = JsonProblem{error.what(), false, byte};
        return false;
    }

    const std::optional<JsonProblem>& problem() const { return problem_; }
    JsonFacts& facts() { return facts_; }

  private:
    static constexpr std::size_t kFewMembers = 16;  // this many names are compared one by one

    struct Level {
        Json* container = nullptr;
        Json* slot = nullptr;                            // of an object: where the next value goes
        std::map<std::string, std::size_t> places = {};  // of an object with many members
    };

    // The index of the member; members.size() for a new name.
    template <typename Members>
    static std::size_t place_of(Level& level, const Members& members, const std::string& name) {
        if (members.size() < kFewMembers) {
            const auto same = [&name](const auto& member) { return member.first == name; };
            return static_cast<std::size_t>(std::find_if(members.begin(), members.end(), same) -
                                            members.begin());
        }
        if (level.places.empty()) {
            for (const auto& member : members) {
                level.places.emplace(member.first, level.places.size());
            }
        }
        return level.places.emplace(name, members.size()).first->second;
    }

    void note_repeated(const std::string& name) {
        if (levels_.size() == 1 && !facts_.repeated) facts_.repeated = name;
    }

    bool refuse(std::string message) {
        problem_ = JsonProblem{std::move(message), true, 0};
        return false;
    }

    template <typename T>
    bool value(T&& made) {
        return place(std::forward<T>(made)) != nullptr;
    }

    template <typename T>
    Json* place(T&& made) {
        if (++facts_.elements > limits_.elements) {
            refuse(fmt::format("it has more than {} values", limits_.elements));
            return nullptr;
        }
        Json* at = &root_;
        if (!levels_.empty()) {
            Level& level = levels_.back();
            if (level.container->is_array()) {
                auto& items = level.container->template get_ref<typename Json::array_t&>();
                return &items.emplace_back(std::forward<T>(made));
            }
            at = level.slot;
        }
        *at = Json(std::forward<T>(made));
        return at;
    }

    bool open(Json container) {
        if (levels_.size() >= limits_.depth) {
            return refuse(fmt::format("it is nested more than {} deep", limits_.depth));
        }
        Json* const at = place(std::move(container));
        if (at == nullptr) return false;
        levels_.push_back({at});
        return true;
    }
    bool close() {
        levels_.pop_back();
        return true;
    }

    const JsonLimits& limits_;
    Json& root_;
    std::vector<Level> levels_;  // the containers that are open; they stay where they are
    JsonFacts facts_;
    std::optional<JsonProblem> problem_;
};

}  // namespace

template <typename Json>
std::optional<JsonProblem> read_bounded_json(std::string_view text, const JsonLimits& limits,
                                             Json& out, JsonFacts* facts) {
    out = Json();
    Builder<Json> builder(limits, out);
    Json::sax_parse(text.begin(), text.end(), &builder);
    if (facts != nullptr) *facts = std::move(builder.facts());
    return builder.problem();
}

template std::optional<JsonProblem> read_bounded_json(std::string_view, const JsonLimits&,
                                                      nlohmann::json&, JsonFacts*);
template std::optional<JsonProblem> read_bounded_json(std::string_view, const JsonLimits&,
                                                      nlohmann::ordered_json&, JsonFacts*);

nlohmann::json bounded_json_or_discarded(std::string_view text, const JsonLimits& limits) {
    nlohmann::json out;
    if (read_bounded_json(text, limits, out)) {
        return nlohmann::json(nlohmann::json::value_t::discarded);
    }
    return out;
}

}  // namespace helix::spec
