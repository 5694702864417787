#include "net/multipart.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "net/http_message.h"
#include "net/http_text.h"

namespace helix::net {

using base::invalid;
using base::Result;

namespace {

constexpr std::size_t kMaxBoundary = 70;  // RFC 2046

// Takes a value off rest: a quoted one, or all up to ';'. In quotes a backslash keeps the next
// character if that is a quote or another backslash; browsers write Windows paths with single ones.
// Nothing when a quote is not closed.
std::optional<std::string> take_value(std::string_view& rest) {
    if (!rest.starts_with('"')) {
        const std::string_view value = rest.substr(0, rest.find(';'));
        rest.remove_prefix(value.size());
        return std::string(trim(value));
    }
    std::string value;
    for (std::size_t i = 1; i < rest.size(); ++i) {
        if (rest[i] == '"') {
            rest.remove_prefix(i + 1);
            return value;
        }
        const bool escape =
            rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\');
        if (escape) ++i;
        value += rest[i];
    }
    return {};
}

// The value of one parameter of a header like "form-data; name=\"file\"; filename=\"a.jsonl\"".
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
    std::size_t at = header.find(';');
    while (at != std::string_view::npos) {
        std::string_view rest = trim(header.substr(at + 1));
        const std::size_t equals = rest.find('=');
        if (equals == std::string_view::npos) return {};
        const std::string key = lower(trim(rest.substr(0, equals)));
        rest = trim(rest.substr(equals + 1));
        auto value = take_value(rest);
        if (!value || key == name) return value;
        at = rest.find(';');
        header = rest;
    }
    return {};
}

// Reads one "name: value" line of a part's head.
base::Status read_header(std::string_view line, FormPart& part, bool& named) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return invalid("the form has a header without a colon");
    const std::string key = lower(trim(line.substr(0, colon)));
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "content-type") part.content_type = value;
    if (key == "content-transfer-encoding" && lower(value) != "binary" && lower(value) != "8bit" &&
        lower(value) != "7bit") {
        return invalid(
            fmt::format("the form's transfer encoding '{:.40}' is not supported", value));
    }
    if (key != "content-disposition") return base::Ok{};
    if (!lower(value).starts_with("form-data")) {
        return invalid("the form has a part that is not form-data");
    }
    const auto name = parameter(value, "name");
    named = name.has_value();
    part.name = name.value_or("");
    part.filename = parameter(value, "filename").value_or("");
    return base::Ok{};
}

// A part is its head, an empty line and its content.
Result<FormPart> read_part(std::string_view text, const FormLimits& limits) {
    FormPart part;
    bool named = false;
    const std::size_t search = std::min(text.size(), limits.max_header_bytes);
    std::size_t at = 0;
    while (true) {
        const std::size_t end = text.substr(0, search).find("\r\n", at);
        if (end == std::string_view::npos) {
            return invalid(
                fmt::format("a part of the form has no end of its headers within {} bytes",
                            limits.max_header_bytes));
        }
        const std::string_view line = text.substr(at, end - at);
        at = end + 2;
        if (line.empty()) break;
        TRY_VOID(read_header(line, part, named));
    }
    if (!named) return invalid("a part of the form has no name");
    part.content = text.substr(at);
    return part;
}

}  // namespace

Result<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body,
                                         const FormLimits& limits) {
    const auto type = lower(trim(content_type.substr(0, content_type.find(';'))));
    if (type != "multipart/form-data") {
        return invalid("expected the content type multipart/form-data");
    }
    const auto boundary = parameter(content_type, "boundary");
    if (!boundary || boundary->empty() || boundary->size() > kMaxBoundary) {
        return invalid(
            fmt::format("the content type must name a boundary of 1 to {} bytes", kMaxBoundary));
    }
    // Every delimiter but the first follows a line end, which belongs to it.
    const std::string delimiter = "\r\n--" + *boundary;
    std::size_t at = body.starts_with(delimiter.substr(2)) ? delimiter.size() - 2 : 0;
    if (at == 0) {
        at = body.find(delimiter);
        if (at == std::string_view::npos) {
            return invalid("the form's boundary is not found in the body");
        }
        at += delimiter.size();
    }
    std::vector<FormPart> parts;
    while (!body.substr(at).starts_with("--")) {
        const std::size_t line = body.find("\r\n", at);
        const std::size_t end = line == std::string_view::npos ? line : body.find(delimiter, line);
        if (end == std::string_view::npos) return invalid("the form ends in the middle of a part");
        if (!trim(body.substr(at, line - at)).empty()) {
            return invalid("the form's boundary is followed by something else");
        }
        if (parts.size() == limits.max_parts) {
            return invalid(fmt::format("the form has more than {} parts", limits.max_parts));
        }
        TRY(FormPart part,
            read_part(body.substr(line + 2, end < line + 2 ? 0 : end - line - 2), limits));
        parts.push_back(std::move(part));
        at = end + delimiter.size();
    }
    return parts;
}

std::string query_value(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), pair.size() + 1));
        const std::size_t equals = pair.find('=');
        if (pair.substr(0, equals) != name) continue;
        if (equals == std::string_view::npos) return {};
        std::string value(pair.substr(equals + 1));
        std::replace(value.begin(), value.end(), '+', ' ');
        return percent_decode(value);
    }
    return {};
}

}  // namespace helix::net
