// Formats of JSON schema as patterns over the text's own characters. A text that matches has the
// format; some rare spellings that have it, too, are left out.

#include <fmt/format.h>

#include <array>

#include "text/grammar/schema_compiler.h"

namespace helix::text::grammar {
namespace {

// Dates and times of RFC 3339.
constexpr std::string_view kDate =
    "(([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29|"
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "02-(0[1-9]|1[0-9]|2[0-8])))";
constexpr std::string_view kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kDuration =
    "P([0-9]+W|([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)(T{0})?|T{0})";
constexpr std::string_view kDurationTime =
    "([0-9]+S|[0-9]+M([0-9]+S)?|[0-9]+H([0-9]+M([0-9]+S)?)?)";
constexpr std::string_view kUuid =
    "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
constexpr std::string_view kByte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
constexpr std::string_view kEmail =
    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,32}(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,32}){0,3}@"
    "([A-Za-z0-9](-?[A-Za-z0-9]){0,30}\\.){1,4}[A-Za-z]{2,24}";
constexpr std::string_view kHostname =
    "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    "(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,29}[A-Za-z0-9])?){0,5}";
// RFC 3986.
constexpr std::string_view kUnreserved = "[A-Za-z0-9._~!$&'()*+,;=@-]";
constexpr std::string_view kEscape = "%[0-9A-Fa-f]{2}";
constexpr std::string_view kJsonPointer = "(/([^/~]|~[01])*)*";

std::string ipv4() {
    return fmt::format("{}(\\.{}){{3}}", kByte, kByte);
}

std::string ipv6() {
    const std::string group = "[0-9a-fA-F]{1,4}";
    const std::string last = "(" + group + ":" + group + "|" + ipv4() + ")";  // 32 bits
    std::string out = fmt::format("(({0}:){{6}}{1}|::({0}:){{5}}{1}", group, last);
    for (int before = 1; before <= 5; ++before) {  // at most so many groups before "::"
        const int after = 5 - before;
        out +=
            fmt::format("|({0}(:{0}){{0,{1}}})?::({0}:){{{2}}}{3}", group, before - 1, after, last);
    }
    out += fmt::format("|({0}(:{0}){{0,5}})?::{0}|({0}(:{0}){{0,6}})?::)", group);
    return out;
}

// beyond: characters of other scripts that may stand, for the formats of IRIs.
std::string uri(std::string_view beyond) {
    const std::string path = fmt::format("({}|{}|:{})", kUnreserved, kEscape, beyond);
    const std::string authority =
        fmt::format("(({0}|:)*@)?({0}+|\\[{1}\\])(:[0-9]{{0,5}})?",
                    fmt::format("([A-Za-z0-9._~!$&'()*+,;=-]|{}{})", kEscape, beyond), ipv6());
    return fmt::format(
        "[A-Za-z][A-Za-z0-9+.-]*:(//{0}(/{1}*)*|//(/{1}*)+|/?({1}+(/{1}*)*)?)"
        "(\\?({1}|[/?])*)?(#({1}|[/?])*)?",
        authority, path);
}

std::string uri_reference(std::string_view beyond) {
    const std::string no_colon = fmt::format("({}|{}{})", kUnreserved, kEscape, beyond);
    const std::string path = fmt::format("({}|:)", no_colon);
    return fmt::format("({0}|({1}+(/{2}*)*|/({2}+(/{2}*)*)?)?(\\?({2}|[/?])*)?(#({2}|[/?])*)?)",
                       uri(beyond), no_colon, path);
}

constexpr std::string_view kBeyondAscii = "|[\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef]";

// Formats that JSON schema defines and that cannot be kept.
constexpr std::array<std::string_view, 4> kUnkeptFormats = {"regex", "idn-email", "idn-hostname",
                                                            "uri-template"};

}  // namespace

std::string format_pattern(std::string_view format) {
    if (format == "date") return std::string(kDate);
    if (format == "time") return std::string(kTime);
    if (format == "date-time") return fmt::format("{}T{}", kDate, kTime);
    if (format == "duration") return fmt::format(fmt::runtime(kDuration), kDurationTime);
    if (format == "uuid") return std::string(kUuid);
    if (format == "ipv4") return ipv4();
    if (format == "ipv6") return ipv6();
    if (format == "email") return std::string(kEmail);
    if (format == "hostname") return std::string(kHostname);
    if (format == "uri") return uri("");
    if (format == "uri-reference") return uri_reference("");
    if (format == "iri") return uri(kBeyondAscii);
    if (format == "iri-reference") return uri_reference(kBeyondAscii);
    if (format == "json-pointer") return std::string(kJsonPointer);
    if (format == "relative-json-pointer") {
        return fmt::format("(0|[1-9][0-9]*)(#|{})", kJsonPointer);
    }
    return {};
}

bool is_unknown_format(std::string_view format) {
    for (const std::string_view unkept : kUnkeptFormats) {
        if (format == unkept) return false;
    }
    return format_pattern(format).empty();
}

}  // namespace helix::text::grammar
