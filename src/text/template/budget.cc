#include "text/template/budget.h"

#include <string>

namespace helix::text::jinja {

base::Status Budget::charge(std::uint64_t steps) {
    if (steps > steps_left_) {
        steps_left_ = 0;
        return base::Error{base::Errc::too_large,
                           "rendering takes more than " + std::to_string(limits_.steps) + " steps"};
    }
    steps_left_ -= steps;
    return base::Ok{};
}

base::Status Budget::charge_text(std::size_t bytes) {
    if (bytes > limits_.text_bytes) {
        return base::Error{
            base::Errc::too_large,
            "a string of more than " + std::to_string(limits_.text_bytes) + " bytes"};
    }
    return charge(bytes / 8 + 1);
}

}  // namespace helix::text::jinja
