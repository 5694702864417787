#include "net/sse.h"

namespace helix::net {

void append_sse_event(std::string& out, std::string_view data) {
    out += "data: ";
    out += data;
    out += "\n\n";
}

void SseParser::push(std::string_view bytes) {
    for (const char c : bytes) {
        const bool lf_of_crlf = c == '\n' && after_cr_;
        after_cr_ = c == '\r';
        if (lf_of_crlf) continue;
        if (c == '\n' || c == '\r') {
            end_line();
        } else {
            line_ += c;
        }
    }
}

void SseParser::end_line() {
    if (line_.empty()) {
        if (has_data_) on_event_(data_);
        data_.clear();
        has_data_ = false;
        return;
    }
    if (line_.starts_with("data:")) {
        std::string_view value = std::string_view(line_).substr(5);
        if (value.starts_with(' ')) value.remove_prefix(1);
        if (has_data_) data_ += '\n';
        data_ += value;
        has_data_ = true;
    }
    line_.clear();
}

}  // namespace helix::net
