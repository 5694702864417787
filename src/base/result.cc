#include "base/result.h"

namespace helix::base {

const char* to_string(Errc code) {
    switch (code) {
        case Errc::invalid:
            return "invalid";
        case Errc::not_found:
            return "not found";
        case Errc::too_large:
            return "too large";
        case Errc::overloaded:
            return "overloaded";
        case Errc::unavailable:
            return "unavailable";
        case Errc::denied:
            return "denied";
        case Errc::io:
            return "i/o error";
        case Errc::internal:
            return "internal error";
    }
    return "?";
}

}  // namespace helix::base
